// A parsed template. Immutable, so that several threads may render it at once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "template/value.h"

namespace lithe::chat {

struct Function;

/// An interned variable name: an index into Program::names.
using Symbol = std::uint32_t;

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<Text, ExprPtr>> named;
  ExprPtr star, double_star;  // *args, **kwargs
};

enum class ExprKind : std::uint8_t {
  constant,  // value
  name,      // symbol
  tuple,
  list,  // children
  dict,  // children: key, value, key, value, ...
  negate,
  plus,
  logical_not,
  add,
  subtract,
  multiply,
  divide,
  floor_divide,
  modulo,
  power,
  concat,  // children: a ~ b ~ c
  logical_and,
  logical_or,
  compare,      // children and comparisons: a < b <= c
  conditional,  // children: test, then[, otherwise]
  attribute,    // children[0].text
  item,         // children[0][children[1]]
  slice,        // children[0][children[1]:children[2]:children[3]], each of the three may be null
  call,         // children[0](arguments)
  filter,       // children[0] | text(arguments); children[0] is null in filter blocks
  test,         // children[0] is text(arguments)
};

enum class Comparison : std::uint8_t { eq, ne, lt, le, gt, ge, in, not_in };

struct Expr {
  ExprKind kind;
  int line;
  int height = 1;  // of the tree below: bounded, since evaluation recurses
  Symbol symbol = 0;
  Value value;                         // constants
  Text text;                           // attribute, filter or test name
  const Function* function = nullptr;  // the filter or test; null if there is none of that name
  std::vector<ExprPtr> children;
  std::vector<Comparison> comparisons;
  std::unique_ptr<const CallArguments> arguments;  // null if none were written
};

/// What is assigned to: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  enum class Kind : std::uint8_t { name, attribute, tuple } kind = Kind::name;
  int line = 0;
  Symbol symbol = 0;
  Text attribute;
  std::vector<Target> items;
};

struct Statement;
using Block = std::vector<std::unique_ptr<const Statement>>;

struct Parameter {
  Symbol symbol;
  Text name;
  ExprPtr fallback;  // null: required
};

/// The definition of a macro, or of the body of a call block.
struct MacroBody {
  Text name;  // empty for call blocks
  std::vector<Parameter> parameters;
  Block body;
  bool uses_caller = false, uses_varargs = false, uses_kwargs = false;
};

enum class StatementKind : std::uint8_t {
  data,       // text
  print,      // expr
  condition,  // branches; a branch without a test is `else`
  loop,       // target, expr, test, body, otherwise
  assign,     // target = expr
  capture,    // {% set target | filter %}body{% endset %}: expr is the filter or null
  with,       // {% with targets = values %}body
  filter,     // expr is the filter over the body
  scope,      // body in a scope of its own: generation, block, autoescape
  macro,      // symbol = macro
  call,       // expr is the call, macro its caller
  break_loop,
  continue_loop,
};

struct Statement {
  StatementKind kind;
  int line;
  Text text;
  ExprPtr expr;
  Block body, otherwise;
  std::vector<std::pair<ExprPtr, Block>> branches;
  std::vector<std::pair<Target, ExprPtr>> bindings;  // with
  Target target;
  ExprPtr test;  // loop: `if`
  bool uses_loop = false, recursive = false;
  Symbol symbol = 0;
  std::unique_ptr<const MacroBody> macro;
};

struct Program {
  std::vector<std::string> names;        // by Symbol
  std::vector<const Function*> globals;  // by Symbol: the global function of that name, or null
  Symbol loop = 0, caller = 0, varargs = 0, kwargs = 0;
  Block body;
};

}  // namespace lithe::chat
