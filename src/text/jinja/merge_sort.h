// A stable sort that stays inside its array whatever the order says: template values such as NaN have none that is
// consistent, and comparing may raise. n log n; items are only moved.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace weir::text::jinja {

template <class T, class Less>
void merge_sort(std::vector<T>& items, Less less) {
  std::vector<T> merged(items.size());
  for (std::size_t width = 1; width < items.size(); width *= 2) {
    for (std::size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const std::size_t middle = std::min(begin + width, items.size()), end = std::min(begin + 2 * width, items.size());
      std::size_t left = begin, right = middle;
      for (std::size_t out = begin; out < end; ++out) {
        const bool take_right = right < end && (left == middle || less(items[right], items[left]));
        merged[out] = std::move(items[take_right ? right++ : left++]);
      }
    }
    items.swap(merged);
  }
}

}  // namespace weir::text::jinja
