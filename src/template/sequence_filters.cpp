// Filters over lists and dicts.
#include <algorithm>

#include "template/builtins.h"
#include "template/format.h"
#include "template/interpreter.h"
#include "template/operators.h"
#include "template/strings.h"
#include "template/unicode.h"

namespace lithe::chat {
namespace {

bool untrusted_items(const Value& value) {
  return value.is_array() ? value.array()->untrusted : value.is(Type::dict) && value.dict().untrusted;
}

Value generator(std::vector<Value> items, Call& c) {
  return make_array(Type::iterator, "generator", std::move(items), c.budget, untrusted_items(c[0]));
}

// --- attribute paths: attribute='function.name', attribute=0

std::vector<Value> attribute_path(const Value& attribute) {
  if (attribute.is_none()) return {};
  if (!attribute.is_string()) return {attribute};
  std::vector<Value> out;
  std::string_view rest = attribute.view();
  while (true) {
    const std::size_t end = std::min(rest.find('.'), rest.size());
    const std::string_view part = rest.substr(0, end);
    const bool digits = !part.empty() && part.size() < 18 &&
                        std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    out.push_back(digits ? Value::integer(std::stoll(std::string(part))) : Value::string(std::string(part)));
    if (end == rest.size()) return out;
    rest.remove_prefix(end + 1);
  }
}

Value follow(Value item, const std::vector<Value>& path, const Value* fallback, Interpreter& interpreter) {
  for (const Value& part : path) {
    item = interpreter.get_item(item, part);
    if (fallback != nullptr && item.is_undefined()) item = *fallback;
  }
  return item;
}

Value without_case(Value value, bool case_sensitive, Budget& budget) {
  if (case_sensitive || !value.is_string()) return value;
  return Value::string(to_lower(value.text(), budget));
}

// --- size and ends

Value length(Call& c) {
  return Value::integer(static_cast<Integer>(length_of(c[0], c.budget)));
}

Value first(Call& c) {
  const auto items = items_of(c[0], c.budget);
  return items->items.empty() ? Value::undefined("No first item, sequence was empty.") : items->items.front();
}

Value last(Call& c) {
  if (!iterable(c[0]) || c[0].is(Type::iterator)) misfit("'{}' object is not reversible", c[0].type_name());
  const auto items = items_of(c[0], c.budget);
  return items->items.empty() ? Value::undefined("No last item, sequence was empty.") : items->items.back();
}

Value list(Call& c) {
  const auto items = items_of(c[0], c.budget);
  return make_list(items->items, c.budget, items->untrusted);
}

Value reverse(Call& c) {
  if (c[0].is_string()) {
    const Value step = Value::integer(-1);
    return slice(c[0], nullptr, nullptr, &step, c.budget);
  }
  if (!iterable(c[0])) misfit("argument must be iterable");
  const bool was_iterator = c[0].is(Type::iterator);
  const auto items = items_of(c[0], c.budget);
  std::vector<Value> out(items->items.rbegin(), items->items.rend());
  if (was_iterator) return make_list(std::move(out), c.budget, items->untrusted);
  const char* name = c[0].is(Type::list) ? "list_reverseiterator" : "reversed";
  return make_array(Type::iterator, name, std::move(out), c.budget, items->untrusted);
}

Value join(Call& c) {
  const auto items = items_of(c[0], c.budget);
  const bool by_attribute = c.has(2) && !c[2].is_none();
  const std::vector<Value> path = by_attribute ? attribute_path(c[2]) : std::vector<Value>();
  std::vector<Text> parts;
  parts.reserve(items->items.size());
  for (const Value& item : items->items) {
    parts.push_back(to_text(follow(item, path, nullptr, c.interpreter), c.budget));
  }
  return Value::string(lithe::chat::join(c.has(1) ? c.text(1) : Text(), parts, c.budget));
}

Value items(Call& c) {
  if (c[0].is_undefined()) return generator({}, c);
  if (!c[0].is(Type::dict)) misfit("Can only get item pairs from a mapping.");
  std::vector<Value> out;
  for (const auto& [key, value] : c[0].dict().entries()) {
    out.push_back(make_tuple({key, value}, c.budget, c[0].dict().untrusted));
  }
  return generator(std::move(out), c);
}

// --- order

/// Sorts stably by keys that were computed once.
std::vector<Value> sorted(std::vector<Value> items, std::vector<Value> keys, bool reversed, Budget& budget) {
  std::vector<std::size_t> order(items.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return compare(keys[reversed ? b : a], keys[reversed ? a : b], "<", budget) == Order::less;
  });
  std::vector<Value> out;
  out.reserve(items.size());
  for (const std::size_t i : order) out.push_back(std::move(items[i]));
  return out;
}

Value sort(Call& c) {
  const bool case_sensitive = c.flag(2, false);
  std::vector<std::vector<Value>> paths;
  if (c.has(3) && c[3].is_string()) {
    for (const Text& part : split_at(c[3].text(), ",", -1, c.budget))
      paths.push_back(attribute_path(Value::string(part)));
  } else {
    paths.push_back(c.has(3) ? attribute_path(c[3]) : std::vector<Value>());
  }
  const auto items = items_of(c[0], c.budget);
  std::vector<Value> keys;
  for (const Value& item : items->items) {
    std::vector<Value> key;
    key.reserve(paths.size());
    for (const auto& path : paths) {
      key.push_back(without_case(follow(item, path, nullptr, c.interpreter), case_sensitive, c.budget));
    }
    keys.push_back(make_list(std::move(key), c.budget));
  }
  return make_list(sorted(items->items, std::move(keys), c.flag(1, false), c.budget), c.budget,
                   items->untrusted);
}

Value dictsort(Call& c) {
  if (c[0].is_undefined()) misfit("{}", c[0].undefined_message());
  if (!c[0].is(Type::dict)) misfit("'{}' object has no attribute 'items'", c[0].type_name());
  const std::string_view by = c.has(2) ? c.string(2).view() : "key";
  if (by != "key" && by != "value") misfit("You can only sort by either \"key\" or \"value\"");
  std::vector<Value> pairs, keys;
  for (const auto& [key, value] : c[0].dict().entries()) {
    keys.push_back(without_case(by == "key" ? key : value, c.flag(1, false), c.budget));
    pairs.push_back(make_tuple({key, value}, c.budget, c[0].dict().untrusted));
  }
  return make_list(sorted(std::move(pairs), std::move(keys), c.flag(3, false), c.budget), c.budget,
                   c[0].dict().untrusted);
}

Value extreme(Call& c, Order wanted) {
  const bool by_attribute = c.has(2) && !c[2].is_none();
  const std::vector<Value> path = by_attribute ? attribute_path(c[2]) : std::vector<Value>();
  const auto items = items_of(c[0], c.budget);
  if (items->items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  Value best, best_key;
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    const Value& item = items->items[i];
    Value key = without_case(follow(item, path, nullptr, c.interpreter), c.flag(1, false), c.budget);
    const bool better =
        i == 0 || compare(key, best_key, wanted == Order::less ? "<" : ">", c.budget) == wanted;
    if (!better) continue;
    best = item;
    best_key = std::move(key);
  }
  return best;
}
Value minimum(Call& c) {
  return extreme(c, Order::less);
}
Value maximum(Call& c) {
  return extreme(c, Order::greater);
}

Value sum(Call& c) {
  const bool by_attribute = c.has(1) && !c[1].is_none();
  const std::vector<Value> path = by_attribute ? attribute_path(c[1]) : std::vector<Value>();
  Value total = c.has(2) ? c[2] : Value::integer(0);
  if (total.is_string()) misfit("sum() can't sum strings [use ''.join(seq) instead]");
  const auto items = items_of(c[0], c.budget);
  for (const Value& item : items->items) {
    total = operate(ExprKind::add, total, follow(item, path, nullptr, c.interpreter), c.budget);
  }
  return total;
}

Value unique(Call& c) {
  const bool by_attribute = c.has(2) && !c[2].is_none();
  const std::vector<Value> path = by_attribute ? attribute_path(c[2]) : std::vector<Value>();
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : items_of(c[0], c.budget)) {
    const Value key = without_case(follow(item, path, nullptr, c.interpreter), c.flag(1, false), c.budget);
    const std::size_t before = seen.size();
    seen.set(key, Value::none(), c.budget);
    if (seen.size() > before) out.push_back(item);
  }
  return generator(std::move(out), c);
}

