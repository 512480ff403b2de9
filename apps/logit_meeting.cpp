#include "apps/logit_meeting.h"

#include <algorithm>

#include "backend/backend.h"
#include "base/check.h"

namespace weir::apps {

LogitMeeting::LogitMeeting(bool two, Score score) : two_(two), score_(std::move(score)) {
  for (int side = 0; side < 2; ++side) {
    readers_[static_cast<std::size_t>(side)].meeting = this;
    readers_[static_cast<std::size_t>(side)].side = side;
  }
}

tensor::Matrix<const float> LogitMeeting::Piece::from_next(std::int64_t count) const {
  return {rows.row(rows.rows - (end - next)), count, rows.cols, rows.stride};
}

void LogitMeeting::abandon() {
  const std::lock_guard lock(mutex_);
  abandoned_ = true;
  changed_.notify_all();
}

void LogitMeeting::arrive(int side, std::int64_t first, tensor::Matrix<const float> rows, backend::Backend& backend) {
  std::unique_lock lock(mutex_);
  Piece& mine = pieces_[static_cast<std::size_t>(side)];
  Piece& other = pieces_[static_cast<std::size_t>(1 - side)];
  mine = {first, first + rows.rows, rows};
  while (mine.next < mine.end && !abandoned_) {
    const std::int64_t left = mine.end - mine.next, there = two_ ? other.end - other.next : left;
    if (there == 0) {
      changed_.wait(lock);
      continue;
    }
    CHECK(!two_ || mine.next == other.next, "token {} meets token {}", mine.next, other.next);
    const std::int64_t count = std::min(left, there);
    score_rows(count, backend);
    mine.next += count;
    if (two_) other.next += count;
    changed_.notify_all();
  }
}

void LogitMeeting::score_rows(std::int64_t count, backend::Backend& backend) {
  const std::int64_t first = pieces_[0].next;
  const auto logits = pieces_[0].from_next(count);
  const auto base = two_ ? pieces_[1].from_next(count) : tensor::Matrix<const float>();
  const auto width = static_cast<std::size_t>(logits.cols);
  backend.parallel_for(count, [&](std::int64_t i) {
    score_(first + i, {logits.row(i), width},
           two_ ? std::span<const float>(base.row(i), width) : std::span<const float>());
  });
}

}  // namespace weir::apps
