#include "template/builtins.h"

#include <algorithm>

#include "template/format.h"
#include "template/interpreter.h"

namespace lithe::chat {

const Function* find_function(std::span<const Function> table, std::string_view name) {
  const auto row =
      std::find_if(table.begin(), table.end(), [&](const Function& f) { return f.name == name; });
  return row == table.end() ? nullptr : &*row;
}

const Function* find_filter(std::string_view name) {
  const Function* filter = find_function(text_filters(), name);
  return filter != nullptr ? filter : find_function(sequence_filters(), name);
}

const Function* find_test(std::string_view name) {
  return find_function(tests(), name);
}
const Function* find_global(std::string_view name) {
  return find_function(globals(), name);
}

const Function* find_method(Type type, std::string_view name) {
  switch (type) {
    case Type::string: {
      const Function* method = find_function(string_methods(), name);
      return method != nullptr ? method : find_function(string_predicates(), name);
    }
    case Type::dict:
      return find_function(dict_methods(), name);
    case Type::list:
    case Type::tuple: {
      const Function* method = find_function(list_methods(), name);
      return type == Type::tuple && name == "copy" ? nullptr : method;
    }
    default:
      return nullptr;
  }
}

bool is_withheld(Type type, std::string_view name) {
  if (name.size() > 4 && name.starts_with("__") && name.ends_with("__")) return true;
  static constexpr std::string_view kDict[] = {"clear", "pop", "popitem", "setdefault", "update"};
  static constexpr std::string_view kList[] = {"append", "clear", "pop",    "reverse",
                                               "insert", "sort",  "extend", "remove"};
  const auto among = [&](const auto& names) {
    return std::find(std::begin(names), std::end(names), name) != std::end(names);
  };
  return (type == Type::dict && among(kDict)) || (type == Type::list && among(kList));
}

// --- Call

namespace {

struct ParameterName {
  std::string_view name;
  bool optional;
};

struct Signature {
  std::vector<ParameterName> names;
  bool rest = false, named_rest = false;
};

Signature read_signature(std::string_view text) {
  Signature out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word == "*") {
      out.rest = true;
    } else if (word == "**") {
      out.named_rest = true;
    } else {
      const bool optional = word.ends_with('?');
      if (optional) word.remove_suffix(1);
      out.names.push_back({word, optional});
    }
  }
  return out;
}

}  // namespace

Call::Call(Interpreter& owner, const Function& function, Arguments arguments)
    : interpreter(owner), budget(owner.budget), function_(function) {
  const Signature signature = read_signature(function.parameters);
  const std::size_t count = signature.names.size();
  values_.resize(count);
  given_.resize(count);
  auto& positional = arguments.positional;
  if (positional.size() > count && !signature.rest) {
    misfit("{}() takes {} positional argument{} but {} were given", function.name, count,
           count == 1 ? "" : "s", positional.size());
  }
  for (std::size_t i = 0; i < positional.size(); ++i) {
    if (i < count) {
      values_[i] = std::move(positional[i]);
      given_[i] = true;
    } else {
      rest_.push_back(std::move(positional[i]));
    }
  }
  for (auto& [name, value] : arguments.named) {
    const auto slot = std::find_if(signature.names.begin(), signature.names.end(),
                                   [&](const ParameterName& p) { return p.name == name.view(); });
    const auto i = static_cast<std::size_t>(slot - signature.names.begin());
    if (i < count && !given_[i]) {
      values_[i] = std::move(value);
      given_[i] = true;
    } else if (signature.named_rest) {
      named_rest_.emplace_back(name, std::move(value));
    } else if (i < count) {
      misfit("{}() got multiple values for argument {}", function.name, in_quotes(name.view()));
    } else {
      misfit("{}() got an unexpected keyword argument {}", function.name, in_quotes(name.view()));
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!given_[i] && !signature.names[i].optional) {
      misfit("{}() missing 1 required positional argument: {}", function.name,
             in_quotes(signature.names[i].name));
    }
  }
}

Text Call::text(std::size_t i) const {
  return to_text(values_[i], budget);
}

const Text& Call::string(std::size_t i) const {
  if (values_[i].is_undefined()) misfit("{}", values_[i].undefined_message());
  if (!values_[i].is_string())
    misfit("{}() argument must be str, not {}", function_.name, values_[i].type_name());
  return values_[i].text();
}

Integer Call::integer(std::size_t i, Integer fallback) const {
  if (!given_[i]) return fallback;
  if (values_[i].is_undefined()) misfit("{}", values_[i].undefined_message());
  if (!values_[i].is_integral())
    misfit("'{}' object cannot be interpreted as an integer", values_[i].type_name());
  return values_[i].as_integer();
}

bool Call::flag(std::size_t i, bool fallback) const {
  return given_[i] ? truthy(values_[i]) : fallback;
}

}  // namespace lithe::chat
