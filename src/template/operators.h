// Python's operators and subscripts over Values.
#pragma once

#include "template/ast.h"
#include "template/value.h"

namespace lithe::chat {

/// add, subtract, multiply, divide, floor_divide, modulo, power.
Value operate(ExprKind kind, const Value& a, const Value& b, Budget& budget);
Value negate(const Value& value);
Value positive(const Value& value);
bool compare_with(Comparison op, const Value& a, const Value& b, Budget& budget);
/// a + b of two strings; a marked-up one escapes the other.
Value join_strings(const Value& a, const Value& b, Budget& budget);

/// container[start:stop:step]; null or None parts are missing.
Value slice(const Value& container, const Value* start, const Value* stop, const Value* step, Budget& budget);
/// container[index] of a sequence. False if it is out of range.
bool index_sequence(const Value& container, Integer index, Budget& budget, Value& out);

Value repeat(const Value& value, Integer count, Budget& budget);
Integer multiply_integers(Integer a, Integer b);

}  // namespace lithe::chat
