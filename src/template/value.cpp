#include "template/value.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "template/builtins.h"
#include "template/unicode.h"

namespace lithe::chat {

Integer check_integer(Integer value) {
  if (value > kMaxInteger || value < -kMaxInteger) fail(Code::resource_exhausted, "an integer is too large");
  return value;
}

// --- Value

Value Value::undefined(std::string message) {
  return Value(Type::undefined, false, std::make_shared<const Undefined>(Undefined{std::move(message)}));
}

Value Value::integer(Integer value, bool untrusted) {
  return Value(Type::integer, untrusted,
               Wide{static_cast<std::uint64_t>(value), static_cast<std::int64_t>(value >> 64)});
}

Value Value::string(Text text, bool markup) {
  Value value(Type::string, false, std::move(text));
  value.markup_ = markup;
  return value;
}

Integer Value::as_integer() const {
  if (type_ == Type::boolean) return as_bool() ? 1 : 0;
  const Wide& wide = std::get<Wide>(data_);
  return static_cast<Integer>(static_cast<unsigned __int128>(static_cast<std::uint64_t>(wide.high)) << 64 |
                              wide.low);
}

double Value::as_real() const {
  return type_ == Type::real ? std::get<double>(data_) : static_cast<double>(as_integer());
}

std::string Value::undefined_message() const {
  const auto* info = std::get_if<std::shared_ptr<const Undefined>>(&data_);
  return info != nullptr ? (*info)->message : "value is undefined";
}

const char* Value::type_name() const {
  switch (type_) {
    case Type::undefined:
      return "Undefined";
    case Type::none:
      return "NoneType";
    case Type::boolean:
      return "bool";
    case Type::integer:
      return "int";
    case Type::real:
      return "float";
    case Type::string:
      return markup_ ? "Markup" : "str";
    case Type::list:
    case Type::tuple:
    case Type::view:
    case Type::iterator:
      return array()->type_name;
    case Type::range:
      return "range";
    case Type::dict:
      return "dict";
    case Type::object:
      return object()->type_name();
    case Type::function:
      return "function";
    case Type::method:
      return "builtin_function_or_method";
  }
  return "object";
}

int Value::depth() const {
  if (is_array()) return array()->depth;
  return type_ == Type::dict ? dict().depth() : type_ == Type::method ? method().self.depth() + 1 : 0;
}

const void* Value::identity() const {
  if (is_array()) return array().get();
  switch (type_) {
    case Type::dict:
      return &dict();
    case Type::range:
      return &range();
    case Type::object:
      return object();
    case Type::function:
      return function();
    default:
      return nullptr;
  }
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): by value for the objects that keep their arguments
Value Object::call(Interpreter&, Arguments) {
  misfit("'{}' object is not callable", type_name());
}

std::size_t Range::size() const {
  const Integer span = step > 0 ? stop - start : start - stop;
  const Integer width = step > 0 ? step : -step;
  return span <= 0 ? 0 : static_cast<std::size_t>((span + width - 1) / width);
}

// --- Dict

namespace {

constexpr std::size_t kFewEntries = 8;  // scanned without an index

std::size_t hash_text(std::string_view text) {
  return std::hash<std::string_view>()(text);
}

// Slots are the low bits, which multiples of a power of two have in common: all bits reach them here.
std::size_t hash_integer(Integer value) {
  auto mixed =
      static_cast<std::uint64_t>(value) ^ (static_cast<std::uint64_t>(value >> 64) * 0x9E3779B97F4A7C15u);
  mixed = (mixed ^ (mixed >> 33)) * 0xFF51AFD7ED558CCDu;
  mixed = (mixed ^ (mixed >> 33)) * 0xC4CEB9FE1A85EC53u;
  return mixed ^ (mixed >> 33);
}

}  // namespace

template <typename Matches>
std::size_t Dict::locate(std::size_t hash, Budget& budget, Matches&& matches) const {
  if (slots_.empty()) {
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (hashes_[i] == hash && matches(entries_[i].first)) return i;
    }
    return entries_.size();
  }
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask; slots_[at] != 0; at = (at + 1) & mask) {
    budget.step();
    const std::size_t i = slots_[at] - 1;
    if (hashes_[i] == hash && matches(entries_[i].first)) return i;
  }
  return entries_.size();
}

void Dict::index(std::size_t hash, std::size_t entry, Budget& budget) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at] != 0; at = (at + 1) & mask) budget.step();
  slots_[at] = static_cast<std::uint32_t>(entry + 1);
}

const Value* Dict::find(const Value& key, Budget& budget) const {
  const std::size_t hash = hash_of(key, budget);
  const std::size_t i = locate(hash, budget, [&](const Value& other) { return equal(key, other, budget); });
  return i < entries_.size() ? &entries_[i].second : nullptr;
}

const Value* Dict::find(std::string_view key, Budget& budget) const {
  budget.scan(key.size());
  const std::size_t i = locate(hash_text(key), budget,
                               [&](const Value& other) { return other.is_string() && other.view() == key; });
  return i < entries_.size() ? &entries_[i].second : nullptr;
}

