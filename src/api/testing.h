// For the tests of this folder: a tokenizer whose tokens are bytes, an engine that speaks from a script, and a raw HTTP
// client.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/clock.h"
#include "api/engine_client.h"
#include "base/check.h"
#include "text/tokenizer.h"

namespace weir::api::testing {

// Ids 0 to 255 are the bytes; then two control tokens and two words.
class ByteTokenizer final : public text::Tokenizer {
 public:
  static constexpr TokenId kBos = 256, kEos = 257, kHello = 258, kWorld = 259, kSize = 260;

  std::vector<TokenId> encode(std::string_view text, const text::EncodeOptions& options) const override {
    std::vector<TokenId> ids;
    if (options.add_special) ids.push_back(kBos);
    for (std::size_t i = 0; i < text.size();) {
      if (options.parse_special && text.substr(i).starts_with("<eos>")) {
        ids.push_back(kEos);
        i += 5;
      } else {
        ids.push_back(static_cast<unsigned char>(text[i++]));
      }
    }
    return ids;
  }
  std::string_view token_bytes(TokenId id, bool skip_special) const override {
    return id < 0 || id >= kSize || (skip_special && is_control(id))
               ? std::string_view()
               : std::string_view(texts_[static_cast<std::size_t>(id)]);
  }
  std::string_view first_token_bytes(TokenId id, bool skip_special) const override {
    return token_bytes(id, skip_special);
  }
  std::size_t tail_bytes(TokenId) const override { return 0; }
  TokenId vocab_size() const override { return kSize; }
  bool is_control(TokenId id) const override { return id == kBos || id == kEos; }
  std::optional<TokenId> bos() const override { return kBos; }
  std::optional<TokenId> eos() const override { return kEos; }
  std::string_view token_text(TokenId id) const override { return token_bytes(id, false); }
  std::optional<TokenId> id_of(std::string_view) const override { return std::nullopt; }
  std::vector<TokenId> end_of_generation_ids() const override { return {kEos}; }

 private:
  static std::array<std::string, kSize> make_texts() {
    std::array<std::string, kSize> texts;
    for (std::size_t i = 0; i < 256; ++i) texts[i] = std::string(1, static_cast<char>(i));
    texts[kBos] = "<bos>";
    texts[kEos] = "<eos>";
    texts[kHello] = "Hello";
    texts[kWorld] = " world";
    return texts;
  }
  std::array<std::string, kSize> texts_ = make_texts();
};

// Says what `script` says: the reply's token at a position. A step takes `step` and gives one token to each running
// sequence.
class FakeEngine final : public EngineClient {
 public:
  using Script = std::function<TokenId(const engine::SequenceRequest&, std::int64_t)>;

  FakeEngine(engine::OutputSink sink, Script script, std::chrono::microseconds step, int max_num_seqs = 8)
      : sink_(std::move(sink)), script_(std::move(script)), step_(step) {
    info_.max_model_len = 512;
    info_.max_num_seqs = max_num_seqs;
    thread_ = std::thread([this] { loop(); });
  }
  ~FakeEngine() override { stop(); }

  // Nothing comes out after this.
  void stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  Result<std::vector<SeqId>> submit_all(std::vector<engine::SequenceRequest> requests) override {
    std::lock_guard lock(mutex_);
    if (refuse_) return fail(ErrorCode::kOverloaded, "the queue is full");
    std::vector<SeqId> ids;
    for (auto& request : requests) {
      ids.push_back(SeqId{next_++});
      sequences_.emplace(value(ids.back()), Sequence{std::move(request), {}, monotonic_s(), 0});
    }
    changed_.notify_all();
    return ids;
  }
  void cancel(SeqId id) override {
    std::lock_guard lock(mutex_);
    if (sequences_.erase(value(id)) != 0) ++cancelled_;
  }
  Status check_fits(std::int64_t, std::int64_t) const override { return {}; }
  engine::EngineStats stats() const override {
    std::lock_guard lock(mutex_);
    engine::EngineStats stats;
    stats.running = std::min(static_cast<int>(sequences_.size()), info_.max_num_seqs);
    stats.waiting = static_cast<int>(sequences_.size()) - stats.running;
    return stats;
  }
  const engine::EngineInfo& info() const override { return info_; }

  void refuse() {
    std::lock_guard lock(mutex_);
    refuse_ = true;
  }
  void break_next() {
    std::lock_guard lock(mutex_);
    break_next_ = true;
  }
  int cancelled() const {
    std::lock_guard lock(mutex_);
    return cancelled_;
  }
  std::int64_t produced() const {
    std::lock_guard lock(mutex_);
    return produced_;
  }

 private:
  struct Sequence {
    engine::SequenceRequest request;
    std::vector<TokenId> reply;
    double queued_s = 0, scheduled_s = 0;
  };

  static engine::PositionLogprobs logprobs_of(TokenId id, int top) {
    engine::PositionLogprobs out{{id, -0.25f, 1}, {}};
    for (int i = 0; i < top; ++i)
      out.top.push_back({(id + i) % ByteTokenizer::kSize, -0.25f - static_cast<float>(i), i + 1});
    return out;
  }

