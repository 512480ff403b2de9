// LogitMeeting: where the logits that one engine, or two, compute of the same tokens are read, row by row and in order.
//
// Two engines wait for each other here: whoever comes second has both pieces scored, on its own compute threads, and
// both go on. So the memory is that of the engines' pieces, whatever the length of the text and however each of them
// cuts it. Threads: the engines' call the readers; begin() before a sequence is submitted, abandon() from anywhere.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>

#include "base/ids.h"
#include "engine/logit_reader.h"

namespace weir::apps {

class LogitMeeting {
 public:
  // Called once for every row, on several threads at once: the number of the token it is about, its logits, and those
  // of the second engine (empty if there is none).
  using Score = std::function<void(std::int64_t token, std::span<const float> logits, std::span<const float> base)>;
  LogitMeeting(bool two, Score score);

  engine::LogitReader& reader(int side) { return readers_[static_cast<std::size_t>(side)]; }
  // Nobody else will come: who waits goes on, and nothing is scored any more.
  void abandon();

 private:
  struct Reader : engine::LogitReader {
    LogitMeeting* meeting = nullptr;
    int side = 0;
    void read(std::int64_t first, tensor::Matrix<const float> rows, backend::Backend& backend) override {
      meeting->arrive(side, first, rows, backend);
    }
  };
  // What one engine has brought: rows about the tokens [next, end) are still unread.
  struct Piece {
    std::int64_t next = 0, end = 0;
    tensor::Matrix<const float> rows;  // the last one is about end - 1
    tensor::Matrix<const float> from_next(std::int64_t count) const;
  };

  void arrive(int side, std::int64_t first, tensor::Matrix<const float> rows, backend::Backend& backend);
  void score_rows(std::int64_t count, backend::Backend& backend);

  const bool two_;
  const Score score_;
  std::array<Reader, 2> readers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::array<Piece, 2> pieces_;
  bool abandoned_ = false;
};

}  // namespace weir::apps
