#include "text/tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

bool is_space_at(std::string_view text, std::size_t at) {
  return (class_of(char_at(text, at).code) & char_class::kSpace) != 0;
}

std::size_t pair_index(unsigned char first, unsigned char second) {
  return std::size_t{first} << 8 | second;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), first_pairs_(65536 / 64, 0) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    entries.emplace_back(tokens_[i].content, static_cast<std::int32_t>(i));
  }
  trie_ = Trie(std::move(entries));
  for (const AddedToken& token : tokens_) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(token.content[i]); };
    if (token.content.size() == 1) {
      single_bytes_.set(byte(0));
    } else {
      const std::size_t pair = pair_index(byte(0), byte(1));
      first_pairs_[pair / 64] |= std::uint64_t{1} << pair % 64;
    }
  }
}

bool AddedTokens::may_begin(std::string_view text, std::size_t at) const {
  const auto first = static_cast<unsigned char>(text[at]);
  if (at + 1 < text.size()) {
    const std::size_t pair = pair_index(first, static_cast<unsigned char>(text[at + 1]));
    if ((first_pairs_[pair / 64] >> pair % 64 & 1) != 0) return true;
  }
  return single_bytes_[first];
}

const AddedToken* AddedTokens::Search::longest_at(std::size_t at) {
  std::size_t control_end = rule_.allowed ? text_.size() : 0;  // control tokens must end here or before
  if (rule_.allowed) {
    const auto& forbidden = rule_.forbidden;
    while (next_range_ < forbidden.size() && forbidden[next_range_].end <= at) ++next_range_;
    if (next_range_ < forbidden.size()) control_end = std::min(control_end, forbidden[next_range_].begin);
  }
  const AddedToken* best = nullptr;
  tokens_.trie_.prefixes(text_.substr(at), [&](std::size_t size, std::int32_t index) {
    const AddedToken& token = tokens_.tokens_[static_cast<std::size_t>(index)];
    if (!token.control || at + size <= control_end) best = &token;
  });
  return best;
}

std::optional<AddedTokens::Match> AddedTokens::Search::next() {
  if (tokens_.empty()) return std::nullopt;
  while (at_ < text_.size()) {
    const AddedToken* token = tokens_.may_begin(text_, at_) ? longest_at(at_) : nullptr;
    if (token == nullptr) {
      ++at_;
      continue;
    }
    std::size_t begin = at_, end = at_ + token->content.size();
    at_ = end;
    if (token->single_word) {
      const bool word_before = begin > 0 && is_word_char(char_at(text_, previous_char(text_, begin)).code);
      const bool word_behind = end < text_.size() && is_word_char(char_at(text_, end).code);
      if (word_before || word_behind) continue;
    }
    while (token->strip_left && begin > end_ && is_space_at(text_, previous_char(text_, begin))) {
      begin = previous_char(text_, begin);
    }
    while (token->strip_right && end < text_.size() && is_space_at(text_, end)) end += char_at(text_, end).size;
    // A token may stand in white space that the one before has taken along. One that would take what is left of it is
    // then nothing; others count.
    if (token->strip_left && end <= end_) continue;
    begin = std::max(begin, end_);
    end_ = std::max(end, begin);
    return Match{begin, end_, token->id};
  }
  return std::nullopt;
}

}  // namespace weir::text