void Dict::set(Value key, Value value, Budget& budget) {
  budget.allocate(sizeof(Entry));
  const std::size_t hash = hash_of(key, budget);
  depth_ = std::max({depth_, key.depth() + 1, value.depth() + 1});
  budget.check_depth(depth_);
  const std::size_t i = locate(hash, budget, [&](const Value& other) {
    budget.step();
    return equal(key, other, budget);
  });
  if (i < entries_.size()) {
    entries_[i].second = std::move(value);
    return;
  }
  entries_.emplace_back(std::move(key), std::move(value));
  hashes_.push_back(hash);
  if (entries_.size() <= kFewEntries) return;
  if (slots_.size() < 2 * entries_.size()) {
    slots_.assign(std::max<std::size_t>(4 * kFewEntries, 2 * slots_.size()), 0);
    for (std::size_t e = 0; e < entries_.size(); ++e) index(hashes_[e], e, budget);
  } else {
    index(hash, i, budget);
  }
}

// --- making values

Value make_array(Type type, const char* type_name, std::vector<Value> items, Budget& budget, bool untrusted) {
  budget.allocate(items.size() * sizeof(Value));
  auto array = std::make_shared<Array>();
  for (const Value& item : items) array->depth = std::max(array->depth, item.depth() + 1);
  budget.check_depth(array->depth);
  array->items = std::move(items);
  array->untrusted = untrusted;
  array->type_name = type_name;
  return Value::array(type, std::move(array));
}

Value make_list(std::vector<Value> items, Budget& budget, bool untrusted) {
  return make_array(Type::list, "list", std::move(items), budget, untrusted);
}

Value make_tuple(std::vector<Value> items, Budget& budget, bool untrusted) {
  return make_array(Type::tuple, "tuple", std::move(items), budget, untrusted);
}

Value make_dict(std::shared_ptr<Dict> dict, Budget& budget) {
  budget.check_depth(dict->depth());
  return Value::dict(std::move(dict));
}

// --- Python's rules

bool truthy(const Value& value) {
  switch (value.type()) {
    case Type::undefined:
    case Type::none:
      return false;
    case Type::boolean:
      return value.as_bool();
    case Type::integer:
      return value.as_integer() != 0;
    case Type::real:
      return value.as_real() != 0;
    case Type::string:
      return !value.text().empty();
    case Type::list:
    case Type::tuple:
    case Type::view:
      return !value.array()->items.empty();
    case Type::range:
      return value.range().size() > 0;
    case Type::dict:
      return value.dict().size() > 0;
    case Type::iterator:
    case Type::object:
    case Type::function:
    case Type::method:
      return true;
  }
  return true;
}

namespace {

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
  return a.as_real() == b.as_real();
}

bool equal_dicts(const Dict& a, const Dict& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.find(key, budget);
    if (other == nullptr || !equal(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Type::undefined:
    case Type::none:
      return true;
    case Type::string:
      if (a.text().size() == b.text().size()) budget.scan(a.text().size());
      return a.view() == b.view();
    case Type::list:
    case Type::tuple: {
      const auto& x = a.array()->items;
      const auto& y = b.array()->items;
      if (x.size() != y.size()) return false;
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (!equal(x[i], y[i], budget)) return false;
      }
      return true;
    }
    case Type::dict:
      return equal_dicts(a.dict(), b.dict(), budget);
    case Type::range: {
      const Range& x = a.range();
      const Range& y = b.range();
      const std::size_t size = x.size();
      return size == y.size() && (size == 0 || (x.start == y.start && (size == 1 || x.step == y.step)));
    }
    default:
      return a.identity() != nullptr && a.identity() == b.identity();
  }
}

Order compare(const Value& a, const Value& b, const char* op, Budget& budget) {
  budget.step();
  const auto order = [](const auto& x, const auto& y) {
    return x < y ? Order::less : y < x ? Order::greater : x == y ? Order::same : Order::unordered;
  };
  if (a.is_undefined()) misfit("{}", a.undefined_message());
  if (b.is_undefined()) misfit("{}", b.undefined_message());
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return order(a.as_integer(), b.as_integer());
    return order(a.as_real(), b.as_real());
  }
  if (a.is_string() && b.is_string()) {
    budget.scan(std::min(a.text().size(), b.text().size()));
    return order(a.view(), b.view());
  }
  if (a.type() == b.type() && (a.is(Type::list) || a.is(Type::tuple))) {
    const auto& x = a.array()->items;
    const auto& y = b.array()->items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
      if (!equal(x[i], y[i], budget)) return compare(x[i], y[i], op, budget);
    }
    return order(x.size(), y.size());
  }
  misfit("'{}' not supported between instances of '{}' and '{}'", op, a.type_name(), b.type_name());
}

