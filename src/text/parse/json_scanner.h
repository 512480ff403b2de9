// JsonScanner: follows one JSON value (RFC 8259) byte by byte and says where it ends. Nothing is built; memory is one
// byte per level of nesting.
#pragma once

#include <string>

namespace weir::text::parse {

class JsonScanner {
 public:
  enum class Step {
    kMore,       // the byte belongs to the value, which goes on
    kEnd,        // the byte is the last of the value
    kEndBefore,  // the value ended with the byte before (numbers show their end only so)
    kBad,        // no JSON value goes on like this
  };
  Step push(char c);
  // Whether the value would be complete if the text ended here.
  bool complete() const { return state_ == State::kDone || (open_.empty() && number_complete()); }
  // Inside a string, where control characters are let through though JSON wants them escaped: models write line breaks.
  bool in_string() const { return state_ == State::kString; }

 private:
  enum class State {
    kValue,         // a value must begin
    kFirstElement,  // of an array: a value or ]
    kFirstKey,      // of an object: a key or }
    kKey,
    kColon,
    kAfter,  // a comma or the closing bracket
    kString,
    kEscape,
    kHex,
    kLiteral,
    // Numbers: what has been read last.
    kMinus,
    kZero,
    kInteger,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
    kDone,
  };
  bool number_complete() const {
    return state_ == State::kZero || state_ == State::kInteger || state_ == State::kFraction ||
           state_ == State::kExponentDigits;
  }
  Step begin_value(char c);
  Step number(char c);
  Step after(char c);
  Step end_value();

  State state_ = State::kValue;
  std::string open_;               // brackets that are open
  bool key_ = false;               // the string being read is a key
  const char* literal_ = nullptr;  // what must still come of true, false, null
  int hex_ = 0;                    // digits that must still come
};

}  // namespace weir::text::parse
