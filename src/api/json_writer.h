// JsonWriter: appends JSON to a string. For replies and stream events, where building a document tree for every token
// would cost more than the text itself.
//
// Commas come by themselves. Strings must be valid UTF-8 (everything that leaves the detokenizer is); numbers that JSON
// cannot hold are the caller's duty, except in logprob(), which knows what to do with them.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>

namespace weir::api {

void append_json_string(std::string& out, std::string_view text);

class JsonWriter {
 public:
  explicit JsonWriter(std::string& out) : out_(&out) {}

  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }

  JsonWriter& key(std::string_view name) {
    separate();
    append_json_string(*out_, name);
    out_->push_back(':');
    need_comma_ = false;
    return *this;
  }
  JsonWriter& string(std::string_view text) {
    separate();
    append_json_string(*out_, text);
    return *this;
  }
  template <class Integer>
    requires std::is_integral_v<Integer>
  JsonWriter& integer(Integer number) {
    separate();
    fmt::format_to(std::back_inserter(*out_), "{}", number);
    return *this;
  }
  JsonWriter& number(double number) {
    separate();
    fmt::format_to(std::back_inserter(*out_), "{}", number);
    return *this;
  }
  // A log-probability in the fewest digits that give the same float back. Minus infinity (a token that is masked out)
  // becomes -9999, as vLLM writes it, because JSON has no infinities.
  JsonWriter& logprob(float logprob);
  JsonWriter& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonWriter& null() { return raw("null"); }
  // A value that is JSON already.
  JsonWriter& raw(std::string_view json) {
    separate();
    out_->append(json);
    return *this;
  }

 private:
  void separate() {
    if (need_comma_) out_->push_back(',');
    need_comma_ = true;
  }
  JsonWriter& open(char bracket) {
    separate();
    out_->push_back(bracket);
    need_comma_ = false;
    return *this;
  }
  JsonWriter& close(char bracket) {
    out_->push_back(bracket);
    need_comma_ = true;
    return *this;
  }

  std::string* out_;
  bool need_comma_ = false;
};

}  // namespace weir::api
