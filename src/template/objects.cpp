#include "template/objects.h"

#include <algorithm>

#include "template/format.h"
#include "template/interpreter.h"

namespace lithe::chat {
namespace {

Loop& loop_of(Call& call) {
  return static_cast<Loop&>(*call[0].object());
}
Cycler& cycler_of(Call& call) {
  return static_cast<Cycler&>(*call[0].object());
}

Value loop_cycle(Call& call) {
  return loop_of(call).cycle(call.rest());
}
Value loop_changed(Call& call) {
  return Value::boolean(loop_of(call).changed(std::move(call.rest()), call.budget));
}
Value cycler_next(Call& call) {
  return cycler_of(call).next();
}
Value cycler_reset(Call& call) {
  cycler_of(call).reset();
  return Value::none();
}

constexpr Function kLoopMethods[] = {{"cycle", "self *", loop_cycle}, {"changed", "self *", loop_changed}};
constexpr Function kCyclerMethods[] = {{"next", "self", cycler_next}, {"reset", "self", cycler_reset}};

bool find_bound(std::span<const Function> table, Object* self, std::string_view name, Value& out) {
  const Function* function = find_function(table, name);
  if (function == nullptr) return false;
  out = Value::method(std::make_shared<const Method>(Method{Value::object(self), function}));
  return true;
}

}  // namespace

// --- Namespace

bool Namespace::attribute(std::string_view name, Value& out) {
  const Value* value = values_.find(name, budget_);
  if (value == nullptr) return false;
  out = *value;
  return true;
}

void Namespace::set(const Text& name, Value value) {
  values_.set(Value::string(name), std::move(value), budget_);
}

void Namespace::append_repr(TextBuilder& out) const {
  out.add("<Namespace {");
  bool first = true;
  for (const auto& [name, value] : values_.entries()) {
    if (!first) out.add(", ");
    first = false;
    lithe::chat::append_repr(out, name);
    out.add(": ");
    lithe::chat::append_repr(out, value);
  }
  out.add("}>");
}

// --- Macro

bool Macro::attribute(std::string_view name, Value& out) {
  if (name != "name") return false;
  out = Value::string(body_.name);
  return true;
}

void Macro::append_repr(TextBuilder& out) const {
  out.add(body_.name.empty() ? "<Macro anonymous>" : "<Macro " + in_quotes(body_.name.view()) + ">");
}

Value Macro::call(Interpreter& interpreter, Arguments arguments) {
  return Value::string(interpreter.call_macro(body_, scope_, std::move(arguments)));
}

// --- Loop

bool Loop::pull(Value& out) {
  while (position_ < items_->items.size()) {
    const Value& item = items_->items[position_++];
    interpreter_.budget.step();
    if (statement_.test == nullptr || filtered_ || interpreter_.passes(*this, item)) {
      out = item;
      return true;
    }
  }
  return false;
}

bool Loop::next() {
  Value item;
  if (after_.has_value()) {
    item = std::move(*after_);
    after_.reset();
  } else if (!pull(item)) {
    return false;
  }
  ++index0_;
  before_ = std::move(current_);
  current_ = std::move(item);
  return true;
}

bool Loop::peek() {
  Value item;
  if (!after_.has_value() && pull(item)) after_ = std::move(item);
  return after_.has_value();
}

std::size_t Loop::length() {
  if (length_.has_value()) return *length_;
  if (statement_.test == nullptr) {
    length_ = items_->items.size();
    return *length_;
  }
  auto rest = std::make_shared<Array>();  // as the reference does: everything that is left is filtered now
  for (Value item; pull(item);) {
    interpreter_.budget.allocate(sizeof(Value));
    rest->items.push_back(item);
  }
  length_ = rest->items.size() + static_cast<std::size_t>(index0_ + 1) + (after_.has_value() ? 1 : 0);
  items_ = std::move(rest);
  position_ = 0;
  filtered_ = true;
  return *length_;
}

bool Loop::attribute(std::string_view name, Value& out) {
  const auto integer = [&](Integer value) {
    out = Value::integer(value);
    return true;
  };
  if (name == "index") return integer(index0_ + 1);
  if (name == "index0") return integer(index0_);
  if (name == "length") return integer(static_cast<Integer>(length()));
  if (name == "revindex") return integer(static_cast<Integer>(length()) - index0_);
  if (name == "revindex0") return integer(static_cast<Integer>(length()) - index0_ - 1);
  if (name == "depth") return integer(depth0_ + 1);
  if (name == "depth0") return integer(depth0_);
  if (name == "first" || name == "last") {
    out = Value::boolean(name == "first" ? index0_ == 0 : !peek());
    return true;
  }
  if (name == "previtem") {
    out = index0_ == 0 ? Value::undefined("there is no previous item") : before_;
    return true;
  }
  if (name == "nextitem") {
    out = peek() ? *after_ : Value::undefined("there is no next item");
    return true;
  }
  return find_bound(kLoopMethods, this, name, out);
}

void Loop::append_repr(TextBuilder& out) const {
  const std::size_t size = length_.value_or(items_->items.size());
  out.add(fmt::format("<LoopContext {}/{}>", index0_ + 1, size));
}

Value Loop::call(Interpreter& interpreter, Arguments arguments) {
  if (!statement_.recursive) misfit("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    misfit("loop() takes exactly one argument");
  return Value::string(interpreter.recurse(*this, arguments.positional.front()));
}

Value Loop::cycle(const std::vector<Value>& values) const {
  if (values.empty()) misfit("no items for cycling given");
  return values[static_cast<std::size_t>(index0_) % values.size()];
}

bool Loop::changed(std::vector<Value> values, Budget& budget) {
  const bool same = last_changed_.has_value() && last_changed_->size() == values.size() &&
                    std::equal(values.begin(), values.end(), last_changed_->begin(),
                               [&](const Value& a, const Value& b) { return equal(a, b, budget); });
  if (!same) last_changed_ = std::move(values);
  return !same;
}

// --- Cycler and Joiner

bool Cycler::attribute(std::string_view name, Value& out) {
  if (name == "current") {
    out = items_[position_];
    return true;
  }
  return find_bound(kCyclerMethods, this, name, out);
}

Value Cycler::next() {
  Value out = items_[position_];
  position_ = (position_ + 1) % items_.size();
  return out;
}

Value Joiner::call(Interpreter&, Arguments) {
  if (used_) return separator_;
  used_ = true;
  return Value::string(Text());
}

}  // namespace lithe::chat
