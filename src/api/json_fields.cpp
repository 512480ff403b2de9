#include "api/json_fields.h"

#include <cmath>
#include <limits>

namespace weir::api {
namespace {

// Deeper than any tool schema; every level costs a stack frame where JSON is copied or walked.
constexpr std::size_t kMaxDepth = 100;
// Whole numbers beyond this are not exact in a double.
constexpr double kExactDouble = 9007199254740992.0;

// ordered_json looks keys up one after the other, so an object of n members costs n * n / 2 comparisons to build. This
// many, over all objects of a body, take about a second; one object may have some 20,000 members.
constexpr std::uint64_t kMaxKeyComparisons = 200'000'000;

bool begins_number(char c) {
  return c == '-' || (c >= '0' && c <= '9');
}

// What could make parsing or walking a document expensive out of proportion to its size, found in one pass over the
// text, before anything is built. What is no JSON at all is left to the parser.
class ShapeCheck {
 public:
  explicit ShapeCheck(const JsonLimits& limits) : limits_(limits) {}

  Status run(std::string_view text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '"') {
        i = end_of_string(text, i);
      } else if (c == '[' || c == '{') {
        const auto first = text.find_first_not_of(" \t\r\n", i + 1);
        open_.push_back({0, c == '[' && first != std::string_view::npos && begins_number(text[first])});
        if (open_.size() > kMaxDepth + 1)
          return fail(ErrorCode::kInvalidArgument, "the JSON is nested more than {} levels deep", kMaxDepth);
        WEIR_RETURN_IF_ERROR(count_value());
      } else if (c == ',') {
        ++open_.back().commas;
        WEIR_RETURN_IF_ERROR(count_value());
      } else if (c == ']' || c == '}') {
        const std::uint64_t commas = open_.back().commas;
        if (c == '}') comparisons_ += commas * commas / 2;
        if (comparisons_ > kMaxKeyComparisons)
          return fail(ErrorCode::kInvalidArgument, "the JSON has objects with too many members");
        if (open_.size() > 1) open_.pop_back();
      }
    }
    return {};
  }

 private:
  struct Open {
    std::uint64_t commas = 0;
    bool numbers = false;  // a list that begins with a number
  };

  static std::size_t end_of_string(std::string_view text, std::size_t begin) {
    std::size_t i = begin + 1;
    while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
    return i;
  }

  // One more in what is open now.
  Status count_value() {
    const Open& in = open_.back();
    if (!in.numbers) {
      if (++values_ <= JsonLimits::kMaxValues) return {};
      return fail(ErrorCode::kTooLarge, "the JSON has more than the {} values that a request may have",
                  JsonLimits::kMaxValues);
    }
    if (in.commas >= limits_.list_numbers) {
      return fail(ErrorCode::kContextLengthExceeded,
                  "the request has a list of more than {} numbers, which is more token ids than this model can take",
                  limits_.list_numbers);
    }
    if (++numbers_ <= JsonLimits::kMaxListNumbers) return {};
    return fail(ErrorCode::kTooLarge,
                "the request has lists of more than {} numbers in all; send fewer prompts at once",
                JsonLimits::kMaxListNumbers);
  }

  const JsonLimits& limits_;
  std::vector<Open> open_ = std::vector<Open>(1);  // by depth; the first is outside of everything
  std::uint64_t comparisons_ = 0;
  std::size_t values_ = 0, numbers_ = 0;
};

}  // namespace

Result<Json> parse_json(std::string_view text, const JsonLimits& limits) {
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return fail(ErrorCode::kInvalidArgument, "the request body is empty; a JSON object was expected");
  }
  WEIR_RETURN_IF_ERROR(ShapeCheck(limits).run(text));
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::exception& e) {
    std::string_view why = e.what();
    if (const auto end = why.find("] "); end != std::string_view::npos) why.remove_prefix(end + 2);
    // The library quotes the last token it read, which may be as long as the body.
    constexpr std::size_t kQuoted = 160;
    return fail(ErrorCode::kInvalidArgument, "the request body is not valid JSON: {}", why.substr(0, kQuoted));
  }
}

std::string describe_json(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return "a list";
    case Json::value_t::object:
      return "an object";
    case Json::value_t::number_integer:
      return fmt::format("{}", value.get<std::int64_t>());
    case Json::value_t::number_unsigned:
      return fmt::format("{}", value.get<std::uint64_t>());
    case Json::value_t::number_float:
      return fmt::format("{}", value.get<double>());
    default:
      return "something else";
  }
}

Result<std::int64_t> to_integer(const Json& value, const std::string& what, std::int64_t min, std::int64_t max) {
  const auto refuse = [&] {
    return fail_at(what, ErrorCode::kInvalidArgument, "{} must be a whole number from {} to {}, not {}", what, min, max,
                   describe_json(value));
  };
  std::int64_t number = 0;
  if (value.is_number_unsigned()) {
    if (value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return refuse();
    number = static_cast<std::int64_t>(value.get<std::uint64_t>());
  } else if (value.is_number_integer()) {
    number = value.get<std::int64_t>();
  } else if (value.is_number_float()) {
    const double real = value.get<double>();
    if (!(std::abs(real) <= kExactDouble) || real != std::floor(real)) return refuse();
    number = static_cast<std::int64_t>(real);
  } else {
    return refuse();
  }
  if (number < min || number > max) return refuse();
  return number;
}

const Json* Fields::find(std::string_view name) const {
  const auto it = object_->find(name);
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

Status Fields::integer(std::string_view name, std::int64_t min, std::int64_t max, std::int64_t& out) const {
  if (const Json* value = find(name)) {
    WEIR_TRY(out, to_integer(*value, path(name), min, max));
  }
  return {};
}

Status Fields::integer(std::string_view name, std::int64_t min, std::int64_t max,
                       std::optional<std::int64_t>& out) const {
  if (const Json* value = find(name)) {
    WEIR_TRY(out, to_integer(*value, path(name), min, max));
  }
  return {};
}

Status Fields::number(std::string_view name, double min, double max, float& out, bool above_min) const {
  const Json* value = find(name);
  if (!value) return {};
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= min && number <= max) || (above_min && number <= min)) {
    return fail_at(path(name), ErrorCode::kInvalidArgument, "{} must be a number {} {} and at most {}, not {}",
                   path(name), above_min ? "above" : "of at least", min, max, describe_json(*value));
  }
  out = static_cast<float>(number);
  return {};
}

Status Fields::boolean(std::string_view name, bool& out) const {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_boolean()) {
    return fail_at(path(name), ErrorCode::kInvalidArgument, "{} must be true or false, not {}", path(name),
                   describe_json(*value));
  }
  out = value->get<bool>();
  return {};
}

Status Fields::string(std::string_view name, std::string& out) const {
  const Json* value = find(name);
  if (!value) return {};
  if (!value->is_string()) {
    return fail_at(path(name), ErrorCode::kInvalidArgument, "{} must be a string, not {}", path(name),
                   describe_json(*value));
  }
  out = value->get_ref<const std::string&>();
  return {};
}

}  // namespace weir::api
