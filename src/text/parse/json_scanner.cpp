#include "text/parse/json_scanner.h"

namespace weir::text::parse {
namespace {

// Whoever gets the value parses it with a stack.
constexpr std::size_t kMaxDepth = 100;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool is_json_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

}  // namespace

JsonScanner::Step JsonScanner::end_value() {
  state_ = open_.empty() ? State::kDone : State::kAfter;
  return open_.empty() ? Step::kEnd : Step::kMore;
}

JsonScanner::Step JsonScanner::begin_value(char c) {
  if (c == '{' || c == '[') {
    if (open_.size() == kMaxDepth) return Step::kBad;
    open_.push_back(c);
    state_ = c == '{' ? State::kFirstKey : State::kFirstElement;
    return Step::kMore;
  }
  if (c == '"') {
    key_ = false;
    state_ = State::kString;
  } else if (c == '-') {
    state_ = State::kMinus;
  } else if (is_digit(c)) {
    state_ = c == '0' ? State::kZero : State::kInteger;
  } else if (c == 't' || c == 'f' || c == 'n') {
    literal_ = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
    state_ = State::kLiteral;
  } else {
    return Step::kBad;
  }
  return Step::kMore;
}

JsonScanner::Step JsonScanner::number(char c) {
  const bool digit = is_digit(c);
  const bool exponent = c == 'e' || c == 'E';
  const auto to = [this](State state) {
    state_ = state;
    return Step::kMore;
  };
  switch (state_) {
    case State::kMinus:
      return !digit ? Step::kBad : to(c == '0' ? State::kZero : State::kInteger);
    case State::kInteger:
      if (digit) return Step::kMore;
      [[fallthrough]];
    case State::kZero:
      if (c == '.') return to(State::kPoint);
      if (exponent) return to(State::kExponent);
      break;
    case State::kPoint:
      return digit ? to(State::kFraction) : Step::kBad;
    case State::kFraction:
      if (digit) return Step::kMore;
      if (exponent) return to(State::kExponent);
      break;
    case State::kExponent:
      if (c == '+' || c == '-') return to(State::kExponentSign);
      [[fallthrough]];
    case State::kExponentSign:
      return digit ? to(State::kExponentDigits) : Step::kBad;
    default:
      if (digit) return Step::kMore;
      break;
  }
  if (end_value() == Step::kEnd) return Step::kEndBefore;
  return after(c);
}

JsonScanner::Step JsonScanner::after(char c) {
  if (is_json_space(c)) return Step::kMore;
  if (c == ',') {
    state_ = open_.back() == '{' ? State::kKey : State::kValue;
    return Step::kMore;
  }
  if (c != (open_.back() == '{' ? '}' : ']')) return Step::kBad;
  open_.pop_back();
  return end_value();
}

JsonScanner::Step JsonScanner::push(char c) {
  switch (state_) {
    case State::kString:
      if (c == '\\') state_ = State::kEscape;
      if (c != '"') return Step::kMore;
      if (!key_) return end_value();
      state_ = State::kColon;
      return Step::kMore;
    case State::kEscape:
      state_ = c == 'u' ? State::kHex : State::kString;
      hex_ = 4;
      return std::string_view("\"\\/bfnrtu").find(c) == std::string_view::npos ? Step::kBad : Step::kMore;
    case State::kHex:
      if (!is_hex(c)) return Step::kBad;
      if (--hex_ == 0) state_ = State::kString;
      return Step::kMore;
    case State::kLiteral:
      if (c != *literal_) return Step::kBad;
      return *++literal_ == '\0' ? end_value() : Step::kMore;
    case State::kDone:
      return Step::kEndBefore;
    case State::kMinus:
    case State::kZero:
    case State::kInteger:
    case State::kPoint:
    case State::kFraction:
    case State::kExponent:
    case State::kExponentSign:
    case State::kExponentDigits:
      return number(c);
    default:
      break;
  }
  if (is_json_space(c)) return Step::kMore;
  switch (state_) {
    case State::kFirstElement:
    case State::kFirstKey:
      if (c == (state_ == State::kFirstKey ? '}' : ']')) {
        open_.pop_back();
        return end_value();
      }
      if (state_ == State::kFirstElement) return begin_value(c);
      [[fallthrough]];
    case State::kKey:
      key_ = true;
      state_ = State::kString;
      return c == '"' ? Step::kMore : Step::kBad;
    case State::kColon:
      state_ = State::kValue;
      return c == ':' ? Step::kMore : Step::kBad;
    case State::kAfter:
      return after(c);
    default:
      return begin_value(c);
  }
}

}  // namespace weir::text::parse
