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

// Builds the trie level by level: a node owns the sorted tokens [begin, end), which share their first `depth` bytes.
AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)), first_pairs_(65536 / 64, 0) {
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const auto& a, const auto& b) { return a.content < b.content; });
  const auto same = [](const auto& a, const auto& b) { return a.content == b.content; };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same), tokens_.end());

  struct Pending {
    std::int32_t node;
    std::size_t begin, end, depth;
  };
  nodes_.emplace_back();
  std::vector<Pending> queue{{0, 0, tokens_.size(), 0}};
  for (std::size_t q = 0; q < queue.size(); ++q) {
    auto [node, begin, end, depth] = queue[q];
    if (begin < end && tokens_[begin].content.size() == depth) nodes_[node].token = static_cast<std::int32_t>(begin++);
    nodes_[node].first_edge = static_cast<std::uint32_t>(edges_.size());
    while (begin < end) {
      const char byte = tokens_[begin].content[depth];
      std::size_t stop = begin;
      while (stop < end && tokens_[stop].content[depth] == byte) ++stop;
      const auto to = static_cast<std::int32_t>(nodes_.size());
      nodes_.emplace_back();
      edges_.push_back({static_cast<unsigned char>(byte), to});
      ++nodes_[node].num_edges;
      queue.push_back({to, begin, stop, depth + 1});
      begin = stop;
    }
  }
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

std::int32_t AddedTokens::child(std::int32_t node, unsigned char byte) const {
  const Node& n = nodes_[static_cast<std::size_t>(node)];
  const Edge* begin = edges_.data() + n.first_edge;
  const Edge* end = begin + n.num_edges;
  const Edge* found = std::lower_bound(begin, end, byte, [](const Edge& e, unsigned char b) { return e.byte < b; });
  return found != end && found->byte == byte ? found->node : -1;
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
  std::int32_t node = 0;
  for (std::size_t i = at; i < text_.size(); ++i) {
    node = tokens_.child(node, static_cast<unsigned char>(text_[i]));
    if (node < 0) break;
    const std::int32_t index = tokens_.nodes_[static_cast<std::size_t>(node)].token;
    if (index < 0) continue;
    const AddedToken& token = tokens_.tokens_[static_cast<std::size_t>(index)];
    if (!token.control || i + 1 <= control_end) best = &token;
  }
  return best;
}

std::optional<AddedTokens::Match> AddedTokens::Search::next() {
  if (tokens_.empty()) return std::nullopt;
  const std::size_t floor = at_;
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
    while (token->strip_left && begin > floor && is_space_at(text_, previous_char(text_, begin))) {
      begin = previous_char(text_, begin);
    }
    while (token->strip_right && end < text_.size() && is_space_at(text_, end)) end += char_at(text_, end).size;
    at_ = end;
    return Match{begin, end, token->id};
  }
  return std::nullopt;
}

}  // namespace weir::text
