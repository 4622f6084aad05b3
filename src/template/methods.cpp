// Methods of strings, lists and dicts: {{ value.name(arguments) }}. The first parameter is the value.
#include <algorithm>

#include "template/builtins.h"
#include "template/format.h"
#include "template/interpreter.h"
#include "template/strformat.h"
#include "template/strings.h"
#include "template/unicode.h"

namespace lithe::chat {
namespace {

Value like(const Call& c, Text text) {
  return Value::string(std::move(text), c[0].markup());
}

Value list_of(std::vector<Text> parts, const Call& c, Type type = Type::list) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (Text& part : parts) items.push_back(like(c, std::move(part)));
  return make_array(type, type == Type::list ? "list" : "tuple", std::move(items), c.budget);
}

// --- case

Value upper(Call& c) {
  return like(c, to_upper(c[0].text(), c.budget));
}
Value lower(Call& c) {
  return like(c, to_lower(c[0].text(), c.budget));
}
Value title(Call& c) {
  return like(c, to_title(c[0].text(), c.budget));
}
Value capitalize(Call& c) {
  return like(c, to_capitalized(c[0].text(), c.budget));
}
Value casefold(Call& c) {
  return like(c, fold_case(c[0].text(), c.budget));
}
Value swapcase(Call& c) {
  return like(c, swap_case(c[0].text(), c.budget));
}

// --- ends

Value strip_ends(Call& c, bool left, bool right) {
  if (!c.has(1) || c[1].is_none()) return like(c, strip(c[0].text(), left, right, c.budget));
  return like(c, strip_characters(c[0].text(), c.string(1).view(), left, right, c.budget));
}
Value strip_both(Call& c) {
  return strip_ends(c, true, true);
}
Value lstrip(Call& c) {
  return strip_ends(c, true, false);
}
Value rstrip(Call& c) {
  return strip_ends(c, false, true);
}

/// text[start:end] of a method's optional arguments at `first` and `first + 1`; nothing if start lies beyond
/// the end.
std::optional<std::string_view> window(Call& c, std::size_t first, std::size_t& skipped) {
  const std::string_view text = c[0].view();
  c.budget.scan(text.size());
  skipped = 0;
  const bool has_start = c.has(first) && !c[first].is_none(),
             has_end = c.has(first + 1) && !c[first + 1].is_none();
  if (!has_start && !has_end) return text;
  const auto size = static_cast<Integer>(code_points(text));
  const auto clamp = [&](Integer index) { return std::max<Integer>(index < 0 ? index + size : index, 0); };
  const Integer start = clamp(has_start ? c.integer(first, 0) : 0);
  const Integer end = std::min(clamp(has_end ? c.integer(first + 1, size) : size), size);
  if (start > size || end < start) return std::nullopt;
  skipped = static_cast<std::size_t>(start);
  const std::size_t begin = offset_of(text, skipped);
  return text.substr(begin, offset_of(text.substr(begin), static_cast<std::size_t>(end - start)));
}

Value test_end(Call& c, bool at_start) {
  std::size_t skipped = 0;
  const auto text = window(c, 2, skipped);
  const auto matches = [&](const Value& affix) {
    if (affix.is_undefined()) misfit("{}", affix.undefined_message());
    if (!affix.is_string()) {
      misfit("{} first arg must be str or a tuple of str, not {}", at_start ? "startswith" : "endswith",
             affix.type_name());
    }
    return text && (at_start ? text->starts_with(affix.view()) : text->ends_with(affix.view()));
  };
  if (!c[1].is(Type::tuple)) return Value::boolean(matches(c[1]));
  const auto& affixes = c[1].array()->items;
  return Value::boolean(std::any_of(affixes.begin(), affixes.end(), matches));
}
Value starts_with(Call& c) {
  return test_end(c, true);
}
Value ends_with(Call& c) {
  return test_end(c, false);
}

Value remove_prefix(Call& c) {
  const Text& text = c[0].text();
  const std::size_t size = text.view().starts_with(c.string(1).view()) ? c.string(1).size() : 0;
  return like(c, text.sub(size, text.size() - size));
}
Value remove_suffix(Call& c) {
  const Text& text = c[0].text();
  const std::size_t size = text.view().ends_with(c.string(1).view()) ? c.string(1).size() : 0;
  return like(c, text.sub(0, text.size() - size));
}

// --- searching

Value find_text(Call& c, bool from_right, bool must_exist) {
  std::size_t skipped = 0;
  const Text& needle = c.string(1);
  const auto text = window(c, 2, skipped);
  const std::size_t at = !text        ? std::string_view::npos
                         : from_right ? text->rfind(needle.view())
                                      : text->find(needle.view());
  if (at != std::string_view::npos) {
    return Value::integer(static_cast<Integer>(skipped + code_points(text->substr(0, at))));
  }
  if (must_exist) misfit("substring not found");
  return Value::integer(-1);
}
Value find(Call& c) {
  return find_text(c, false, false);
}
Value rfind(Call& c) {
  return find_text(c, true, false);
}
Value index(Call& c) {
  return find_text(c, false, true);
}
Value rindex(Call& c) {
  return find_text(c, true, true);
}

Value count(Call& c) {
  std::size_t skipped = 0;
  const Text& needle = c.string(1);
  const auto text = window(c, 2, skipped);
  if (!text) return Value::integer(0);
  if (needle.empty()) return Value::integer(static_cast<Integer>(code_points(*text)) + 1);
  Integer found = 0;
  for (std::size_t at = text->find(needle.view()); at != std::string_view::npos;
       at = text->find(needle.view(), at + needle.size())) {
    ++found;
  }
  return Value::integer(found);
}

// --- splitting and joining

Value split_by(Call& c, bool from_right) {
  const Integer limit = c.integer(2, -1);
  if (!c.has(1) || c[1].is_none()) {
    return list_of(from_right ? split_at_space_from_right(c[0].text(), limit, c.budget)
                              : split_at_space(c[0].text(), limit, c.budget),
                   c);
  }
  const Text& separator = c.string(1);
  return list_of(from_right ? split_at_from_right(c[0].text(), separator.view(), limit, c.budget)
                            : split_at(c[0].text(), separator.view(), limit, c.budget),
                 c);
}
Value split(Call& c) {
  return split_by(c, false);
}
Value rsplit(Call& c) {
  return split_by(c, true);
}
Value splitlines(Call& c) {
  return list_of(split_lines(c[0].text(), c.flag(1, false), c.budget), c);
}

Value partition(Call& c) {
  std::vector<Text> parts = split_at(c[0].text(), c.string(1).view(), 1, c.budget);
  if (parts.size() == 1) {
    parts.resize(3);
  } else {
    parts.insert(parts.begin() + 1, c.string(1));
  }
  return list_of(std::move(parts), c, Type::tuple);
}
Value rpartition(Call& c) {
  std::vector<Text> parts = split_at_from_right(c[0].text(), c.string(1).view(), 1, c.budget);
  if (parts.size() == 1) {
    parts.insert(parts.begin(), 2, Text());
  } else {
    parts.insert(parts.begin() + 1, c.string(1));
  }
  return list_of(std::move(parts), c, Type::tuple);
}

Value join_items(Call& c) {
  if (!iterable(c[1])) misfit("can only join an iterable");
  std::vector<Text> parts;
  for (const Value& item : items_of(c[1], c.budget)) {
    if (!item.is_string()) {
      misfit("sequence item {}: expected str instance, {} found", parts.size(), item.type_name());
    }
    parts.push_back(item.text());
  }
  return like(c, join(c[0].text(), parts, c.budget));
}

Value replace(Call& c) {
  return like(c, replace_all(c[0].text(), c.string(1), c.string(2), c.integer(3, -1), c.budget));
}

Value format(Call& c) {
  return format_braces(c[0], c.rest(), c.named_rest(), c.interpreter);
}

// --- width

Value justify_to(Call& c, Side side) {
  char32_t fill = ' ';
  if (c.has(2)) {
    const Text& text = c.string(2);
    if (code_points(text.view()) != 1) misfit("The fill character must be exactly one character long");
    fill = decode(text.view(), 0).code;
  }
  return like(c, justify(c[0].text(), c.integer(1, 0), fill, side, c.budget));
}
Value ljust(Call& c) {
  return justify_to(c, Side::left);
}
Value rjust(Call& c) {
  return justify_to(c, Side::right);
}
Value center(Call& c) {
  return justify_to(c, Side::both);
}

Value zfill(Call& c) {
  const Text& text = c[0].text();
  const bool sign = text.view().starts_with('-') || text.view().starts_with('+');
  const Text digits = text.sub(sign ? 1 : 0, text.size() - (sign ? 1 : 0));
  const Text padded = justify(digits, c.integer(1, 0) - (sign ? 1 : 0), '0', Side::right, c.budget);
  return like(c, Text::concat(text.sub(0, sign ? 1 : 0), padded, c.budget));
}

Value expandtabs(Call& c) {
  const Integer size = std::min<Integer>(c.integer(1, 8), 1 << 16);
  TextBuilder out(c.budget);
  Integer column = 0;
  const Text& text = c[0].text();
  for (std::size_t at = 0; at < text.size();) {
    const Decoded next = decode(text.view(), at);
    if (next.code == '\t') {
      const Integer blanks = size > 0 ? size - column % size : 0;
      out.add(std::string(static_cast<std::size_t>(blanks), ' '), text.sub(at, 1).untrusted());
      column += blanks;
    } else {
      out.add(text.sub(at, next.size));
      column = next.code == '\n' || next.code == '\r' ? 0 : column + 1;
    }
    at += next.size;
  }
  return like(c, std::move(out).finish());
}

// --- lists and dicts

Value list_index(Call& c) {
  const auto& items = c[0].array()->items;
  const auto size = static_cast<Integer>(items.size());
  const auto clamp = [&](Integer i) { return std::clamp<Integer>(i < 0 ? i + size : i, 0, size); };
  const Integer stop = clamp(c.integer(3, size));
  for (Integer i = clamp(c.integer(2, 0)); i < stop; ++i) {
    if (equal(items[static_cast<std::size_t>(i)], c[1], c.budget)) return Value::integer(i);
  }
  misfit("{} is not in list", repr_of(c[1], c.budget));
}

Value list_count(Call& c) {
  const auto& items = c[0].array()->items;
  return Value::integer(std::count_if(items.begin(), items.end(),
                                      [&](const Value& item) { return equal(item, c[1], c.budget); }));
}

Value copy(Call& c) {
  return c[0];
}  // immutable

Value dict_get(Call& c) {
  const Value* value = c[0].dict().find(c[1], c.budget);
  return value != nullptr ? *value : c.has(2) ? c[2] : Value::none();
}

template <typename Pick>
Value view_of(Call& c, const char* name, Pick&& pick) {
  const Dict& dict = c[0].dict();
  std::vector<Value> items;
  items.reserve(dict.size());
  for (const auto& entry : dict.entries()) items.push_back(pick(entry));
  return make_array(Type::view, name, std::move(items), c.budget, dict.untrusted);
}
Value dict_keys(Call& c) {
  return view_of(c, "dict_keys", [](const Dict::Entry& entry) { return entry.first; });
}
Value dict_values(Call& c) {
  return view_of(c, "dict_values", [](const Dict::Entry& entry) { return entry.second; });
}
Value dict_items(Call& c) {
  return view_of(c, "dict_items", [&](const Dict::Entry& entry) {
    return make_tuple({entry.first, entry.second}, c.budget, c[0].dict().untrusted);
  });
}

constexpr Function kStringMethods[] = {
    {"capitalize", "self", capitalize},
    {"casefold", "self", casefold},
    {"center", "self width fillchar?", center},
    {"count", "self sub start? end?", count},
    {"endswith", "self suffix start? end?", ends_with},
    {"expandtabs", "self tabsize?", expandtabs},
    {"find", "self sub start? end?", find},
    {"format", "self * **", format},
    {"index", "self sub start? end?", index},
    {"join", "self iterable", join_items},
    {"ljust", "self width fillchar?", ljust},
    {"lower", "self", lower},
    {"lstrip", "self chars?", lstrip},
    {"partition", "self sep", partition},
    {"removeprefix", "self prefix", remove_prefix},
    {"removesuffix", "self suffix", remove_suffix},
    {"replace", "self old new count?", replace},
    {"rfind", "self sub start? end?", rfind},
    {"rindex", "self sub start? end?", rindex},
    {"rjust", "self width fillchar?", rjust},
    {"rpartition", "self sep", rpartition},
    {"rsplit", "self sep? maxsplit?", rsplit},
    {"rstrip", "self chars?", rstrip},
    {"split", "self sep? maxsplit?", split},
    {"splitlines", "self keepends?", splitlines},
    {"startswith", "self prefix start? end?", starts_with},
    {"strip", "self chars?", strip_both},
    {"swapcase", "self", swapcase},
    {"title", "self", title},
    {"upper", "self", upper},
    {"zfill", "self width", zfill},
};

constexpr Function kListMethods[] = {
    {"copy", "self", copy},
    {"count", "self value", list_count},
    {"index", "self value start? stop?", list_index},
};

constexpr Function kDictMethods[] = {
    {"copy", "self", copy},      {"get", "self key default?", dict_get}, {"items", "self", dict_items},
    {"keys", "self", dict_keys}, {"values", "self", dict_values},
};

}  // namespace

std::span<const Function> string_methods() {
  return kStringMethods;
}
std::span<const Function> list_methods() {
  return kListMethods;
}
std::span<const Function> dict_methods() {
  return kDictMethods;
}

}  // namespace lithe::chat
