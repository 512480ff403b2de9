// Generation: one completion or chat request from submission to the last byte of its answer.
//
// Lives on the dispatcher's thread. Outputs go in by choice; stream events or the whole reply come out through the
// Reply.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/http.h"
#include "api/metrics.h"
#include "api/reply_format.h"

namespace weir::api {

struct GenerationJob {
  GenerationRequest request;
  std::vector<EncodedPrompt> prompts;
  std::shared_ptr<Reply> reply;  // shared: the server's connection and the threads that answer
  std::string id;
  std::uint64_t seed = 0;
  std::int64_t created_s = 0;  // Unix time
  double arrived_s = 0.0;      // monotonic
};

class Generation {
 public:
  Generation(const ServedModel& model, Metrics& metrics, GenerationJob job);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  // One per choice: prompt 0's choices first, then prompt 1's ...
  std::vector<engine::SequenceRequest> sequences() const;
  // They are in the engine now.
  void submitted(std::vector<SeqId> ids);
  const std::vector<SeqId>& ids() const { return ids_; }

  // Returns true if the sequence is to be cancelled: its text has ended, the engine does not know yet.
  bool take(std::size_t choice, engine::SequenceOutput&& output, double now_s);
  // Sends what is ready; when all choices have ended, the end.
  void flush(double now_s);
  // Ends the request early and tells the client why.
  void give_up(const Error& error, double now_s);
  // Ends the request early because nobody listens any more.
  void client_left(double now_s);

  bool complete() const { return complete_; }
  Reply& reply() { return *job_.reply; }

 private:
  struct Choice {
    ReplyText text;
    const EncodedPrompt* prompt;
    ReplyPart whole;    // of a reply that is not streamed
    bool sent = false;  // a part of it has been streamed
  };

  void name_calls(std::size_t choice, ReplyPart& part) const;
  Usage usage() const;
  void note_output(const engine::SequenceOutput& output, std::size_t choice, double now_s);
  void finish(std::string_view reason, int status, double now_s);
  std::string whole() const;

  const ServedModel* model_;
  Metrics* metrics_;
  GenerationJob job_;
  std::optional<StopMatcher> stops_;
  ReplyFrame frame_;
  std::vector<Choice> choices_;
  std::vector<SeqId> ids_;
  std::vector<std::int64_t> cached_;  // by prompt; -1: not known yet
  std::vector<double> last_token_s_;  // by choice; 0: none yet
  std::string events_;                // of a stream, not handed to the reply yet
  std::size_t open_choices_ = 0;
  std::optional<std::string> failure_;  // what the engine says of a choice that it could not go on with
  bool complete_ = false;
  double queued_s_ = 0, scheduled_s_ = 0, first_token_s_ = 0, latest_token_s_ = 0;
};

}  // namespace weir::api
