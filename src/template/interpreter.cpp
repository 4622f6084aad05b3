// Scopes, statements, loops and macros. Expressions are in evaluate.cpp.
#include "template/interpreter.h"

#include <algorithm>

#include "template/format.h"
#include "template/objects.h"

namespace lithe::chat {
namespace {

// A block has few variables and is searched from the front; one with thousands pays for it.
constexpr std::size_t kVariablesPerStep = 16;

}  // namespace

Value* Scope::find(Symbol symbol, Budget& budget) {
  budget.step(values.size() / kVariablesPerStep);
  for (auto& [key, value] : values) {
    if (key == symbol) return &value;
  }
  return nullptr;
}

void Scope::set(Symbol symbol, Value value, Budget& budget) {
  if (Value* old = find(symbol, budget)) {
    *old = std::move(value);
  } else {
    values.emplace_back(symbol, std::move(value));
  }
}

/// A scope that is current while this lives.
class Interpreter::ScopeGuard {
 public:
  ScopeGuard(Interpreter& interpreter, Scope* parent)
      : interpreter_(interpreter), saved_(interpreter.scope_), scope_(interpreter.new_scope(parent)) {
    interpreter_.scope_ = scope_;
  }
  ~ScopeGuard() {
    interpreter_.scope_ = saved_;
    interpreter_.release(scope_);
  }
  ScopeGuard(const ScopeGuard&) = delete;
  ScopeGuard& operator=(const ScopeGuard&) = delete;

  Scope* scope() const { return scope_; }
  /// For the next iteration of a loop: empty, and not the one that a macro may have captured.
  void renew() {
    if (scope_->captured) {
      scope_ = interpreter_.new_scope(scope_->parent);
      interpreter_.scope_ = scope_;
    } else {
      scope_->values.clear();
    }
  }

 private:
  Interpreter& interpreter_;
  Scope* saved_;
  Scope* scope_;
};

/// Output goes into a text of its own while this lives.
class Interpreter::OutputGuard {
 public:
  explicit OutputGuard(Interpreter& interpreter)
      : interpreter_(interpreter), saved_(interpreter.out_), builder_(interpreter.budget) {
    interpreter_.out_ = &builder_;
  }
  ~OutputGuard() { interpreter_.out_ = saved_; }
  OutputGuard(const OutputGuard&) = delete;
  OutputGuard& operator=(const OutputGuard&) = delete;
  Text finish() && { return std::move(builder_).finish(); }

 private:
  Interpreter& interpreter_;
  TextBuilder* saved_;
  TextBuilder builder_;
};

Interpreter::Interpreter(const Program& program, const TemplateLimits& limits, std::time_t now)
    : budget(limits.steps, limits.output_bytes, limits.depth), program_(program), now_(now) {}

Interpreter::~Interpreter() = default;

Rendered Interpreter::run(const Json& context) {
  Scope globals;
  scope_ = &globals;
  for (Symbol symbol = 0; symbol < program_.names.size(); ++symbol) {
    const std::string& name = program_.names[symbol];
    const auto entry = context.find(name);
    if (entry == context.end()) continue;
    globals.set(symbol, from_json(*entry, !name.ends_with("_token"), 1), budget);
  }
  TextBuilder out(budget);
  out_ = &out;
  {
    const ScopeGuard scope(*this, &globals);
    execute(program_.body);
  }
  Rendered rendered;
  for (const Span& span : out.spans()) rendered.untrusted.emplace_back(span.begin, span.end);
  rendered.text = std::move(out).take_bytes();
  return rendered;
}

Value Interpreter::from_json(const Json& json, bool untrusted, int depth) {
  budget.check_depth(depth);
  budget.grant(16);
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value::boolean(json.get<bool>(), untrusted);
    case Json::value_t::number_integer:
      return Value::integer(json.get<std::int64_t>(), untrusted);
    case Json::value_t::number_unsigned:
      return Value::integer(json.get<std::uint64_t>(), untrusted);
    case Json::value_t::number_float:
      return Value::real(json.get<double>(), untrusted);
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      budget.grant(4 * text.size());
      return Value::string(text, untrusted);
    }
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const Json& item : json) items.push_back(from_json(item, untrusted, depth + 1));
      return make_list(std::move(items), budget, untrusted);
    }
    case Json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      dict->untrusted = untrusted;
      for (const auto& [key, value] : json.items()) {
        budget.grant(16 + key.size());
        dict->set(Value::string(key, untrusted), from_json(value, untrusted, depth + 1), budget);
      }
      return make_dict(std::move(dict), budget);
    }
    default:
      return Value::none(untrusted);
  }
}

// --- scopes

