#include "text/tokenizer/bpe.h"

#include <bit>
#include <utility>

#include "text/tokenizer/byte_chars.h"
#include "text/tokenizer/hash.h"
#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

constexpr std::string_view kSpaceMark = "\u2581";

template <class Word>
void for_each_marked_word(std::string_view text, bool cut, Word word) {
  std::size_t begin = 0;
  while (cut) {
    // The next mark that does not follow another one, behind the word's own leading marks.
    std::size_t at = begin;
    while (text.substr(at).starts_with(kSpaceMark)) at += kSpaceMark.size();
    at = text.find(kSpaceMark, at);
    if (at == std::string_view::npos) break;
    word(text.substr(begin, at - begin));
    begin = at;
  }
  if (begin < text.size()) word(text.substr(begin));
}

}  // namespace

PairTable::PairTable(std::size_t max_pairs) : mask_(std::bit_ceil(2 * max_pairs + 2) - 1), slots_(mask_ + 1) {}

void PairTable::insert(TokenId left, TokenId right, Merge merge) {
  std::size_t at = hash_pair(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right)) & mask_;
  for (; slots_[at].left >= 0; at = (at + 1) & mask_) {
    if (slots_[at].left == left && slots_[at].right == right) return;
  }
  slots_[at] = {left, right, merge};
}

Merge PairTable::find(TokenId left, TokenId right) const {
  std::size_t at = hash_pair(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right)) & mask_;
  for (; slots_[at].left >= 0; at = (at + 1) & mask_) {
    if (slots_[at].left == left && slots_[at].right == right) return slots_[at].merge;
  }
  return {};
}

PairBpe::PairBpe(PairBpeParts parts) : parts_(std::move(parts)), self_(parts_.texts->size()) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    byte_ids_[byte] = parts_.index.find(*parts_.texts, {&c, 1});
  }
}

void PairBpe::encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const {
  for_each_marked_word(word, parts_.cut_before_space_mark,
                       [&](std::string_view part) { encode_word(part, space, out); });
}