  // One step of one sequence.
  engine::SequenceOutput advance(std::uint64_t id, Sequence& sequence) {
    const auto& request = sequence.request;
    const auto& sampling = request.sampling;
    engine::SequenceOutput out;
    out.id = SeqId{id};
    if (sequence.scheduled_s == 0) {
      sequence.scheduled_s = monotonic_s();
      for (std::size_t i = 1; sampling.prompt_logprobs >= 0 && i < request.prompt.size(); ++i) {
        out.prompt_logprobs.push_back(logprobs_of(request.prompt[i], sampling.prompt_logprobs));
      }
    }
    out.queued_s = sequence.queued_s;
    out.scheduled_s = sequence.scheduled_s;
    out.produced_s = monotonic_s();
    out.cached_tokens = 1;
    if (std::exchange(break_next_, false)) {
      out.finish = engine::FinishReason::kError;
      out.error = "its logits hold a NaN";
      return out;
    }
    const auto done = static_cast<std::int64_t>(sequence.reply.size());
    if (done < sampling.max_tokens) {
      const TokenId token = script_(request, done);
      sequence.reply.push_back(token);
      ++produced_;
      out.tokens.push_back(token);
      if (sampling.logprobs >= 0) out.logprobs.push_back(logprobs_of(token, sampling.logprobs));
      const auto has = [&](const std::vector<TokenId>& ids) {
        return std::find(ids.begin(), ids.end(), token) != ids.end();
      };
      if ((has(request.eos_ids) && !sampling.ignore_eos) || has(sampling.stop_token_ids)) {
        out.finish = engine::FinishReason::kStop;
        out.stop_token = token;
      }
    }
    if (!out.finish && static_cast<std::int64_t>(sequence.reply.size()) >= sampling.max_tokens)
      out.finish = engine::FinishReason::kLength;
    return out;
  }

  void loop() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      changed_.wait(lock, [this] { return stop_ || !sequences_.empty(); });
      std::vector<engine::SequenceOutput> outputs;
      for (auto it = sequences_.begin();
           it != sequences_.end() && static_cast<int>(outputs.size()) < info_.max_num_seqs;) {
        outputs.push_back(advance(it->first, it->second));
        it = outputs.back().finish ? sequences_.erase(it) : std::next(it);
      }
      lock.unlock();
      if (!outputs.empty()) sink_(outputs);
      std::this_thread::sleep_for(step_);
      lock.lock();
    }
  }

  engine::OutputSink sink_;
  Script script_;
  std::chrono::microseconds step_;
  engine::EngineInfo info_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Sequence> sequences_;  // in order of arrival
  std::uint64_t next_ = 1;
  std::int64_t produced_ = 0;
  int cancelled_ = 0;
  bool stop_ = false, refuse_ = false, break_next_ = false;
  std::thread thread_;
};

struct Response {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

// A TCP connection to a server of this process. Reading waits at most some seconds, so a test cannot hang.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    CHECK(connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  ~RawClient() { close(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
  void reset() {  // close with RST
    const linger hard{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close();
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // More bytes into `data`; false at the end of the stream (or after `wait_ms` of silence).
  bool receive(int wait_ms = 10'000) {
    pollfd ready{fd_, POLLIN, 0};
    if (poll(&ready, 1, wait_ms) <= 0) return false;
    std::array<char, 65536> buffer{};
    const auto n = recv(fd_, buffer.data(), buffer.size(), 0);
    if (n <= 0) return false;
    data.append(buffer.data(), static_cast<std::size_t>(n));
    return true;
  }
  bool at_end(int wait_ms = 10'000) {
    while (receive(wait_ms)) {
    }
    pollfd ready{fd_, POLLIN, 0};
    char byte = 0;
    return poll(&ready, 1, 0) > 0 && recv(fd_, &byte, 1, MSG_PEEK) <= 0;
  }
  // The next response; chunked bodies are put together. Status 0: none came.
  Response response() {
    Response out;
    std::size_t head_end = std::string::npos;
    while ((head_end = data.find("\r\n\r\n")) == std::string::npos) {
      if (!receive()) return out;
    }
    parse_head(data.substr(0, head_end + 2), out);
    data.erase(0, head_end + 4);
    if (out.headers.contains("transfer-encoding")) {
      read_chunks(out.body);
    } else if (out.headers.contains("content-length")) {
      const auto length = static_cast<std::size_t>(std::stoul(out.headers["content-length"]));
      while (data.size() < length && receive()) {
      }
      out.body = data.substr(0, length);
      data.erase(0, length);
    }
    return out;
  }

  std::string data;  // received, not consumed

 private:
  static void parse_head(const std::string& head, Response& out) {
    out.status = std::stoi(head.substr(9, 3));
    for (std::size_t at = head.find("\r\n") + 2; at < head.size();) {
      const auto end = head.find("\r\n", at), colon = head.find(": ", at);
      std::string name = head.substr(at, colon - at);
      for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      out.headers[name] = head.substr(colon + 2, end - colon - 2);
      at = end + 2;
    }
  }
  void read_chunks(std::string& body) {
    while (true) {
      std::size_t line_end = 0;
      while ((line_end = data.find("\r\n")) == std::string::npos) {
        if (!receive()) return;
      }
      const auto length = static_cast<std::size_t>(std::stoul(data.substr(0, line_end), nullptr, 16));
      while (data.size() < line_end + 2 + length + 2) {
        if (!receive()) return;
      }
      body += data.substr(line_end + 2, length);
      data.erase(0, line_end + 2 + length + 2);
      if (length == 0) return;
    }
  }

  int fd_;
};

inline std::string http_request(std::string_view method, std::string_view target, std::string_view body = {},
                                std::string_view more = {}) {
  std::string out = fmt::format("{} {} HTTP/1.1\r\nHost: 127.0.0.1\r\n{}", method, target, more);
  if (!body.empty() || method == "POST")
    out += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  return out + "\r\n" + std::string(body);
}

// Waits until `condition` holds; false after some seconds.
template <class Condition>
bool eventually(Condition&& condition) {
  for (int i = 0; i < 2000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

}  // namespace weir::api::testing
