// TokenTable: one string per token id, in one arena; TextIndex: the way back, from string to id.
//
// Immutable once filled; any number of threads. Look-up: one probe on average; the table keeps part of the hash, so a
// miss rarely touches the strings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace weir::text {

class TokenTable {
 public:
  void reserve(std::size_t tokens, std::size_t bytes) {
    ends_.reserve(tokens + 1);
    arena_.reserve(bytes);
  }
  void push_back(std::string_view text) {
    arena_ += text;
    ends_.push_back(arena_.size());
  }
  std::size_t size() const { return ends_.size() - 1; }
  bool contains(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < size(); }
  // Empty for ids out of range.
  std::string_view operator[](TokenId id) const {
    if (!contains(id)) return {};
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(arena_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }

 private:
  std::string arena_;
  std::vector<std::size_t> ends_{0};
};

class TextIndex {
 public:
  static constexpr TokenId kNone = -1;

  TextIndex() = default;
  explicit TextIndex(std::size_t max_tokens);

  // The first id inserted for a string stays. `table` is the same in all calls. Empty strings are not kept.
  void insert(const TokenTable& table, TokenId id);
  TokenId find(const TokenTable& table, std::string_view text) const;
  std::size_t longest() const { return longest_; }

 private:
  struct Slot {
    std::uint32_t tag = 0;
    TokenId id = kNone;
  };
  std::size_t mask_ = 0;
  std::vector<Slot> slots_{Slot{}};
  std::size_t longest_ = 0;
};

}  // namespace weir::text
