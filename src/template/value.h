// The values of the template language: Python's, as far as templates can see them. Lists and dicts are
// immutable (the reference is an immutable sandbox), so they never form cycles, and nesting is bounded when
// they are made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "template/budget.h"
#include "template/text.h"

namespace lithe::chat {

using Integer = __int128;  // Python's integers have no bound; beyond kMaxInteger is an error here
inline constexpr Integer kMaxInteger = Integer{1} << 120;
Integer check_integer(Integer value);  // value, or a Fault

enum class Type : std::uint8_t {
  undefined,
  none,
  boolean,
  integer,
  real,
  string,
  list,
  tuple,
  view,
  iterator,
  range,
  dict,
  object,
  function,
  method
};

class Value;
class Dict;
struct Array;
struct Range;
struct Method;
class Object;
struct Function;  // builtins.h
struct Arguments;
class Interpreter;

/// Why a value is undefined: the message of the error that using it raises.
struct Undefined {
  std::string message;
};

class Value {
 public:
  Value() = default;  // undefined, with no name
  static Value undefined(std::string message);
  static Value none(bool untrusted = false) { return Value(Type::none, untrusted, std::monostate{}); }
  static Value boolean(bool value, bool untrusted = false) { return Value(Type::boolean, untrusted, value); }
  static Value integer(Integer value, bool untrusted = false);
  static Value real(double value, bool untrusted = false) { return Value(Type::real, untrusted, value); }
  static Value string(Text text, bool markup = false);
  static Value string(std::string bytes, bool untrusted = false) {
    return string(Text(std::move(bytes), untrusted));
  }
  static Value array(Type type, std::shared_ptr<Array> array) { return Value(type, false, std::move(array)); }
  static Value range(std::shared_ptr<const Range> range) {
    return Value(Type::range, false, std::move(range));
  }
  static Value dict(std::shared_ptr<const Dict> dict) { return Value(Type::dict, false, std::move(dict)); }
  static Value object(Object* object) { return Value(Type::object, false, object); }
  static Value function(const Function* function) { return Value(Type::function, false, function); }
  static Value method(std::shared_ptr<const Method> method) {
    return Value(Type::method, false, std::move(method));
  }

  Type type() const { return type_; }
  bool is(Type type) const { return type_ == type; }
  bool is_undefined() const { return type_ == Type::undefined; }
  bool is_none() const { return type_ == Type::none; }
  bool is_string() const { return type_ == Type::string; }
  bool is_integral() const { return type_ == Type::integer || type_ == Type::boolean; }
  bool is_number() const { return is_integral() || type_ == Type::real; }
  bool is_array() const { return type_ >= Type::list && type_ <= Type::iterator; }
  /// A scalar that came from the conversation. Texts and containers carry their own marks.
  bool untrusted() const { return untrusted_; }
  /// A string that `safe` or `escape` made.
  bool markup() const { return markup_; }