// --- parts

Value batch(Call& c) {
  const Integer size = c.integer(1, 0);
  const bool fill = c.has(2) && !c[2].is_none();
  if (fill && size > (1 << 20)) fail(Code::resource_exhausted, "a batch is too large");
  std::vector<Value> out, part;
  for (const Value& item : items_of(c[0], c.budget)) {
    if (static_cast<Integer>(part.size()) == size) {
      out.push_back(make_list(std::move(part), c.budget));
      part.clear();
    }
    part.push_back(item);
  }
  if (!part.empty()) {
    while (fill && static_cast<Integer>(part.size()) < size) part.push_back(c[2]);
    out.push_back(make_list(std::move(part), c.budget));
  }
  return generator(std::move(out), c);
}

Value slice_into(Call& c) {
  const auto items = items_of(c[0], c.budget);
  const Integer slices = c.integer(1, 0);
  if (slices == 0) misfit("integer division or modulo by zero");
  if (slices > 100'000) fail(Code::resource_exhausted, "too many slices");
  const auto size = static_cast<Integer>(items->items.size());
  const Integer each = slices > 0 ? size / slices : 0, longer = slices > 0 ? size % slices : 0;
  std::vector<Value> out;
  auto at = items->items.begin();
  for (Integer i = 0; i < slices; ++i) {
    const auto end = at + static_cast<std::ptrdiff_t>(each + (i < longer ? 1 : 0));
    std::vector<Value> part(at, end);
    if (c.has(2) && !c[2].is_none() && i >= longer) part.push_back(c[2]);
    out.push_back(make_list(std::move(part), c.budget));
    at = end;
  }
  return generator(std::move(out), c);
}

Value groupby(Call& c) {
  const std::vector<Value> path = attribute_path(c[1]);
  const Value* fallback = c.has(2) && !c[2].is_none() ? &c[2] : nullptr;
  const bool case_sensitive = c.flag(3, false);
  std::vector<Value> items = items_of(c[0], c.budget)->items, keys;
  const auto key_of = [&](const Value& item) {
    return without_case(follow(item, path, fallback, c.interpreter), case_sensitive, c.budget);
  };
  for (const Value& item : items) keys.push_back(key_of(item));
  items = sorted(std::move(items), std::move(keys), false, c.budget);
  std::vector<Value> out;
  for (std::size_t begin = 0; begin < items.size();) {
    const Value key = key_of(items[begin]);
    std::size_t end = begin + 1;
    while (end < items.size() && equal(key, key_of(items[end]), c.budget)) ++end;
    std::vector<Value> group(items.begin() + static_cast<std::ptrdiff_t>(begin),
                             items.begin() + static_cast<std::ptrdiff_t>(end));
    Value name = case_sensitive ? key : follow(group.front(), path, fallback, c.interpreter);
    out.push_back(make_array(Type::tuple, "_GroupTuple",
                             {std::move(name), make_list(std::move(group), c.budget)}, c.budget));
    begin = end;
  }
  return make_list(std::move(out), c.budget, untrusted_items(c[0]));
}

// --- map, select, reject

/// Takes the named argument out of the rest, if it is there.
std::optional<Value> take_named(Call& c, std::string_view name) {
  auto& named = c.named_rest();
  const auto entry =
      std::find_if(named.begin(), named.end(), [&](const auto& pair) { return pair.first.view() == name; });
  if (entry == named.end()) return std::nullopt;
  Value value = std::move(entry->second);
  named.erase(entry);
  return value;
}

/// A call of the filter or test with this value before the arguments that were given.
Value apply(const Function& function, const Value& item, const std::vector<Value>& rest, Call& c) {
  Arguments arguments;
  arguments.positional.push_back(item);
  arguments.positional.insert(arguments.positional.end(), rest.begin(), rest.end());
  arguments.named = c.named_rest();
  c.budget.step(rest.size() + 1);
  return c.interpreter.call_function(function, std::move(arguments));
}

Value map(Call& c) {
  std::vector<Value> out;
  if (!truthy(c[0])) return generator({}, c);
  auto& rest = c.rest();
  if (rest.empty()) {
    const std::optional<Value> attribute = take_named(c, "attribute");
    if (!attribute) misfit("map requires a filter argument");
    const std::optional<Value> fallback = take_named(c, "default");
    if (!c.named_rest().empty()) {
      misfit("Unexpected keyword argument {}", in_quotes(c.named_rest().front().first.view()));
    }
    const bool has_fallback = fallback && !fallback->is_none();
    const std::vector<Value> path = attribute_path(*attribute);
    for (const Value& item : items_of(c[0], c.budget)) {
      out.push_back(follow(item, path, has_fallback ? &*fallback : nullptr, c.interpreter));
    }
    return generator(std::move(out), c);
  }
  const Function* filter = rest[0].is_string() ? find_filter(rest[0].view()) : nullptr;
  if (filter == nullptr) misfit("No filter named {}.", repr_of(rest[0], c.budget));
  const std::vector<Value> arguments(rest.begin() + 1, rest.end());
  for (const Value& item : items_of(c[0], c.budget)) out.push_back(apply(*filter, item, arguments, c));
  return generator(std::move(out), c);
}

Value pick(Call& c, bool wanted, bool by_attribute) {
  if (!truthy(c[0])) return generator({}, c);
  const auto& rest = c.rest();
  if (by_attribute && rest.empty()) misfit("Missing parameter for attribute name");
  const std::vector<Value> path = by_attribute ? attribute_path(rest[0]) : std::vector<Value>();
  const std::size_t at = by_attribute ? 1 : 0;
  const Function* test = nullptr;
  if (rest.size() > at) {
    test = rest[at].is_string() ? find_test(rest[at].view()) : nullptr;
    if (test == nullptr) misfit("No test named {}.", repr_of(rest[at], c.budget));
  }
  const auto first = rest.begin() + static_cast<std::ptrdiff_t>(std::min(at + 1, rest.size()));
  const std::vector<Value> arguments(first, rest.end());
  std::vector<Value> out;
  for (const Value& item : items_of(c[0], c.budget)) {
    const Value value = follow(item, path, nullptr, c.interpreter);
    if (truthy(test != nullptr ? apply(*test, value, arguments, c) : value) == wanted) out.push_back(item);
  }
  return generator(std::move(out), c);
}
Value select(Call& c) {
  return pick(c, true, false);
}
Value reject(Call& c) {
  return pick(c, false, false);
}
Value selectattr(Call& c) {
  return pick(c, true, true);
}
Value rejectattr(Call& c) {
  return pick(c, false, true);
}

Value attribute(Call& c) {
  Value out;
  if (c[0].is_undefined()) misfit("{}", c[0].undefined_message());
  if (find_attribute(c[0], c.string(1).view(), out)) return out;
  return no_attribute(c[0], c.string(1).view());
}

constexpr Function kSequenceFilters[] = {
    {"attr", "obj name", attribute},
    {"batch", "value linecount fill_with?", batch},
    {"count", "value", length},
    {"dictsort", "value case_sensitive? by? reverse?", dictsort},
    {"first", "seq", first},
    {"groupby", "value attribute default? case_sensitive?", groupby},
    {"items", "value", items},
    {"join", "value d? attribute?", join},
    {"last", "seq", last},
    {"length", "value", length},
    {"list", "value", list},
    {"map", "value * **", map},
    {"max", "value case_sensitive? attribute?", maximum},
    {"min", "value case_sensitive? attribute?", minimum},
    {"reject", "value * **", reject},
    {"rejectattr", "value * **", rejectattr},
    {"reverse", "value", reverse},
    {"select", "value * **", select},
    {"selectattr", "value * **", selectattr},
    {"slice", "value slices fill_with?", slice_into},
    {"sort", "value reverse? case_sensitive? attribute?", sort},
    {"sum", "iterable attribute? start?", sum},
    {"unique", "value case_sensitive? attribute?", unique},
};

}  // namespace

std::span<const Function> sequence_filters() {
  return kSequenceFilters;
}

}  // namespace lithe::chat
