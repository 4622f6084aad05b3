// Expressions: attributes, subscripts, calls, filters and tests.
#include <algorithm>

#include "base/check.h"
#include "template/format.h"
#include "template/interpreter.h"
#include "template/objects.h"
#include "template/operators.h"

namespace lithe::chat {

Value Interpreter::evaluate(const Expr& expr) {
  const Budget::Level level(budget);
  budget.step();
  switch (expr.kind) {
    case ExprKind::constant:
      return expr.value;
    case ExprKind::name:
      return evaluate_name(expr);
    case ExprKind::tuple:
    case ExprKind::list:
      return evaluate_sequence(expr);
    case ExprKind::dict:
      return evaluate_dict(expr);
    case ExprKind::negate:
      return negate(evaluate(*expr.children[0]));
    case ExprKind::plus:
      return positive(evaluate(*expr.children[0]));
    case ExprKind::logical_not:
      return Value::boolean(!truthy(evaluate(*expr.children[0])));
    case ExprKind::add:
    case ExprKind::subtract:
    case ExprKind::multiply:
    case ExprKind::divide:
    case ExprKind::floor_divide:
    case ExprKind::modulo:
    case ExprKind::power:
      return evaluate_binary(expr);
    case ExprKind::concat:
      return evaluate_concat(expr);
    case ExprKind::logical_and:
    case ExprKind::logical_or:
      return evaluate_logical(expr);
    case ExprKind::compare:
      return evaluate_compare(expr);
    case ExprKind::conditional:
      return evaluate_conditional(expr);
    case ExprKind::attribute: {
      const Value object = evaluate(*expr.children[0]);
      line_ = expr.line;
      return get_attribute(object, expr.text);
    }
    case ExprKind::item: {
      const Value object = evaluate(*expr.children[0]);
      const Value key = evaluate(*expr.children[1]);
      line_ = expr.line;
      return get_item(object, key);
    }
    case ExprKind::slice:
      return evaluate_slice(expr);
    case ExprKind::call:
      return evaluate_call(expr, nullptr);
    case ExprKind::filter:
      return evaluate_filter(expr, nullptr);
    case ExprKind::test:
      return evaluate_test(expr);
  }
  return {};
}

Value Interpreter::evaluate_name(const Expr& expr) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    if (const Value* value = scope->find(expr.symbol, budget)) return *value;
  }
  if (const Function* function = program_.globals[expr.symbol]) return Value::function(function);
  return Value::undefined(fmt::format("{} is undefined", in_quotes(program_.names[expr.symbol])));
}

Value Interpreter::evaluate_sequence(const Expr& expr) {
  std::vector<Value> items;
  items.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) items.push_back(evaluate(*child));
  return expr.kind == ExprKind::list ? make_list(std::move(items), budget)
                                     : make_tuple(std::move(items), budget);
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  auto dict = std::make_shared<Dict>();
  for (std::size_t i = 0; i + 1 < expr.children.size(); i += 2) {
    Value key = evaluate(*expr.children[i]);
    dict->set(std::move(key), evaluate(*expr.children[i + 1]), budget);
  }
  return make_dict(std::move(dict), budget);
}

Value Interpreter::evaluate_binary(const Expr& expr) {
  const Value a = evaluate(*expr.children[0]);
  const Value b = evaluate(*expr.children[1]);
  line_ = expr.line;
  return operate(expr.kind, a, b, budget);
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  std::vector<Value> parts;
  parts.reserve(expr.children.size());
  for (const ExprPtr& child : expr.children) parts.push_back(evaluate(*child));
  Text out;
  for (const Value& part : parts) out = Text::concat(out, to_text(part, budget), budget);
  return Value::string(std::move(out));
}

