// ReplyReader: the body of one answer, in any pieces, into a RequestRecord. Understands the event streams and the whole
// replies of OpenAI's completions as weir, vLLM, SGLang and llama.cpp send them.
//
// Nothing a server sends is trusted: events and bodies have size limits. Cost: O(bytes). Threads: one.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "driver/record.h"

namespace weir::driver {

class ReplyReader {
 public:
  ReplyReader(RequestRecord& record, int status, bool event_stream);

  // Bytes of the body that came at `now_s`. False: the record has an error and the rest does not matter.
  bool take(std::string_view bytes, double now_s);
  // The body is whole. What a good answer lacks becomes the record's error.
  void end(double now_s);

 private:
  void take_event(std::string_view data, double now_s);
  void take_json(const nlohmann::json& json, double now_s);
  void take_usage(const nlohmann::json& usage);
  void fail(std::string why);

  RequestRecord& record_;
  bool stream_;
  bool done_ = false;      // [DONE] came
  bool finished_ = false;  // a finish_reason came
  std::string buffer_;     // an event or body that is not whole yet
  std::string data_;       // of the event being read
  std::int64_t usage_tokens_ = -1, id_tokens_ = 0, chunks_ = 0;
  std::int64_t counted_ = 0;  // of usage_tokens_, already given to an arrival
};

}  // namespace weir::driver
