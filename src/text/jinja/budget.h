// Budget: the steps and bytes one rendering may still spend.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/jinja/error.h"
#include "text/jinja/limits.h"

namespace weir::text::jinja {

class Budget {
 public:
  Budget(std::uint64_t input_values, std::uint64_t input_bytes)
      : max_steps_(kBaseSteps + input_values * kStepsPerInputValue),
        max_bytes_(kBaseWorkBytes + input_bytes * kWorkBytesPerInputByte) {}

  void step(std::uint64_t count = 1) {
    steps_ += count;
    if (steps_ > max_steps_) [[unlikely]]
      raise("the template takes more than {} steps; does it loop for ever?", max_steps_);
  }

  // For work that grows with a text: 64 bytes cost about as much as a step.
  void scan(std::size_t bytes) { step(bytes / 64); }

  // A text of this size is made, or about to be.
  void text(std::size_t bytes) {
    limit(bytes);
    spend(bytes);
  }
  void limit(std::size_t bytes) const {
    if (bytes > kMaxTextBytes) [[unlikely]]
      raise("the template makes a text of {} bytes, more than {} are not allowed", bytes, kMaxTextBytes);
  }

  // A container of this many items is about to be made.
  void items(std::size_t count) {
    if (count > kMaxItems) [[unlikely]]
      raise("the template makes a container of {} items, more than {} are not allowed", count, kMaxItems);
    spend(count * kItemBytes);
  }

  void spend(std::size_t bytes) {
    bytes_ += bytes;
    if (bytes_ > max_bytes_) [[unlikely]]
      raise("the template makes more than {} bytes of data from its input", max_bytes_);
  }

 private:
  static constexpr std::size_t kItemBytes = 64;  // a Value and its share of the container

  std::uint64_t steps_ = 0, bytes_ = 0;
  std::uint64_t max_steps_, max_bytes_;
};

}  // namespace weir::text::jinja