std::size_t hash_of(const Value& value, Budget& budget) {
  budget.step();
  switch (value.type()) {
    case Type::boolean:
    case Type::integer:
      return hash_integer(value.as_integer());
    case Type::real: {
      const double real = value.as_real();
      const bool whole = std::abs(real) < static_cast<double>(kMaxInteger) && real == std::floor(real);
      // One that is equal to an integer is hashed like it.
      return whole ? hash_integer(static_cast<Integer>(real)) : std::hash<double>()(real);
    }
    case Type::string:
      budget.scan(value.text().size());
      return hash_text(value.view());
    case Type::tuple: {
      std::size_t hash = 0x9E3779B97F4A7C15u;
      for (const Value& item : value.array()->items) hash = hash * 1'000'003u ^ hash_of(item, budget);
      return hash;
    }
    case Type::list:
    case Type::dict:
      misfit("unhashable type: '{}'", value.type_name());
    default:
      return std::hash<const void*>()(value.identity());
  }
}

bool has_length(const Value& value) {
  switch (value.type()) {
    case Type::undefined:
    case Type::string:
    case Type::list:
    case Type::tuple:
    case Type::view:
    case Type::range:
    case Type::dict:
      return true;
    default:
      return false;
  }
}

std::size_t length_of(const Value& value, Budget& budget) {
  switch (value.type()) {
    case Type::undefined:
      return 0;
    case Type::string:
      budget.scan(value.text().size());
      return code_points(value.view());
    case Type::list:
    case Type::tuple:
    case Type::view:
      return value.array()->items.size();
    case Type::range:
      return value.range().size();
    case Type::dict:
      return value.dict().size();
    case Type::object: {
      Value length;  // of a loop
      if (value.object()->attribute("length", length) && length.is_integral()) {
        return static_cast<std::size_t>(length.as_integer());
      }
      [[fallthrough]];
    }
    default:
      misfit("object of type '{}' has no len()", value.type_name());
  }
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  switch (container.type()) {
    case Type::undefined:
      return false;
    case Type::string:
      if (!item.is_string()) {
        misfit("'in <string>' requires string as left operand, not {}", item.type_name());
      }
      budget.scan(container.text().size());
      return container.view().find(item.view()) != std::string_view::npos;
    case Type::dict:
      return container.dict().find(item, budget) != nullptr;
    default:
      break;
  }
  if (!iterable(container)) misfit("argument of type '{}' is not iterable", container.type_name());
  const auto array = items_of(container, budget);
  return std::any_of(array->items.begin(), array->items.end(),
                     [&](const Value& other) { return equal(item, other, budget); });
}

bool iterable(const Value& value) {
  return value.is_array() || value.is_string() || value.is_undefined() || value.is(Type::range) ||
         value.is(Type::dict);
}

Items items_of(const Value& value, Budget& budget) {
  if (value.is(Type::iterator)) {
    auto rest = std::make_shared<Array>();
    Array& source = *value.array();
    const auto taken = static_cast<std::ptrdiff_t>(source.cursor);
    budget.allocate((source.items.size() - source.cursor) * sizeof(Value));
    rest->items.assign(source.items.begin() + taken, source.items.end());
    rest->untrusted = source.untrusted;
    rest->depth = source.depth;
    source.cursor = source.items.size();
    return Items(std::move(rest));
  }
  if (value.is_array()) return Items(value.array());
  auto out = std::make_shared<Array>();
  switch (value.type()) {
    case Type::undefined:
      break;
    case Type::string: {
      const Text& text = value.text();
      budget.allocate(text.size() * sizeof(Value));
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t size = decode(text.view(), at).size;
        out->items.push_back(Value::string(text.sub(at, size)));
        at += size;
      }
      break;
    }
    case Type::range: {
      const std::size_t size = value.range().size();
      budget.allocate(size * sizeof(Value));
      for (std::size_t i = 0; i < size; ++i) out->items.push_back(Value::integer(value.range().at(i)));
      break;
    }
    case Type::dict:
      budget.allocate(value.dict().size() * sizeof(Value));
      for (const auto& entry : value.dict().entries()) out->items.push_back(entry.first);
      out->untrusted = value.dict().untrusted;
      break;
    default:
      misfit("'{}' object is not iterable", value.type_name());
  }
  for (const Value& item : out->items) out->depth = std::max(out->depth, item.depth() + 1);
  return Items(std::move(out));
}

bool is_untrusted(const Value& value, Budget& budget) {
  budget.step();
  if (value.untrusted()) return true;
  if (value.is_string()) return value.text().untrusted();
  if (value.is_array()) {
    const Array& array = *value.array();
    return array.untrusted || std::any_of(array.items.begin(), array.items.end(),
                                          [&](const Value& item) { return is_untrusted(item, budget); });
  }
  if (value.is(Type::dict)) {
    return value.dict().untrusted || std::any_of(value.dict().entries().begin(), value.dict().entries().end(),
                                                 [&](const Dict::Entry& entry) {
                                                   return is_untrusted(entry.first, budget) ||
                                                          is_untrusted(entry.second, budget);
                                                 });
  }
  return false;
}

}  // namespace lithe::chat