void PairBpe::encode_word(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const {
  const TokenId whole = parts_.index.find(*parts_.texts, word);
  if (whole >= 0) {
    const auto self = parts_.ignore_merges ? SelfTokens::Answer::kYes : self_.get(whole);
    if (self == SelfTokens::Answer::kYes) {
      out.push_back(whole);
      return;
    }
    merge_word(word, space);
    if (self == SelfTokens::Answer::kUnknown)
      self_.set(whole, space.symbols.size() == 1 && space.symbols[0].id == whole);
  } else {
    merge_word(word, space);
  }
  for (const Symbol& symbol : space.symbols) out.push_back(symbol.id);
}

void PairBpe::merge_word(std::string_view word, EncodeSpace& space) const {
  auto& symbols = space.symbols;
  symbols.clear();
  if (has_affixes()) {
    push_affixed(word, space);
  } else if (parts_.unit == BaseUnit::kByte) {
    for (std::uint32_t i = 0; i < word.size(); ++i) {
      const TokenId id = byte_ids_[static_cast<unsigned char>(word[i])];
      if (id >= 0) {
        symbols.push_back({i, 1, id});
      } else if (parts_.unknown) {
        push_unknown(1, i, symbols);
      }
    }
  } else {
    for (std::uint32_t at = 0; at < word.size();) {
      const std::string_view one = word.substr(at, char_at(word, at).size);
      push_char(one, char_token(one), at, symbols);
      at += static_cast<std::uint32_t>(one.size());
    }
  }
  merge_symbols(symbols, [&](const Symbol& l, const Symbol& r) { return parts_.pairs.find(l.id, r.id); }, space.merge);
}

void PairBpe::push_affixed(std::string_view word, EncodeSpace& space) const {
  for (std::uint32_t at = 0; at < word.size();) {
    const unsigned size = parts_.unit == BaseUnit::kByte ? 1 : char_at(word, at).size;
    std::string spelt = at > 0 ? parts_.subword_prefix : std::string();
    spelt += word.substr(at, size);
    if (at + size == word.size()) spelt += parts_.word_suffix;
    push_char(spelt, parts_.index.find(*parts_.texts, spelt), at, space.symbols);
    at += size;
  }
}

TokenId PairBpe::char_token(std::string_view text) const {
  return text.size() == 1 ? byte_ids_[static_cast<unsigned char>(text[0])] : parts_.index.find(*parts_.texts, text);
}

void PairBpe::push_char(std::string_view text, TokenId id, std::uint32_t at, std::vector<Symbol>& symbols) const {
  const auto size = static_cast<std::uint32_t>(text.size());
  if (id >= 0) {
    symbols.push_back({at, size, id});
    return;
  }
  if (parts_.byte_fallback) {
    const auto& ids = parts_.byte_fallback->ids;
    bool all = true;
    for (const char c : text) all = all && ids[static_cast<unsigned char>(c)] >= 0;
    if (all) {
      for (std::uint32_t i = 0; i < size; ++i) symbols.push_back({at + i, 1, ids[static_cast<unsigned char>(text[i])]});
      return;
    }
  }
  if (parts_.unknown) push_unknown(size, at, symbols);
}

void PairBpe::push_unknown(std::uint32_t size, std::uint32_t at, std::vector<Symbol>& symbols) const {
  if (parts_.fuse_unknown && !symbols.empty() && symbols.back().id == *parts_.unknown) {
    symbols.back().size += size;
  } else {
    symbols.push_back({at, size, *parts_.unknown});
  }
}

void CharsToBytes::encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const {
  if (const auto bytes = chars_to_bytes(word)) model_->encode(*bytes, space, out);
}

ScoreBpe::ScoreBpe(ScoreBpeParts parts) : parts_(std::move(parts)), self_(parts_.texts->size()) {}

void ScoreBpe::encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const {
  for_each_marked_word(word, parts_.cut_before_space_mark,
                       [&](std::string_view part) { encode_word(part, space, out); });
}

void ScoreBpe::encode_word(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const {
  const TokenId whole = parts_.index.find(*parts_.texts, word);
  if (whole >= 0 && self_.get(whole) == SelfTokens::Answer::kYes) {
    out.push_back(whole);
    return;
  }
  auto& symbols = space.symbols;
  symbols.clear();
  for (std::uint32_t at = 0; at < word.size();) {
    const unsigned size = char_at(word, at).size;
    symbols.push_back({at, size, -1});
    at += size;
  }
  space.parted.clear();
  merge_symbols(
      symbols,
      [&](const Symbol& left, const Symbol& right) {
        Merge merge;
        merge.id = parts_.index.find(*parts_.texts, word.substr(left.begin, left.size + right.size));
        if (merge.id < 0) return merge;
        merge.rank = parts_.ranks[static_cast<std::size_t>(merge.id)];
        if (is_unused(merge.id)) space.parted[merge.id] = left.size;
        return merge;
      },
      space.merge);
  const std::size_t before = out.size();
  for (const Symbol& symbol : symbols) emit(word, symbol, space, out);
  if (whole >= 0 && self_.get(whole) == SelfTokens::Answer::kUnknown) {
    self_.set(whole, out.size() == before + 1 && out.back() == whole);
  }
}

// Iterative: an unused piece is taken apart into what it was joined from, which may be unused in turn.
void ScoreBpe::emit(std::string_view word, Symbol symbol, EncodeSpace& space, std::vector<TokenId>& out) const {
  space.stack.assign(1, symbol);
  while (!space.stack.empty()) {
    const Symbol top = space.stack.back();
    space.stack.pop_back();
    const std::string_view text = word.substr(top.begin, top.size);
    const TokenId id = top.id >= 0 ? top.id : parts_.index.find(*parts_.texts, text);
    if (id < 0) {
      emit_unknown(text, out);
      continue;
    }
    const auto parted = is_unused(id) ? space.parted.find(id) : space.parted.end();
    if (parted == space.parted.end()) {
      out.push_back(id);
      continue;
    }
    const std::uint32_t left = parted->second;
    space.stack.push_back({top.begin + left, top.size - left, -1});
    space.stack.push_back({top.begin, left, -1});
  }
}

void ScoreBpe::emit_unknown(std::string_view text, std::vector<TokenId>& out) const {
  bool all = true;
  for (const char c : text) all = all && parts_.byte_fallback.ids[static_cast<unsigned char>(c)] >= 0;
  if (all) {
    for (const char c : text) out.push_back(parts_.byte_fallback.ids[static_cast<unsigned char>(c)]);
  } else if (parts_.unknown && (out.empty() || out.back() != *parts_.unknown)) {
    out.push_back(*parts_.unknown);
  }
}

bool space_mark_only_leads(std::string_view token) {
  std::size_t at = 0;
  while (token.substr(at).starts_with(kSpaceMark)) at += kSpaceMark.size();
  return token.find(kSpaceMark, at) == std::string_view::npos;
}

}  // namespace weir::text