Scope* Interpreter::new_scope(Scope* parent) {
  Scope* scope = nullptr;
  if (free_scopes_.empty()) {
    budget.allocate(sizeof(Scope) + 4 * sizeof(Value));
    scopes_.push_back(std::make_unique<Scope>());
    scope = scopes_.back().get();
  } else {
    budget.step();
    scope = free_scopes_.back();
    free_scopes_.pop_back();
  }
  scope->parent = parent;
  return scope;
}

void Interpreter::release(Scope* scope) {
  if (scope->captured) return;
  scope->values.clear();
  free_scopes_.push_back(scope);
}

/// A macro or a loop object refers to the current scopes from now on.
void Interpreter::capture_scopes() {
  for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent)
    scope->captured = true;
}

// --- statements

Interpreter::Flow Interpreter::execute(const Block& block) {
  for (const auto& statement : block) {
    const Flow flow = execute(*statement);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Statement& statement) {
  const Budget::Level level(budget);
  budget.step();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::data:
      out_->add(statement.text);
      return Flow::next;
    case StatementKind::print:
      print(evaluate(*statement.expr));
      return Flow::next;
    case StatementKind::condition:
      return execute_condition(statement);
    case StatementKind::loop:
      return execute_loop(statement, evaluate(*statement.expr), scope_, 0);
    case StatementKind::assign:
      check_namespaces(statement.target);
      assign(statement.target, evaluate(*statement.expr));
      return Flow::next;
    case StatementKind::capture:
      return execute_capture(statement);
    case StatementKind::with:
      return execute_with(statement);
    case StatementKind::filter:
      return execute_filter(statement);
    case StatementKind::scope: {
      const ScopeGuard scope(*this, scope_);
      return execute(statement.body);
    }
    case StatementKind::macro:
      capture_scopes();
      scope_->set(statement.symbol, Value::object(make<Macro>(*statement.macro, scope_)), budget);
      return Flow::next;
    case StatementKind::call:
      execute_call(statement);
      return Flow::next;
    case StatementKind::break_loop:
      return Flow::leave_loop;
    case StatementKind::continue_loop:
      return Flow::next_iteration;
  }
  return Flow::next;
}

void Interpreter::print(const Value& value) {
  append_str(*out_, value);
}

