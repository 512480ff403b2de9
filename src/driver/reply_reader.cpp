#include "driver/reply_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace weir::driver {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxEventBytes = 4 << 20;
constexpr std::size_t kMaxBodyBytes = 16 << 20;
constexpr std::size_t kShownBytes = 300;  // of what a server said about an error
constexpr std::int64_t kMaxTokens = 1 << 30;

std::string shown(std::string_view text) {
  return printable(std::string(text.substr(0, kShownBytes)));
}

// -1: absent or no sensible number.
std::int64_t count_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number_integer()) return -1;
  const auto value = it->get<std::int64_t>();
  return value >= 0 && value <= kMaxTokens ? value : -1;
}

std::string error_text(const Json& json) {
  const auto it = json.find("error");
  if (it == json.end() || it->is_null()) return {};
  if (it->is_object() && it->contains("message") && (*it)["message"].is_string())
    return shown((*it)["message"].get_ref<const std::string&>());
  return shown(it->dump());
}

}  // namespace

ReplyReader::ReplyReader(RequestRecord& record, int status, bool event_stream)
    : record_(record), stream_(event_stream && status == 200) {
  record_.status = status;
}

void ReplyReader::fail(std::string why) {
  if (record_.error.empty()) record_.error = std::move(why);
}

bool ReplyReader::take(std::string_view bytes, double now_s) {
  if (!record_.ok()) return false;
  if (!stream_) {
    if (buffer_.size() + bytes.size() > kMaxBodyBytes) fail("the answer is larger than 16 MiB");
    buffer_.append(bytes);
    return record_.ok();
  }
  while (!bytes.empty() && record_.ok()) {
    const std::size_t line_end = bytes.find('\n');
    if (buffer_.size() + data_.size() + std::min(line_end, bytes.size()) > kMaxEventBytes) {
      fail("an event is larger than 4 MiB");
      break;
    }
    buffer_.append(bytes.substr(0, line_end));
    if (line_end == std::string_view::npos) break;
    bytes.remove_prefix(line_end + 1);
    std::string_view line = buffer_;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) {
      if (!data_.empty()) take_event(data_, now_s);
      data_.clear();
    } else if (line.starts_with("data:")) {
      line.remove_prefix(line.starts_with("data: ") ? 6 : 5);
      if (!data_.empty()) data_ += '\n';
      data_ += line;
    }  // else a comment, or a field of no interest
    buffer_.clear();
  }
  return record_.ok();
}

void ReplyReader::take_event(std::string_view data, double now_s) {
  if (data == "[DONE]") {
    done_ = true;
    return;
  }
  const Json json = Json::parse(data, nullptr, false);
  if (!json.is_object()) return fail(fmt::format("an event is no JSON object: {}", shown(data)));
  take_json(json, now_s);
}

void ReplyReader::take_usage(const Json& usage) {
  if (!usage.is_object()) return;
  if (const auto n = count_of(usage, "completion_tokens"); n >= 0) usage_tokens_ = std::max(usage_tokens_, n);
  if (const auto n = count_of(usage, "prompt_tokens"); n >= 0) record_.prompt_tokens = n;
  const auto details = usage.find("prompt_tokens_details");
  if (details == usage.end() || !details->is_object()) return;
  if (const auto n = count_of(*details, "cached_tokens"); n >= 0) record_.cached_tokens = n;
}

void ReplyReader::take_json(const Json& json, double now_s) {
  if (const std::string error = error_text(json); !error.empty()) return fail("the server: " + error);
  if (const auto usage = json.find("usage"); usage != json.end()) take_usage(*usage);
  const auto choices = json.find("choices");
  if (choices == json.end() || !choices->is_array() || choices->empty()) return;
  std::int64_t ids = 0;
  bool said = false;
  for (const Json& choice : *choices) {
    if (!choice.is_object()) continue;
    const auto finish = choice.find("finish_reason");
    finished_ |= finish != choice.end() && !finish->is_null();
    const auto list = choice.find("token_ids");
    if (list != choice.end() && list->is_array()) ids += static_cast<std::int64_t>(list->size());
    const auto text = choice.find("text");
    said |= text != choice.end() && text->is_string() && !text->get_ref<const std::string&>().empty();
  }
  id_tokens_ += ids;
  // Tokens that this event brought, by the best count that it has.
  std::int64_t tokens = said ? 1 : 0;
  if (usage_tokens_ > counted_) {
    tokens = usage_tokens_ - counted_;
    counted_ = usage_tokens_;
  } else if (usage_tokens_ >= 0 && json.contains("usage") && json["usage"].is_object()) {
    tokens = 0;  // it says that none is new
  } else if (ids > 0) {
    tokens = ids;
  }
  if (tokens == 0) return;
  ++chunks_;
  if (record_.first_token_s == 0) record_.first_token_s = now_s;
  record_.last_token_s = now_s;
  if (!record_.arrivals.empty() && record_.arrivals.back().at_s == now_s) {
    record_.arrivals.back().tokens += static_cast<double>(tokens);
  } else {
    record_.arrivals.push_back({now_s, static_cast<double>(tokens)});
  }
}

void ReplyReader::end(double now_s) {
  record_.done_s = now_s;
  if (!record_.ok()) return;
  if (record_.status != 200) {
    const Json json = Json::parse(buffer_, nullptr, false);
    const std::string said = json.is_object() ? error_text(json) : shown(buffer_);
    return fail(fmt::format("HTTP {}{}{}", record_.status, said.empty() ? "" : ": ", said));
  }
  if (!stream_) {
    const Json json = Json::parse(buffer_, nullptr, false);
    if (!json.is_object()) return fail("the answer is no JSON object: " + shown(buffer_));
    take_json(json, now_s);
    if (!record_.ok()) return;
  } else if (!done_ && !finished_) {
    return fail(fmt::format("the stream ended early, after {} events with text", chunks_));
  }
  double came = 0;
  for (const TokenArrival& arrival : record_.arrivals) came += arrival.tokens;
  record_.output_tokens = usage_tokens_ >= 0 ? usage_tokens_ : id_tokens_ > 0 ? id_tokens_ : chunks_;
  record_.counted_by = usage_tokens_ >= 0 ? CountedBy::kUsage
                       : id_tokens_ > 0   ? CountedBy::kIds
                       : chunks_ > 0      ? CountedBy::kChunks
                                          : CountedBy::kNothing;
  if (came == 0) {
    if (record_.asked_output_tokens > 0) fail("the reply has no tokens");
    return;
  }
  // Where only the last event says how many tokens there were, the chunks share them equally.
  const double scale = static_cast<double>(record_.output_tokens) / came;
  if (scale == 1.0) return;
  for (TokenArrival& arrival : record_.arrivals) arrival.tokens *= scale;
}

}  // namespace weir::driver
