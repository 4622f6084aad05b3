// Filters over text and scalars: {{ value | name(arguments) }}.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "template/builtins.h"
#include "template/format.h"
#include "template/interpreter.h"
#include "template/operators.h"
#include "template/strformat.h"
#include "template/strings.h"
#include "template/unicode.h"

namespace lithe::chat {
namespace {

Value upper(Call& c) {
  return Value::string(to_upper(c.text(0), c.budget));
}
Value lower(Call& c) {
  return Value::string(to_lower(c.text(0), c.budget));
}
Value capitalize(Call& c) {
  return Value::string(to_capitalized(c.text(0), c.budget));
}
Value title(Call& c) {
  return Value::string(title_words(c.text(0), c.budget));
}

Value trim(Call& c) {
  const bool by_space = !c.has(1) || c[1].is_none();
  return Value::string(by_space ? strip(c.text(0), true, true, c.budget)
                                : strip_characters(c.text(0), c.string(1).view(), true, true, c.budget),
                       c[0].markup());
}

Value replace(Call& c) {
  const Integer count = c.has(3) && !c[3].is_none() ? c.integer(3, -1) : -1;
  return Value::string(replace_all(c.text(0), c.text(1), c.text(2), count, c.budget));
}

Value string(Call& c) {
  return Value::string(c.text(0), c[0].markup());
}
Value safe(Call& c) {
  return Value::string(c.text(0), true);
}
Value escape(Call& c) {
  return Value::string(c[0].markup() ? c.text(0) : escape_html(c.text(0), c.budget), true);
}
Value force_escape(Call& c) {
  return Value::string(escape_html(c.text(0), c.budget), true);
}

Value default_value(Call& c) {
  const bool replaced = c[0].is_undefined() || (c.flag(2, false) && !truthy(c[0]));
  if (!replaced) return c[0];
  return c.has(1) ? c[1] : Value::string(Text());
}

Value word_count(Call& c) {
  const Text text = c.text(0);
  c.budget.scan(text.size());
  Integer count = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const Decoded next = decode(text.view(), at);
    const bool word = is_word(next.code);
    count += word && !in_word ? 1 : 0;
    in_word = word;
    at += next.size;
  }
  return Value::integer(count, text.untrusted());
}

Value indent(Call& c) {
  Text width;
  if (c.has(1) && c[1].is_string()) {
    width = c[1].text();
  } else {
    const Integer spaces = std::max<Integer>(c.integer(1, 4), 0);
    if (spaces > (1 << 20)) c.budget.check_text(SIZE_MAX);
    width = Text(std::string(static_cast<std::size_t>(spaces), ' '));
  }
  const bool first = c.flag(2, false), blank = c.flag(3, false);
  std::vector<Text> lines = split_lines(Text::concat(c.string(0), Text("\n"), c.budget), false, c.budget);
  TextBuilder out(c.budget);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.add('\n');
    if (i == 0 ? first : blank || !lines[i].empty()) out.add(width);
    out.add(lines[i]);
  }
  return Value::string(std::move(out).finish(), c[0].markup());
}

Value truncate(Call& c) {
  const Integer length = c.integer(1, 255), leeway = c.has(4) && !c[4].is_none() ? c.integer(4, 5) : 5;
  const Value end = c.has(3) ? c[3] : Value::string("...");
  if (!end.is_string()) misfit("truncate() argument 'end' must be str");
  const auto end_size = static_cast<Integer>(code_points(end.view()));
  if (length < end_size)
    misfit("expected length >= {}, got {}", format_integer(end_size), format_integer(length));
  if (leeway < 0) misfit("expected leeway >= 0, got {}", format_integer(leeway));
  if (static_cast<Integer>(length_of(c[0], c.budget)) <= length + leeway) return c[0];
  const Text& text = c.string(0);
  std::size_t keep = offset_of(text.view(), static_cast<std::size_t>(length - end_size));
  if (!c.flag(2, false)) keep = std::min(keep, text.view().substr(0, keep).rfind(' '));
  return Value::string(Text::concat(text.sub(0, keep), end.text(), c.budget), c[0].markup());
}

Value center(Call& c) {
  return Value::string(justify(c.text(0), c.integer(1, 80), ' ', Side::both, c.budget));
}

Value format(Call& c) {
  if (!c.rest().empty() && !c.named_rest().empty()) {
    misfit("can't handle positional and keyword arguments at the same time");
  }
  if (c.named_rest().empty()) {
    return format_percent(Value::string(c.text(0)), make_tuple(std::move(c.rest()), c.budget), c.budget);
  }
  auto dict = std::make_shared<Dict>();
  for (auto& [name, value] : c.named_rest()) dict->set(Value::string(name), std::move(value), c.budget);
  return format_percent(Value::string(c.text(0)), make_dict(std::move(dict), c.budget), c.budget);
}

