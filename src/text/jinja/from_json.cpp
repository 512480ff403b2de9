#include "text/jinja/from_json.h"

#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

using Json = nlohmann::ordered_json;

class Converter {
 public:
  explicit Converter(Budget& budget) : budget_(budget) {}

  Value convert(const Json& json) {
    switch (json.type()) {
      case Json::value_t::boolean:
        return Value::boolean(json.get<bool>(), true);
      case Json::value_t::number_integer:
        return Value::integer(json.get<std::int64_t>(), true);
      case Json::value_t::number_unsigned:
        return Value::integer(json.get<std::uint64_t>(), true);
      case Json::value_t::number_float:
        return Value::real(json.get<double>(), true);
      case Json::value_t::string:
        return string(json.get_ref<const std::string&>());
      case Json::value_t::array:
      case Json::value_t::object:
        return container(json);
      default:
        return Value::none(true);
    }
  }

 private:
  static Value string(const std::string& bytes) {
    return Value::string(is_valid_utf8(bytes) ? bytes : repair_utf8(bytes), true);
  }

  Value container(const Json& json) {
    // Checked on the way down: the value's own limit is checked only on the way up.
    if (++depth_ > kMaxValueDepth) raise("the input is nested more than {} levels deep", kMaxValueDepth);
    Value made;
    if (json.is_array()) {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(convert(item));
      made = make_list(std::move(items), budget_);
    } else {
      auto dict = std::make_shared<DictObject>();
      for (const auto& [key, value] : json.items()) add_entry(*dict, string(key), convert(value), budget_);
      made = make_dict(std::move(dict));
    }
    --depth_;
    return made;
  }

  Budget& budget_;
  int depth_ = 0;
};

void measure(const Json& json, InputSize& size, int depth) {
  ++size.values;
  if (depth > kMaxValueDepth) return;  // from_json refuses it
  if (json.is_string()) size.bytes += json.get_ref<const std::string&>().size();
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) {
      size.bytes += key.size();
      measure(value, size, depth + 1);
    }
  } else if (json.is_array()) {
    for (const Json& item : json) measure(item, size, depth + 1);
  }
}

}  // namespace

void measure(const Json& json, InputSize& size) {
  measure(json, size, 0);
}

Value from_json(const Json& json, Budget& budget) {
  return Converter(budget).convert(json);
}

}  // namespace weir::text::jinja
