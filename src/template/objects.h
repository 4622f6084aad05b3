// The values with identity and state. The interpreter owns them all and drops them together, so circles do no
// harm.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "template/ast.h"
#include "template/builtins.h"
#include "template/value.h"

namespace lithe::chat {

class Interpreter;
struct Scope;

/// The one kind of value that a template may change: {% set ns.attribute = value %}.
class Namespace final : public Object {
 public:
  explicit Namespace(Budget& budget) : budget_(budget) {}
  const char* type_name() const override { return "Namespace"; }
  bool attribute(std::string_view name, Value& out) override;
  void append_repr(TextBuilder& out) const override;
  void set(const Text& name, Value value);

 private:
  Budget& budget_;
  Dict values_;
};

class Macro final : public Object {
 public:
  Macro(const MacroBody& body, Scope* scope) : body_(body), scope_(scope) {}
  const char* type_name() const override { return "Macro"; }
  bool attribute(std::string_view name, Value& out) override;
  void append_repr(TextBuilder& out) const override;
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override;

 private:
  const MacroBody& body_;
  Scope* scope_;
};

/// `loop`: walks the items, looking one ahead where the template asks for what comes next.
class Loop final : public Object {
 public:
  Loop(Interpreter& interpreter, const Statement& statement, Scope* outer, std::shared_ptr<Array> items,
       int depth0)
      : interpreter_(interpreter),
        statement_(statement),
        outer_(outer),
        items_(std::move(items)),
        depth0_(depth0) {}

  const char* type_name() const override { return "LoopContext"; }
  bool attribute(std::string_view name, Value& out) override;
  void append_repr(TextBuilder& out) const override;
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override;

  /// Moves on; false at the end.
  bool next();
  const Value& current() const { return current_; }
  const Statement& statement() const { return statement_; }
  Scope* outer() const { return outer_; }
  int depth0() const { return depth0_; }
  Value cycle(const std::vector<Value>& values) const;
  bool changed(std::vector<Value> values, Budget& budget);

 private:
  bool pull(Value& out);
  bool peek();
  std::size_t length();

  Interpreter& interpreter_;
  const Statement& statement_;
  Scope* outer_;
  std::shared_ptr<Array> items_;
  int depth0_;
  std::size_t position_ = 0;  // in items_
  bool filtered_ = false;     // what is left in items_ has passed the loop's `if`
  std::int64_t index0_ = -1;
  Value before_, current_;
  std::optional<Value> after_;
  std::optional<std::size_t> length_;
  std::optional<std::vector<Value>> last_changed_;
};

class Cycler final : public Object {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  const char* type_name() const override { return "Cycler"; }
  bool attribute(std::string_view name, Value& out) override;
  void append_repr(TextBuilder& out) const override { out.add("<Cycler object>"); }
  Value next();
  void reset() { position_ = 0; }

 private:
  std::vector<Value> items_;
  std::size_t position_ = 0;
};

class Joiner final : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}
  const char* type_name() const override { return "Joiner"; }
  bool attribute(std::string_view, Value&) override { return false; }
  void append_repr(TextBuilder& out) const override { out.add("<Joiner object>"); }
  bool callable() const override { return true; }
  Value call(Interpreter& interpreter, Arguments arguments) override;

 private:
  Value separator_;
  bool used_ = false;
};

}  // namespace lithe::chat
