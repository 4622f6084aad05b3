// The allow-lists: filters, tests, global functions and methods, one row each. To add one, write its function
// and its row; nothing else knows their names.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "template/value.h"

namespace lithe::chat {

class Interpreter;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<Text, Value>> named;
};

/// A call of a built-in function: its arguments, matched with the names of its parameters.
class Call {
 public:
  /// Fault: too many, too few, unknown or repeated arguments.
  Call(Interpreter& interpreter, const Function& function, Arguments arguments);

  bool has(std::size_t i) const { return given_[i]; }
  const Value& operator[](std::size_t i) const { return values_[i]; }
  /// The value's str(), of a string, an integer, a truth. Fault if it is of another type.
  Text text(std::size_t i) const;
  const Text& string(std::size_t i) const;
  Integer integer(std::size_t i, Integer fallback) const;
  bool flag(std::size_t i, bool fallback) const;
  /// What `*` and `**` parameters collected.
  std::vector<Value>& rest() { return rest_; }
  std::vector<std::pair<Text, Value>>& named_rest() { return named_rest_; }

  Interpreter& interpreter;
  Budget& budget;

 private:
  const Function& function_;
  std::vector<Value> values_;
  std::vector<bool> given_;
  std::vector<Value> rest_;
  std::vector<std::pair<Text, Value>> named_rest_;
};

struct Function {
  std::string_view name;
  /// "value chars?": names in order, `?` for optional ones, then `*` and `**` for those that take what is
  /// left. The first parameter of a filter, a test or a method is the value it applies to.
  std::string_view parameters;
  Value (*run)(Call& call);
};

const Function* find_function(std::span<const Function> table, std::string_view name);

std::span<const Function> text_filters();
std::span<const Function> sequence_filters();
std::span<const Function> tests();
std::span<const Function> globals();
std::span<const Function> string_methods();
std::span<const Function> string_predicates();  // isdigit, ...
std::span<const Function> list_methods();
std::span<const Function> dict_methods();

const Function* find_filter(std::string_view name);
const Function* find_test(std::string_view name);
const Function* find_global(std::string_view name);
/// The method `name` of a value of this type, or null.
const Function* find_method(Type type, std::string_view name);
/// A name that Python knows for a value of this type, but that the sandbox withholds.
bool is_withheld(Type type, std::string_view name);

}  // namespace lithe::chat
