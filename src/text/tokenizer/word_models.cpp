#include "text/tokenizer/word_models.h"

#include "text/tokenizer/unicode.h"

namespace weir::text {

void WordPiece::encode(std::string_view word, EncodeSpace&, std::vector<TokenId>& out) const {
  const auto unknown = [&] {
    if (parts_.unknown) out.push_back(*parts_.unknown);
  };
  std::size_t chars = 0;
  for (std::size_t at = 0; at < word.size(); at += char_at(word, at).size) ++chars;
  if (chars > parts_.max_chars) return unknown();
  const std::size_t before = out.size();
  for (std::size_t at = 0; at < word.size();) {
    std::size_t longest = 0;
    const Trie& pieces = at == 0 ? parts_.starts : parts_.continuations;
    TokenId best = -1;
    pieces.prefixes(word.substr(at), [&](std::size_t size, std::int32_t id) {
      longest = size;
      best = id;
    });
    if (longest == 0) {
      out.resize(before);
      return unknown();
    }
    out.push_back(best);
    at += longest;
  }
}

void Unigram::encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const {
  constexpr TokenId kUnknown = -1;
  auto& best = space.paths;
  best.assign(word.size() + 1, {});
  best[0].reached = true;
  for (std::size_t at = 0; at < word.size();) {
    const std::size_t char_size = char_at(word, at).size;
    const double till_here = best[at].score;
    const auto offer = [&](std::size_t size, TokenId id, double score) {
      auto& there = best[at + size];
      if (there.reached && till_here + score <= there.score) return;
      there = {till_here + score, at, id, true};
    };
    bool single = false;
    parts_.pieces.prefixes(word.substr(at), [&](std::size_t size, std::int32_t id) {
      offer(size, id, parts_.scores[static_cast<std::size_t>(id)]);
      single = single || size == char_size;
    });
    if (!single) offer(char_size, kUnknown, parts_.unknown_score);
    at += char_size;
  }
  // Backwards over the best path, then forwards.
  auto& cuts = space.cuts;
  cuts.clear();
  for (std::size_t at = word.size(); at > 0; at = best[at].from) cuts.push_back(at);
  std::size_t begin = 0;
  while (!cuts.empty()) {
    std::size_t end = cuts.back();
    cuts.pop_back();
    if (best[end].id != kUnknown) {
      out.push_back(best[end].id);
    } else {
      for (; !cuts.empty() && best[cuts.back()].id == kUnknown; cuts.pop_back()) end = cuts.back();
      emit_unknown(word.substr(begin, end - begin), out);
    }
    begin = end;
  }
}

void Unigram::emit_unknown(std::string_view text, std::vector<TokenId>& out) const {
  bool all = parts_.byte_fallback.has_value();
  const auto id_of = [&](char c) { return parts_.byte_fallback->ids[static_cast<unsigned char>(c)]; };
  for (std::size_t i = 0; all && i < text.size(); ++i) all = id_of(text[i]) >= 0;
  if (all) {
    for (const char c : text) out.push_back(id_of(c));
  } else if (parts_.unknown) {
    out.push_back(*parts_.unknown);
  }
}

void RankBpe::encode(std::string_view word, EncodeSpace& space, std::vector<TokenId>& out) const {
  if (const TokenId whole = index_.find(*bytes_, word); whole >= 0) {
    out.push_back(whole);
    return;
  }
  auto& symbols = space.symbols;
  symbols.clear();
  for (std::uint32_t i = 0; i < word.size(); ++i) {
    if (const TokenId id = index_.find(*bytes_, word.substr(i, 1)); id >= 0) symbols.push_back({i, 1, id});
  }
  merge_symbols(
      symbols,
      [&](const Symbol& left, const Symbol& right) {
        if (left.begin + left.size != right.begin) return Merge{};  // a byte without a token stood between them
        const TokenId id = index_.find(*bytes_, word.substr(left.begin, left.size + right.size));
        return id < 0 ? Merge{} : Merge{static_cast<std::uint32_t>(id), id};
      },
      space.merge);
  for (const Symbol& symbol : symbols) out.push_back(symbol.id);
}

void WordLevel::encode(std::string_view word, EncodeSpace&, std::vector<TokenId>& out) const {
  const TokenId id = index_.find(*texts_, word);
  if (id >= 0) {
    out.push_back(id);
  } else if (unknown_) {
    out.push_back(*unknown_);
  }
}

}  // namespace weir::text
