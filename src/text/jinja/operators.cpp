#include "text/jinja/operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "text/jinja/builtins.h"
#include "text/jinja/unicode.h"

namespace weir::text::jinja {

namespace {

constexpr std::string_view kSymbols[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

[[noreturn]] void raise_operands(BinaryOp op, const Value& a, const Value& b) {
  raise("unsupported operand type(s) for {}: '{}' and '{}'", kSymbols[static_cast<int>(op)], type_name(a),
        type_name(b));
}

[[noreturn]] void raise_overflow() {
  raise("integer overflow: the result is beyond what integers can hold here");
}

Int floor_div(Int a, Int b) {
  const Int quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

Int floor_mod(Int a, Int b) {
  const Int rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value int_arithmetic(BinaryOp op, Int a, Int b, bool user);

Value int_power(Int base, Int exponent, bool user) {
  if (exponent < 0) {
    if (base == 0) raise("0.0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)), user);
  }
  Int result = 1;
  if (base == 0 || base == 1) return Value::integer(exponent == 0 ? Int{1} : base, user);
  if (base == -1) return Value::integer(exponent % 2 == 0 ? 1 : -1, user);
  for (; exponent > 0; --exponent)  // ends after 127 rounds at the latest
    if (__builtin_mul_overflow(result, base, &result)) raise_overflow();
  return int_arithmetic(BinaryOp::kAdd, result, 0, user);
}

Value int_arithmetic(BinaryOp op, Int a, Int b, bool user) {
  Int result = 0;
  bool overflow = false;
  switch (op) {
    case BinaryOp::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case BinaryOp::kSub:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case BinaryOp::kMul:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case BinaryOp::kDiv:
      if (b == 0) raise("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b), user);
    case BinaryOp::kFloorDiv:
    case BinaryOp::kMod:
      if (b == 0) raise("integer division or modulo by zero");
      if (b == -1) return int_arithmetic(BinaryOp::kMul, op == BinaryOp::kMod ? 0 : a, -1, user);
      result = op == BinaryOp::kFloorDiv ? floor_div(a, b) : floor_mod(a, b);
      break;
    case BinaryOp::kPow:
      return int_power(a, b, user);
  }
  // The lowest integer has no negative; without it negation never overflows.
  constexpr Int kLowest = static_cast<Int>(static_cast<unsigned __int128>(1) << 127);
  if (overflow || result == kLowest) raise_overflow();
  return Value::integer(result, user);
}

double float_mod(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0) {
    if ((rest < 0) != (b < 0)) rest += b;
  } else {
    rest = std::copysign(0.0, b);
  }
  return rest;
}

double float_floor_div(double a, double b) {
  const double rest = float_mod(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

Value real_arithmetic(BinaryOp op, double a, double b, bool user) {
  switch (op) {
    case BinaryOp::kAdd:
      return Value::real(a + b, user);
    case BinaryOp::kSub:
      return Value::real(a - b, user);
    case BinaryOp::kMul:
      return Value::real(a * b, user);
    case BinaryOp::kDiv:
      if (b == 0) raise("float division by zero");
      return Value::real(a / b, user);
    case BinaryOp::kFloorDiv:
      if (b == 0) raise("float floor division by zero");
      return Value::real(float_floor_div(a, b), user);
    case BinaryOp::kMod:
      if (b == 0) raise("float modulo");
      return Value::real(float_mod(a, b), user);
    case BinaryOp::kPow: {
      if (a == 0 && b < 0) raise("0.0 cannot be raised to a negative power");
      const double result = std::pow(a, b);
      if (std::isinf(result) && std::isfinite(a) && std::isfinite(b)) raise("numerical result out of range");
      if (std::isnan(result) && !std::isnan(a) && !std::isnan(b)) raise("complex numbers are not supported");
      return Value::real(result, user);
    }
  }
  return {};
}

Value add(Interpreter& in, const Value& a, const Value& b) {
  if (a.is_string()) {
    if (!b.is_string()) {
      if (a.is_safe()) raise_operands(BinaryOp::kAdd, a, b);
      raise("can only concatenate str (not \"{}\") to str", type_name(b));
    }
    if (!a.is_safe() && !b.is_safe()) return concat(in, a.text(), b.text());
    return concat(in, escaped(a, in.budget()), escaped(b, in.budget())).with_safe(true);
  }
  if ((a.is_list() && b.is_list()) || (a.is_tuple() && b.is_tuple())) {
    const auto& left = a.list().items;
    const auto& right = b.list().items;
    in.budget().items(left.size() + right.size());
    std::vector<Value> items(left);
    items.insert(items.end(), right.begin(), right.end());
    return a.is_list() ? make_list(std::move(items), in.budget()) : make_tuple(std::move(items), in.budget());
  }
  if (a.is_list() || a.is_tuple()) {
    const std::string_view kind = a.is_list() ? "list" : "tuple";
    raise("can only concatenate {} (not \"{}\") to {}", kind, type_name(b), kind);
  }
  raise_operands(BinaryOp::kAdd, a, b);
}

Value repeat(Interpreter& in, const Value& value, const Value& times) {
  if (!times.is_integral()) raise("can't multiply sequence by non-int of type '{}'", type_name(times));
  const Int wanted = std::max(times.as_int(), Int{0});
  const std::size_t size = value.is_string() ? value.bytes().size() : value.list().items.size();
  const std::size_t limit = value.is_string() ? kMaxTextBytes : kMaxItems;
  if (size != 0 && wanted > static_cast<Int>(limit / size))
    raise("a sequence of {} repeated {} times is too long, more than {} are not allowed", size, int_to_string(wanted),
          limit);
  const auto count = size == 0 ? 0 : static_cast<std::size_t>(wanted);
  in.budget().step(count);
  if (value.is_string()) {
    in.budget().text(size * count);
    TextBuilder out;
    out.reserve(size * count);
    for (std::size_t i = 0; i < count; ++i) out.append(value.text());
    return Value::string(out.take()).with_safe(value.is_safe());
  }
  in.budget().items(size * count);
  std::vector<Value> items;
  items.reserve(size * count);
  for (std::size_t i = 0; i < count; ++i)
    items.insert(items.end(), value.list().items.begin(), value.list().items.end());
  return value.is_list() ? make_list(std::move(items), in.budget()) : make_tuple(std::move(items), in.budget());
}

bool is_repeatable(const Value& value) {
  return value.is_string() || value.is_list() || value.is_tuple();
}

struct Bounds {
  Int start = 0, stop = 0, step = 1;
  std::int64_t count = 0;
};

Int bound_of(const Value& value) {
  if (!value.is_integral()) raise("slice indices must be integers or None or have an __index__ method");
  return value.as_int();
}

// Python's slice.indices().
Bounds slice_bounds(Int length, const Value& start, const Value& stop, const Value& step) {
  const auto given = [](const Value& value) { return !value.is_missing() && !value.is_none(); };
  Bounds made;
  if (given(step)) made.step = bound_of(step);
  if (made.step == 0) raise("slice step cannot be zero");
  const bool backwards = made.step < 0;
  const Int low = backwards ? -1 : 0, high = backwards ? length - 1 : length;
  const auto clamp = [&](const Value& value, Int fallback) {
    if (!given(value)) return fallback;
    const Int at = bound_of(value);
    return std::clamp(at < 0 ? at + length : at, low, high);
  };
  made.start = clamp(start, backwards ? high : low);
  made.stop = clamp(stop, backwards ? low : high);
  const Int distance = backwards ? made.start - made.stop : made.stop - made.start;
  const Int stride = std::min(backwards ? -std::max(made.step, -(length + 1)) : made.step, length + 1);
  made.step = backwards ? -stride : stride;
  if (distance > 0) made.count = static_cast<std::int64_t>((distance - 1) / stride + 1);
  return made;
}

Value slice_string(Interpreter& in, const Value& object, const Bounds& bounds) {
  const Text& text = object.text();
  if (bounds.count == 0) return Value::string("").with_safe(object.is_safe());
  if (bounds.step == 1) {
    const auto first = static_cast<std::size_t>(bounds.start), count = static_cast<std::size_t>(bounds.count);
    std::size_t begin = first, end = first + count;
    if (!text.is_ascii()) {
      begin = offset_of_char(text.bytes(), first);
      end = begin + offset_of_char(std::string_view(text.bytes()).substr(begin), count);
      in.budget().scan(end);
    }
    in.budget().text(end - begin);
    return Value::string(slice(text, begin, end)).with_safe(object.is_safe());
  }
  in.budget().text(text.size());
  in.budget().step(text.chars() / 16);
  std::vector<std::uint32_t> offsets;
  offsets.reserve(text.chars());
  for (std::size_t at = 0; at < text.size(); at += char_size(static_cast<unsigned char>(text.bytes()[at])))
    offsets.push_back(static_cast<std::uint32_t>(at));
  TextBuilder out;
  for (std::int64_t i = 0; i < bounds.count; ++i) {
    const std::size_t at = offsets[static_cast<std::size_t>(bounds.start + i * bounds.step)];
    out.append(text, at, at + char_size(static_cast<unsigned char>(text.bytes()[at])));
  }
  return Value::string(out.take()).with_safe(object.is_safe());
}

}  // namespace

Value concat(Interpreter& in, const Text& a, const Text& b) {
  in.budget().text(a.size() + b.size());
  TextBuilder out;
  out.reserve(a.size() + b.size());
  out.append(a);
  out.append(b);
  return Value::string(out.take());
}

Text escape_html(const Text& text, Budget& budget) {
  TextBuilder out;
  UserCursor user(text);
  const std::string& bytes = text.bytes();
  std::size_t done = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    const char c = bytes[at];
    const std::string_view entity = c == '&'    ? "&amp;"
                                    : c == '<'  ? "&lt;"
                                    : c == '>'  ? "&gt;"
                                    : c == '"'  ? "&#34;"
                                    : c == '\'' ? "&#39;"
                                                : "";
    if (entity.empty()) continue;
    out.append(text, done, at);
    out.append(entity, user.at(at));
    done = at + 1;
  }
  out.append(text, done, bytes.size());
  budget.text(out.size());
  return out.take();
}

Text escaped(const Value& value, Budget& budget) {
  return value.is_safe() ? value.text() : escape_html(value.text(), budget);
}

Value binary(Interpreter& in, BinaryOp op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    const bool user = a.user() || b.user();
    if (a.is_integral() && b.is_integral()) return int_arithmetic(op, a.as_int(), b.as_int(), user);
    return real_arithmetic(op, a.as_real(), b.as_real(), user);
  }
  if (op == BinaryOp::kMod && a.is_string()) return format_percent(in, a, b);
  require_defined(a);
  require_defined(b);
  if (op == BinaryOp::kAdd) return add(in, a, b);
  if (op == BinaryOp::kMul && is_repeatable(a)) return repeat(in, a, b);
  if (op == BinaryOp::kMul && is_repeatable(b)) return repeat(in, b, a);
  raise_operands(op, a, b);
}

Value negate(const Value& value) {
  require_defined(value);
  if (value.is(Kind::kFloat)) return Value::real(-value.as_real(), value.user());
  if (!value.is_integral()) raise("bad operand type for unary -: '{}'", type_name(value));
  return int_arithmetic(BinaryOp::kSub, 0, value.as_int(), value.user());
}

Value plus(const Value& value) {
  require_defined(value);
  if (value.is(Kind::kFloat)) return value;
  if (!value.is_integral()) raise("bad operand type for unary +: '{}'", type_name(value));
  return Value::integer(value.as_int(), value.user());
}

bool contains(Interpreter& in, const Value& container, const Value& item) {
  Budget& budget = in.budget();
  switch (container.kind()) {
    case Kind::kString: {
      if (!item.is_string()) raise("'in <string>' requires string as left operand, not {}", type_name(item));
      budget.scan(container.bytes().size());
      // memmem is linear whatever the texts; std::string::find is not.
      return item.bytes().empty() || memmem(container.bytes().data(), container.bytes().size(), item.bytes().data(),
                                            item.bytes().size()) != nullptr;
    }
    case Kind::kDict:
      return container.dict().find(item) != nullptr;
    case Kind::kView:
      if (container.view().what == ViewObject::What::kKeys) return container.view().dict->find(item) != nullptr;
      break;
    case Kind::kUndefined:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kIterator:
      break;
    default:
      raise("argument of type '{}' is not iterable", type_name(container));
  }
  const auto items = in.iterate(container);
  for (Value candidate; items->next(in, candidate);)
    if (equals(candidate, item, budget)) return true;
  return false;
}

bool compare(Interpreter& in, CompareOp op, const Value& a, const Value& b) {
  Budget& budget = in.budget();
  switch (op) {
    case CompareOp::kEq:
      return equals(a, b, budget);
    case CompareOp::kNe:
      return !equals(a, b, budget);
    case CompareOp::kLt:
      return less(a, b, budget, "<");
    case CompareOp::kLe:
      return less_or_equal(a, b, budget, "<=");
    case CompareOp::kGt:
      return greater(a, b, budget, ">");
    case CompareOp::kGe:
      return greater_or_equal(a, b, budget, ">=");
    case CompareOp::kIn:
      return contains(in, b, a);
    case CompareOp::kNotIn:
      return !contains(in, b, a);
  }
  return false;
}

RangeObject make_range(Int start, Int stop, Int step) {
  if (step == 0) raise("range() arg 3 must not be zero");
  RangeObject range;
  range.start = start;
  range.stop = stop;
  range.step = step;
  const Int distance = step > 0 ? stop - start : start - stop;
  const Int stride = step > 0 ? step : -step;
  const Int length = distance > 0 ? (distance - 1) / stride + 1 : 0;
  if (length > kMaxRangeLength)
    raise("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}), this one has {} items.",
          kMaxRangeLength, int_to_string(length));
  range.length = static_cast<std::int64_t>(length);
  return range;
}

Value slice_of(Interpreter& in, const Value& object, const Value& start, const Value& stop, const Value& step) {
  require_defined(object);
  if (object.is_dict()) raise("unhashable type: 'slice'");
  const bool sliceable = object.is_string() || object.is_list() || object.is_tuple() || object.is(Kind::kRange);
  if (!sliceable) raise("'{}' object is not subscriptable", type_name(object));
  const Bounds bounds = slice_bounds(static_cast<Int>(*length_of(object)), start, stop, step);
  if (object.is_string()) return slice_string(in, object, bounds);
  if (object.is(Kind::kRange)) {
    const RangeObject& range = object.range();
    auto made = std::make_shared<RangeObject>();
    made->step = range.step * bounds.step;
    made->start = range.start + bounds.start * range.step;
    made->stop = range.start + bounds.stop * range.step;
    made->length = bounds.count;
    return Value::object(Kind::kRange, std::move(made));
  }
  in.budget().items(static_cast<std::size_t>(bounds.count));
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(bounds.count));
  for (std::int64_t i = 0; i < bounds.count; ++i)
    items.push_back(object.list().items[static_cast<std::size_t>(bounds.start + i * bounds.step)]);
  return object.is_list() ? make_list(std::move(items), in.budget()) : make_tuple(std::move(items), in.budget());
}

}  // namespace weir::text::jinja