Value url_encode_value(const Value& value, bool in_query, Budget& budget) {
  const Text text = to_text(value, budget);
  TextBuilder out(budget);
  text.for_each_run([&](std::size_t begin, std::size_t end, bool untrusted) {
    std::string piece;
    for (const char c : text.view().substr(begin, end - begin)) {
      const bool plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                         std::string_view("_.-~").find(c) != std::string_view::npos ||
                         (c == '/' && !in_query);
      if (plain) {
        piece += c;
      } else if (c == ' ' && in_query) {
        piece += '+';
      } else {
        piece += fmt::format("%{:02X}", static_cast<unsigned char>(c));
      }
    }
    out.add(piece, untrusted);
  });
  return Value::string(std::move(out).finish());
}

Value url_encode(Call& c) {
  if (c[0].is_string() || !iterable(c[0])) return url_encode_value(c[0], false, c.budget);
  std::vector<std::pair<Value, Value>> pairs;
  if (c[0].is(Type::dict)) {
    pairs = c[0].dict().entries();
  } else {
    for (const Value& item : items_of(c[0], c.budget)) {
      const auto pair = items_of(item, c.budget);
      if (pair->items.size() != 2)
        misfit("not enough values to unpack (expected 2, got {})", pair->items.size());
      pairs.emplace_back(pair->items[0], pair->items[1]);
    }
  }
  TextBuilder out(c.budget);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    if (i > 0) out.add('&');
    out.add(url_encode_value(pairs[i].first, true, c.budget).text());
    out.add('=');
    out.add(url_encode_value(pairs[i].second, true, c.budget).text());
  }
  return Value::string(std::move(out).finish());
}

Value to_json_filter(Call& c) {
  JsonStyle style;
  style.ensure_ascii = c.flag(1, false);
  style.sort_keys = c.flag(4, false);
  if (c.has(2) && !c[2].is_none()) {
    style.multi_line = true;
    style.item_separator = ",";
    if (c[2].is_string()) {
      style.indent = c[2].view();
    } else {
      const Integer width = std::max<Integer>(c.integer(2, 0), 0);
      if (width > (1 << 20)) c.budget.check_text(SIZE_MAX);
      style.indent.assign(static_cast<std::size_t>(width), ' ');
    }
  }
  if (c.has(3) && !c[3].is_none()) {
    const auto pair = items_of(c[3], c.budget);
    const bool strings = pair->items.size() == 2 && pair->items[0].is_string() && pair->items[1].is_string();
    if (!strings) misfit("tojson: separators must be two strings");
    style.item_separator = pair->items[0].view();
    style.key_separator = pair->items[1].view();
  }
  return Value::string(to_json(c[0], style, c.budget));
}

// --- numbers

/// int(text, base), or nothing if Python would refuse.
std::optional<Integer> parse_integer(std::string_view text, Integer base) {
  text.remove_prefix(leading_space(text));
  text.remove_suffix(trailing_space(text));
  bool negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    negative = text[0] == '-';
    text.remove_prefix(1);
  }
  const char letter = text.size() > 2 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const Integer named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  if (named != 0 && (base == named || base == 0)) {
    base = named;
    text.remove_prefix(text[2] == '_' ? 3 : 2);
  }
  if (base == 0) base = 10;
  if (text.empty() || base < 2 || base > 36) return std::nullopt;
  Integer value = 0;
  bool after_digit = false;
  for (const char c : text) {
    if (c == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    const int digit = c >= '0' && c <= '9'                          ? c - '0'
                      : std::isalpha(static_cast<unsigned char>(c)) ? (c | 0x20) - 'a' + 10
                                                                    : 99;
    if (digit >= base) return std::nullopt;
    value = check_integer(multiply_integers(value, base) + digit);
    after_digit = true;
  }
  if (!after_digit) return std::nullopt;
  return negative ? -value : value;
}

/// float(text), or nothing.
std::optional<double> parse_real(std::string_view text) {
  text.remove_prefix(leading_space(text));
  text.remove_suffix(trailing_space(text));
  std::string plain(text);
  std::erase(plain, '_');
  bool negative = false;
  std::string_view rest = plain;
  if (!rest.empty() && (rest[0] == '+' || rest[0] == '-')) {
    negative = rest[0] == '-';
    rest.remove_prefix(1);
  }
  double value = 0;
  const auto result = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (rest.empty() || rest[0] == '-' || result.ptr != rest.data() + rest.size()) return std::nullopt;
  if (result.ec == std::errc::invalid_argument) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range)
    value = rest.find("e-") == std::string_view::npos ? HUGE_VAL : 0;
  return negative ? -value : value;
}

std::optional<Integer> truncate_real(double value) {
  if (!std::isfinite(value)) return std::nullopt;
  if (std::abs(value) > static_cast<double>(kMaxInteger))
    fail(Code::resource_exhausted, "an integer is too large");
  return static_cast<Integer>(value);
}

Value to_integer(Call& c) {
  const Value& value = c[0];
  Value fallback = c.has(1) ? c[1] : Value::integer(0);
  if (value.is_undefined()) misfit("{}", value.undefined_message());
  if (value.is_integral()) return Value::integer(value.as_integer(), value.untrusted());
  std::optional<Integer> out;
  if (value.is(Type::real)) {
    out = truncate_real(value.as_real());
    if (!out) return fallback;
  } else if (value.is_string()) {
    out = parse_integer(value.view(), c.integer(2, 10));
    if (!out) {
      if (const auto real = parse_real(value.view())) out = truncate_real(*real);
    }
  }
  return out ? Value::integer(*out, is_untrusted(value, c.budget)) : fallback;
}