  bool as_bool() const { return std::get<bool>(data_); }
  Integer as_integer() const;  // of an integer or a boolean
  double as_real() const;      // of any number
  const Text& text() const { return std::get<Text>(data_); }
  std::string_view view() const { return text().view(); }
  const std::shared_ptr<Array>& array() const { return std::get<std::shared_ptr<Array>>(data_); }
  const Range& range() const { return *std::get<std::shared_ptr<const Range>>(data_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Object* object() const { return std::get<Object*>(data_); }
  const Function* function() const { return std::get<const Function*>(data_); }
  const Method& method() const { return *std::get<std::shared_ptr<const Method>>(data_); }

  /// The message of the error that using this undefined value raises.
  std::string undefined_message() const;
  const char* type_name() const;  // as Python names it
  int depth() const;              // 0 for scalars
  const void* identity() const;   // of containers and objects; nullptr for scalars

 private:
  struct Wide {
    std::uint64_t low;
    std::int64_t high;
  };  // an Integer without its alignment
  using Data = std::variant<std::monostate, bool, Wide, double, Text, std::shared_ptr<const Undefined>,
                            std::shared_ptr<Array>, std::shared_ptr<const Range>, std::shared_ptr<const Dict>,
                            std::shared_ptr<const Method>, Object*, const Function*>;
  Value(Type type, bool untrusted, Data data) : data_(std::move(data)), type_(type), untrusted_(untrusted) {}
  Data data_;
  Type type_ = Type::undefined;
  bool untrusted_ = false;
  bool markup_ = false;
};

/// The items of a list, a tuple, a dict's view or an iterator.
struct Array {
  std::vector<Value> items;
  bool untrusted = false;  // its punctuation, when printed
  int depth = 1;
  const char* type_name = "list";  // "dict_items", "generator", ...
  std::size_t cursor = 0;          // of an iterator: what has been taken
};

struct Range {
  Integer start = 0, stop = 0, step = 1;
  std::size_t size() const;
  Integer at(std::size_t index) const { return start + static_cast<Integer>(index) * step; }
};

/// What iterating over a value gives. To be held, or looped over directly, while the items are in use.
class Items {
 public:
  explicit Items(std::shared_ptr<Array> array) : array_(std::move(array)) {}
  const Array* operator->() const { return array_.get(); }
  auto begin() const { return std::as_const(array_->items).begin(); }
  auto end() const { return std::as_const(array_->items).end(); }
  std::size_t size() const { return array_->items.size(); }
  const std::shared_ptr<Array>& array() const { return array_; }

 private:
  std::shared_ptr<Array> array_;
};

/// Insertion-ordered. Complete before it becomes a Value. Keys may be chosen so that their hashes collide: every entry
/// that a look-up passes is paid for.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;
  const std::vector<Entry>& entries() const { return entries_; }
  std::size_t size() const { return entries_.size(); }
  const Value* find(const Value& key, Budget& budget) const;  // Fault: an unhashable key
  const Value* find(std::string_view key, Budget& budget) const;
  void set(Value key, Value value, Budget& budget);
  int depth() const { return depth_; }

  bool untrusted = false;  // its punctuation, when printed

 private:
  template <typename Matches>
  std::size_t locate(std::size_t hash, Budget& budget,
                     Matches&& matches) const;  // index into entries_, or entries_.size()
  void index(std::size_t hash, std::size_t entry, Budget& budget);
  std::vector<Entry> entries_;
  std::vector<std::size_t> hashes_;   // one per entry
  std::vector<std::uint32_t> slots_;  // entry + 1, open addressing, a power of two; empty while there are few
  int depth_ = 1;
};

/// A method bound to its value: `text.strip`.
struct Method {
  Value self;
  const Function* function;
};

/// Things with identity and state: namespaces, macros, loops. The interpreter owns them, so that values may
/// refer to them in circles.
class Object {
 public:
  virtual ~Object() = default;
  virtual const char* type_name() const = 0;
  /// Nothing if there is no such attribute.
  virtual bool attribute(std::string_view name, Value& out) = 0;
  virtual void append_repr(TextBuilder& out) const = 0;
  virtual bool callable() const { return false; }
  virtual Value call(Interpreter& interpreter, Arguments arguments);  // Fault: not callable
};

// --- making values

Value make_list(std::vector<Value> items, Budget& budget, bool untrusted = false);
Value make_tuple(std::vector<Value> items, Budget& budget, bool untrusted = false);
Value make_array(Type type, const char* type_name, std::vector<Value> items, Budget& budget,
                 bool untrusted = false);
Value make_dict(std::shared_ptr<Dict> dict, Budget& budget);

// --- Python's rules

bool truthy(const Value& value);
bool equal(const Value& a, const Value& b, Budget& budget);
/// Fault: '<' not supported between ...
enum class Order : std::int8_t { less = -1, same = 0, greater = 1, unordered = 2 };  // unordered: a NaN
Order compare(const Value& a, const Value& b, const char* op, Budget& budget);
std::size_t hash_of(const Value& value, Budget& budget);
/// len(): Fault if it has none.
std::size_t length_of(const Value& value, Budget& budget);
bool has_length(const Value& value);
bool contains(const Value& container, const Value& item, Budget& budget);
bool iterable(const Value& value);
/// The items as iter() gives them; an iterator is used up. Fault: not iterable.
Items items_of(const Value& value, Budget& budget);
/// Is any part of it from the conversation?
bool is_untrusted(const Value& value, Budget& budget);

}  // namespace lithe::chat