Value Interpreter::evaluate_logical(const Expr& expr) {
  Value left = evaluate(*expr.children[0]);
  if (truthy(left) == (expr.kind == ExprKind::logical_or)) return left;
  return evaluate(*expr.children[1]);
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.children[0]);
  for (std::size_t i = 0; i < expr.comparisons.size(); ++i) {
    Value right = evaluate(*expr.children[i + 1]);
    line_ = expr.line;
    if (!compare_with(expr.comparisons[i], left, right, budget)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::evaluate_conditional(const Expr& expr) {
  if (truthy(evaluate(*expr.children[0]))) return evaluate(*expr.children[1]);
  if (expr.children.size() > 2) return evaluate(*expr.children[2]);
  return Value::undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.", expr.line));
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value container = evaluate(*expr.children[0]);
  Value values[3];
  const Value* parts[3] = {nullptr, nullptr, nullptr};
  for (std::size_t i = 0; i < 3; ++i) {
    if (expr.children[i + 1] == nullptr) continue;
    values[i] = evaluate(*expr.children[i + 1]);
    parts[i] = &values[i];
  }
  line_ = expr.line;
  return slice(container, parts[0], parts[1], parts[2], budget);
}

// --- attributes and subscripts

namespace {

std::string describe_object(const Value& object) {
  return object.is_none() ? "None" : fmt::format("{} object", object.type_name());
}

Value withheld(const Value& object, std::string_view name) {
  return Value::undefined(
      fmt::format("access to attribute {} of '{}' object is unsafe.", in_quotes(name), object.type_name()));
}

}  // namespace

Value no_attribute(const Value& object, std::string_view name) {
  return Value::undefined(fmt::format("'{}' has no attribute {}", describe_object(object), in_quotes(name)));
}

bool find_attribute(const Value& object, std::string_view name, Value& out) {
  if (object.is(Type::object)) return object.object()->attribute(name, out);
  if (const Function* function = find_method(object.type(), name)) {
    out = Value::method(std::make_shared<const Method>(Method{object, function}));
    return true;
  }
  if (object.is(Type::tuple) && object.type_name() == std::string_view("_GroupTuple")) {
    if (name == "grouper" || name == "list") {
      out = object.array()->items[name == "list" ? 1 : 0];
      return true;
    }
  }
  if (!is_withheld(object.type(), name)) return false;
  out = withheld(object, name);
  return true;
}

Value Interpreter::get_attribute(const Value& object, const Text& name) {
  if (object.is_undefined()) misfit("{}", object.undefined_message());
  Value out;
  if (find_attribute(object, name.view(), out)) return out;
  if (object.is(Type::dict)) {
    if (const Value* value = object.dict().find(name.view(), budget)) return *value;
  }
  return no_attribute(object, name.view());
}

Value Interpreter::get_item(const Value& object, const Value& key) {
  if (object.is_undefined()) misfit("{}", object.undefined_message());
  Value out;
  if (object.is(Type::dict)) {
    const bool hashable = !key.is(Type::list) && !key.is(Type::view) && !key.is(Type::dict);
    if (const Value* value = hashable ? object.dict().find(key, budget) : nullptr) return *value;
  } else if (key.is_integral()) {
    const bool indexable =
        object.is_string() || object.is(Type::list) || object.is(Type::tuple) || object.is(Type::range);
    if (indexable && index_sequence(object, key.as_integer(), budget, out)) return out;
  }
  if (key.is_string()) {
    if (find_attribute(object, key.view(), out)) return out;
    return no_attribute(object, key.view());
  }
  return Value::undefined(fmt::format("{} has no element {}", describe_object(object), repr_of(key, budget)));
}

// --- calls

void Interpreter::evaluate_arguments(const CallArguments* written, Arguments& out) {
  if (written == nullptr) return;
  for (const ExprPtr& expr : written->positional) out.positional.push_back(evaluate(*expr));
  for (const auto& [name, expr] : written->named) out.named.emplace_back(name, evaluate(*expr));
  if (written->star != nullptr) {
    const Value star = evaluate(*written->star);
    const auto items = items_of(star, budget);
    budget.allocate(items->items.size() * sizeof(Value));
    out.positional.insert(out.positional.end(), items->items.begin(), items->items.end());
  }
  if (written->double_star != nullptr) {
    const Value dict = evaluate(*written->double_star);
    if (!dict.is(Type::dict)) misfit("argument after ** must be a mapping, not {}", dict.type_name());
    for (const auto& [key, value] : dict.dict().entries()) {
      if (!key.is_string()) misfit("keywords must be strings");
      const bool repeated = std::any_of(out.named.begin(), out.named.end(),
                                        [&](const auto& pair) { return pair.first.view() == key.view(); });
      if (repeated) misfit("got multiple values for keyword argument {}", in_quotes(key.view()));
      budget.step(1 + out.named.size());
      out.named.emplace_back(key.text(), value);
    }
  }
}

Value Interpreter::evaluate_call(const Expr& expr, Value* caller) {
  const Value callee = evaluate(*expr.children[0]);
  Arguments arguments;
  evaluate_arguments(expr.arguments.get(), arguments);
  if (caller != nullptr) arguments.named.emplace_back(Text::frozen("caller"), *caller);
  line_ = expr.line;
  return call(callee, std::move(arguments));
}

Value Interpreter::call(const Value& callee, Arguments arguments) {
  switch (callee.type()) {
    case Type::function:
      return call_function(*callee.function(), std::move(arguments));
    case Type::method: {
      auto& positional = arguments.positional;
      positional.insert(positional.begin(), callee.method().self);
      return call_function(*callee.method().function, std::move(arguments));
    }
    case Type::object:
      return callee.object()->call(*this, std::move(arguments));
    case Type::undefined:
      misfit("{}", callee.undefined_message());
    default:
      misfit("'{}' object is not callable", callee.type_name());
  }
}

Value Interpreter::call_function(const Function& function, Arguments arguments) {
  budget.step();
  Call bound(*this, function, std::move(arguments));
  return function.run(bound);
}

Value Interpreter::evaluate_filter(const Expr& expr, const Value* piped) {
  Arguments arguments;
  const Expr* inner = expr.children[0].get();
  if (inner == nullptr) {
    LITHE_CHECK(piped != nullptr);  // only the filters of a block begin without an operand
    arguments.positional.push_back(*piped);
  } else {
    // In {% filter a | b %} the innermost filter is the one over the body.
    arguments.positional.push_back(piped != nullptr ? evaluate_filter(*inner, piped) : evaluate(*inner));
  }
  evaluate_arguments(expr.arguments.get(), arguments);
  line_ = expr.line;
  if (expr.function == nullptr) fail(Code::unsupported, "No filter named {}.", in_quotes(expr.text.view()));
  return call_function(*expr.function, std::move(arguments));
}

Value Interpreter::evaluate_test(const Expr& expr) {
  Arguments arguments;
  arguments.positional.push_back(evaluate(*expr.children[0]));
  evaluate_arguments(expr.arguments.get(), arguments);
  line_ = expr.line;
  if (expr.function == nullptr) fail(Code::unsupported, "No test named {}.", in_quotes(expr.text.view()));
  return call_function(*expr.function, std::move(arguments));
}

}  // namespace lithe::chat