Interpreter::Flow Interpreter::execute_condition(const Statement& statement) {
  for (const auto& [test, body] : statement.branches) {
    if (test == nullptr || truthy(evaluate(*test))) return execute(body);
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_loop(const Statement& statement, const Value& value, Scope* outer,
                                            int depth0) {
  std::shared_ptr<Array> items = items_of(value, budget).array();
  std::optional<Loop> local;
  Loop* loop = nullptr;
  if (statement.uses_loop) {
    if (statement.test != nullptr || statement.recursive) capture_scopes();
    loop = make<Loop>(*this, statement, outer, std::move(items), depth0);
  } else {
    loop = &local.emplace(*this, statement, outer, std::move(items), depth0);
  }
  bool completed = false;
  {
    ScopeGuard scope(*this, outer);
    while (loop->next()) {
      scope.renew();
      if (statement.uses_loop) scope_->set(program_.loop, Value::object(loop), budget);
      assign(statement.target, loop->current());
      const Flow flow = execute(statement.body);
      if (flow == Flow::leave_loop) break;
      completed |= flow == Flow::next;
    }
  }
  if (completed || statement.otherwise.empty()) return Flow::next;
  const ScopeGuard scope(*this, outer);
  return execute(statement.otherwise);
}

bool Interpreter::passes(const Loop& loop, const Value& item) {
  const ScopeGuard scope(*this, loop.outer());
  assign(loop.statement().target, item);
  return truthy(evaluate(*loop.statement().test));
}

Text Interpreter::recurse(const Loop& loop, const Value& items) {
  const Budget::Level level(budget);
  OutputGuard output(*this);
  execute_loop(loop.statement(), items, loop.outer(), loop.depth0() + 1);
  return std::move(output).finish();
}

Interpreter::Flow Interpreter::execute_capture(const Statement& statement) {
  Text text;
  Value result;
  {
    const ScopeGuard scope(*this, scope_);
    OutputGuard output(*this);
    const Flow flow = execute(statement.body);
    if (flow != Flow::next) return flow;
    result = Value::string(std::move(output).finish());
    if (statement.expr != nullptr) result = evaluate_filter(*statement.expr, &result);
  }
  check_namespaces(statement.target);
  assign(statement.target, result);
  return Flow::next;
}

Interpreter::Flow Interpreter::execute_with(const Statement& statement) {
  std::vector<Value> values;
  values.reserve(statement.bindings.size());
  for (const auto& [target, expr] : statement.bindings) values.push_back(evaluate(*expr));
  const ScopeGuard scope(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(statement.bindings[i].first, values[i]);
  return execute(statement.body);
}

Interpreter::Flow Interpreter::execute_filter(const Statement& statement) {
  const ScopeGuard scope(*this, scope_);
  Value body;
  {
    OutputGuard output(*this);
    const Flow flow = execute(statement.body);
    if (flow != Flow::next) return flow;
    body = Value::string(std::move(output).finish());
  }
  print(evaluate_filter(*statement.expr, &body));
  return Flow::next;
}

void Interpreter::execute_call(const Statement& statement) {
  capture_scopes();
  Value caller = Value::object(make<Macro>(*statement.macro, scope_));
  print(evaluate_call(*statement.expr, &caller));
}

// --- assignment

void Interpreter::check_namespaces(const Target& target) {
  for (const Target& item : target.items) check_namespaces(item);
  if (target.kind != Target::Kind::attribute) return;
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const Value* value = scope->find(target.symbol, budget);
    if (value == nullptr) continue;
    if (value->is(Type::object) && dynamic_cast<Namespace*>(value->object()) != nullptr) return;
    break;
  }
  misfit("cannot assign attribute on non-namespace object");
}

void Interpreter::assign(const Target& target, const Value& value) {
  budget.step();
  switch (target.kind) {
    case Target::Kind::name:
      scope_->set(target.symbol, value, budget);
      return;
    case Target::Kind::attribute:
      for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
        const Value* space = scope->find(target.symbol, budget);
        if (space == nullptr) continue;
        if (auto* object = space->is(Type::object) ? dynamic_cast<Namespace*>(space->object()) : nullptr) {
          budget.allocate(sizeof(Value));
          object->set(target.attribute, value);
          return;
        }
        break;  // {% set ns, ns.x = 1, 2 %}
      }
      misfit("cannot assign attribute on non-namespace object");
    case Target::Kind::tuple:
      break;
  }
  if (!iterable(value)) misfit("cannot unpack non-iterable {} object", value.type_name());
  const auto array = items_of(value, budget);
  const std::size_t expected = target.items.size(), count = array->items.size();
  if (count > expected) misfit("too many values to unpack (expected {})", expected);
  if (count < expected) misfit("not enough values to unpack (expected {}, got {})", expected, count);
  for (std::size_t i = 0; i < expected; ++i) assign(target.items[i], array->items[i]);
}

// --- macros

Text Interpreter::call_macro(const MacroBody& macro, Scope* defined_in, Arguments arguments) {
  const Budget::Level level(budget);
  const ScopeGuard scope(*this, defined_in);
  auto& named = arguments.named;
  const auto take_named = [&](std::string_view name) -> std::optional<Value> {
    budget.step(named.size() / kVariablesPerStep);
    const auto entry =
        std::find_if(named.begin(), named.end(), [&](const auto& pair) { return pair.first.view() == name; });
    if (entry == named.end()) return std::nullopt;
    Value value = std::move(entry->second);
    named.erase(entry);
    return value;
  };
  const std::size_t count = macro.parameters.size();
  bool found_caller = false;
  std::vector<std::optional<Value>> given(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string_view name = macro.parameters[i].name.view();
    found_caller |= name == "caller";
    given[i] = i < arguments.positional.size() ? std::optional(arguments.positional[i]) : take_named(name);
  }
  if (macro.uses_caller && !found_caller) {
    scope_->set(program_.caller, take_named("caller").value_or(Value::undefined("No caller defined")),
                budget);
  }
  if (macro.uses_kwargs) {
    auto dict = std::make_shared<Dict>();
    for (auto& [name, value] : named) dict->set(Value::string(name), std::move(value), budget);
    scope_->set(program_.kwargs, make_dict(std::move(dict), budget), budget);
  } else if (!named.empty()) {
    misfit("macro {} takes no keyword argument {}", in_quotes(macro.name.view()),
           in_quotes(named.front().first.view()));
  }
  auto& positional = arguments.positional;
  if (macro.uses_varargs) {
    const auto first = positional.begin() + static_cast<std::ptrdiff_t>(std::min(count, positional.size()));
    scope_->set(program_.varargs, make_tuple(std::vector<Value>(first, positional.end()), budget), budget);
  } else if (positional.size() > count) {
    misfit("macro {} takes not more than {} argument(s)", in_quotes(macro.name.view()), count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Parameter& parameter = macro.parameters[i];
    if (given[i].has_value()) scope_->set(parameter.symbol, std::move(*given[i]), budget);
  }
  for (std::size_t i = 0; i < count; ++i) {  // a default may refer to the parameters before it
    const Parameter& parameter = macro.parameters[i];
    if (given[i].has_value()) continue;
    Value value = parameter.fallback != nullptr
                      ? evaluate(*parameter.fallback)
                      : Value::undefined(
                            fmt::format("parameter {} was not provided", in_quotes(parameter.name.view())));
    scope_->set(parameter.symbol, std::move(value), budget);
  }
  OutputGuard output(*this);
  execute(macro.body);
  return std::move(output).finish();
}

}  // namespace lithe::chat
