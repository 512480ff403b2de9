#include "text/tokenizer/token_table.h"

#include <algorithm>
#include <bit>
#include <random>

#include "text/tokenizer/hash.h"

namespace weir::text {

const std::uint64_t kHashSeed = [] {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}();

TextIndex::TextIndex(std::size_t max_tokens)
    : mask_(std::bit_ceil(2 * max_tokens + 2) - 1), slots_(mask_ + 1) {}  // at most half full

void TextIndex::insert(const TokenTable& table, TokenId id) {
  const std::string_view text = table[id];
  if (text.empty()) return;
  longest_ = std::max(longest_, text.size());
  const std::uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  std::size_t at = hash & mask_;
  for (; slots_[at].id != kNone; at = (at + 1) & mask_) {
    if (slots_[at].tag == tag && table[slots_[at].id] == text) return;
  }
  slots_[at] = {tag, id};
}

TokenId TextIndex::find(const TokenTable& table, std::string_view text) const {
  if (text.size() > longest_ || text.empty()) return kNone;
  const std::uint64_t hash = hash_bytes(text);
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  for (std::size_t at = hash & mask_; slots_[at].id != kNone; at = (at + 1) & mask_) {
    if (slots_[at].tag == tag && table[slots_[at].id] == text) return slots_[at].id;
  }
  return kNone;
}

}  // namespace weir::text