Value to_real(Call& c) {
  const Value& value = c[0];
  if (value.is_undefined()) misfit("{}", value.undefined_message());
  if (value.is_number()) return Value::real(value.as_real(), value.untrusted());
  if (value.is_string()) {
    if (const auto real = parse_real(value.view())) return Value::real(*real, value.text().untrusted());
  }
  return c.has(1) ? c[1] : Value::real(0.0);
}

Value absolute(Call& c) {
  if (c[0].is_undefined()) misfit("{}", c[0].undefined_message());
  if (!c[0].is_number()) misfit("bad operand type for abs(): '{}'", c[0].type_name());
  if (c[0].is(Type::real)) return Value::real(std::abs(c[0].as_real()), c[0].untrusted());
  const Integer value = c[0].as_integer();
  return Value::integer(value < 0 ? -value : value, c[0].untrusted());
}

/// round(): the decimal that is nearest to the exact value, ties to even.
double round_decimal(double value, Integer precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < 0) {
    const double unit = std::pow(10.0, static_cast<double>(std::min<Integer>(-precision, 400)));
    return std::isinf(unit) ? 0.0 * value : std::nearbyint(value / unit) * unit;
  }
  const std::string digits = fmt::format("{:.{}f}", value, static_cast<int>(precision));
  return std::strtod(digits.c_str(), nullptr);
}

Value round(Call& c) {
  const Value& value = c[0];
  if (value.is_undefined()) misfit("{}", value.undefined_message());
  if (!value.is_number()) misfit("type {} doesn't define __round__ method", value.type_name());
  const Integer precision = c.integer(1, 0);
  const std::string_view method = c.has(2) ? c.string(2).view() : "common";
  if (method == "common") {
    if (value.is_integral() && precision >= 0) return Value::integer(value.as_integer(), value.untrusted());
    const double rounded = round_decimal(value.as_real(), precision);
    return value.is_integral() ? Value::integer(truncate_real(rounded).value_or(0), value.untrusted())
                               : Value::real(rounded, value.untrusted());
  }
  if (method != "ceil" && method != "floor") misfit("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(std::clamp<Integer>(precision, -400, 400)));
  const double scaled = value.as_real() * unit;
  return Value::real((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit, value.untrusted());
}

/// float(value)
double require_real(const Value& value) {
  if (value.is_undefined()) misfit("{}", value.undefined_message());
  if (value.is_number()) return value.as_real();
  if (!value.is_string()) {
    misfit("float() argument must be a string or a real number, not '{}'", value.type_name());
  }
  const auto real = parse_real(value.view());
  if (!real) misfit("could not convert string to float: {}", in_quotes(value.view()));
  return *real;
}

Value file_size(Call& c) {
  const double bytes = require_real(c[0]);
  const bool binary = c.flag(1, false);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return Value::string("1 Byte", is_untrusted(c[0], c.budget));
  if (bytes < base)
    return Value::string(fmt::format("{:.0f} Bytes", std::trunc(bytes)), is_untrusted(c[0], c.budget));
  static constexpr std::string_view kLetters = "KMGTPEZY";
  double unit = base;
  std::size_t i = 0;
  while (i + 1 < kLetters.size() && bytes >= unit * base) {
    unit *= base;
    ++i;
  }
  const char letter = i == 0 && !binary ? 'k' : kLetters[i];
  return Value::string(fmt::format("{:.1f} {}{}", bytes / unit, letter, binary ? "iB" : "B"),
                       is_untrusted(c[0], c.budget));
}

constexpr Function kTextFilters[] = {
    {"abs", "value", absolute},
    {"capitalize", "s", capitalize},
    {"center", "value width?", center},
    {"d", "value default_value? boolean?", default_value},
    {"default", "value default_value? boolean?", default_value},
    {"e", "value", escape},
    {"escape", "value", escape},
    {"filesizeformat", "value binary?", file_size},
    {"float", "value default?", to_real},
    {"forceescape", "value", force_escape},
    {"format", "value * **", format},
    {"indent", "s width? first? blank?", indent},
    {"int", "value default? base?", to_integer},
    {"lower", "s", lower},
    {"replace", "s old new count?", replace},
    {"round", "value precision? method?", round},
    {"safe", "value", safe},
    {"string", "value", string},
    {"title", "s", title},
    {"tojson", "x ensure_ascii? indent? separators? sort_keys?", to_json_filter},
    {"trim", "value chars?", trim},
    {"truncate", "s length? killwords? end? leeway?", truncate},
    {"upper", "s", upper},
    {"urlencode", "value", url_encode},
    {"wordcount", "s", word_count},
};

}  // namespace

std::span<const Function> text_filters() {
  return kTextFilters;
}

}  // namespace lithe::chat
