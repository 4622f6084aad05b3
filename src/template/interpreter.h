// Evaluates a Program over one conversation. Lives for one rendering, in one thread.
#pragma once

#include <ctime>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "template/ast.h"
#include "template/budget.h"
#include "template/builtins.h"
#include "template/chat_template.h"

namespace lithe::chat {

class Loop;

/// The variables of one block; looked up from the innermost outwards.
struct Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<Symbol, Value>> values;
  bool captured = false;  // a macro refers to it: it may outlive its block

  Value* find(Symbol symbol, Budget& budget);
  void set(Symbol symbol, Value value, Budget& budget);
};

/// What Python finds with getattr(), if anything: a method, or an attribute of an object. Not the items of a
/// dict.
bool find_attribute(const Value& object, std::string_view name, Value& out);
/// The undefined value for an attribute that is not there.
Value no_attribute(const Value& object, std::string_view name);

class Interpreter {
 public:
  Interpreter(const Program& program, const TemplateLimits& limits, std::time_t now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Fault: whatever goes wrong; line() is then where.
  Rendered run(const Json& context);
  int line() const { return line_; }

  // --- for the built-in functions
  Budget budget;
  std::time_t now() const { return now_; }
  Value get_attribute(const Value& object, const Text& name);  // a.b
  Value get_item(const Value& object, const Value& key);       // a[b]
  Value call(const Value& callee, Arguments arguments);
  Value call_function(const Function& function, Arguments arguments);
  template <typename T, typename... Args>
  T* make(Args&&... args) {
    budget.allocate(sizeof(T) + 64);
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T* out = object.get();
    objects_.push_back(std::move(object));
    return out;
  }

  // --- for loops and macros
  bool passes(const Loop& loop, const Value& item);  // the `if` of a loop
  Text recurse(const Loop& loop, const Value& items);
  Text call_macro(const MacroBody& macro, Scope* scope, Arguments arguments);

 private:
  enum class Flow : std::uint8_t { next, leave_loop, next_iteration };
  class ScopeGuard;
  class OutputGuard;

  Value from_json(const Json& json, bool untrusted, int depth);

  // --- statements
  Flow execute(const Block& block);
  Flow execute(const Statement& statement);
  Flow execute_condition(const Statement& statement);
  Flow execute_loop(const Statement& statement, const Value& items, Scope* outer, int depth0);
  Flow execute_capture(const Statement& statement);
  Flow execute_with(const Statement& statement);
  Flow execute_filter(const Statement& statement);
  void execute_call(const Statement& statement);
  void assign(const Target& target, const Value& value);
  void check_namespaces(const Target& target);
  void print(const Value& value);

  // --- expressions
  Value evaluate(const Expr& expr);
  Value evaluate_name(const Expr& expr);
  Value evaluate_sequence(const Expr& expr);
  Value evaluate_dict(const Expr& expr);
  Value evaluate_binary(const Expr& expr);
  Value evaluate_concat(const Expr& expr);
  Value evaluate_logical(const Expr& expr);
  Value evaluate_compare(const Expr& expr);
  Value evaluate_conditional(const Expr& expr);
  Value evaluate_slice(const Expr& expr);
  Value evaluate_call(const Expr& expr, Value* caller);
  Value evaluate_filter(const Expr& expr, const Value* piped);
  Value evaluate_test(const Expr& expr);
  void evaluate_arguments(const CallArguments* written, Arguments& out);

  Scope* new_scope(Scope* parent);
  void release(Scope* scope);
  void capture_scopes();

  const Program& program_;
  std::time_t now_;
  int line_ = 0;
  Scope* scope_ = nullptr;
  TextBuilder* out_ = nullptr;
  std::vector<std::unique_ptr<Scope>> scopes_;
  std::vector<Scope*> free_scopes_;
  std::vector<std::unique_ptr<Object>> objects_;
};

}  // namespace lithe::chat
