// Arithmetic, membership and slices, as Python's operators do them.
#pragma once

#include "text/jinja/ast.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/value.h"

namespace weir::text::jinja {

Value binary(Interpreter& in, BinaryOp op, const Value& a, const Value& b);
Value negate(const Value& value);
Value plus(const Value& value);
bool contains(Interpreter& in, const Value& container, const Value& item);
bool compare(Interpreter& in, CompareOp op, const Value& a, const Value& b);
// object[start:stop:step]; missing bounds are not given.
Value slice_of(Interpreter& in, const Value& object, const Value& start, const Value& stop, const Value& step);

Value concat(Interpreter& in, const Text& a, const Text& b);
Text escape_html(const Text& text, Budget& budget);
// The text of a string for an operation with markup: escaped unless it is markup itself.
Text escaped(const Value& value, Budget& budget);
RangeObject make_range(Int start, Int stop, Int step);

}  // namespace weir::text::jinja
