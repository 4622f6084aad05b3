#include "template/strformat.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "template/format.h"
#include "template/interpreter.h"
#include "template/strings.h"
#include "template/unicode.h"

namespace lithe::chat {
namespace {

/// What both ways can say about one value.
struct Spec {
  char32_t fill = ' ';
  char align = '\0';  // < > ^ =
  char sign = '-';
  bool alternate = false;
  char grouping = '\0';
  Integer width = 0;
  std::optional<int> precision;
  char type = '\0';
};

constexpr Integer kMaxWidth = 1 << 20;
constexpr int kMaxPrecision = 1000;

int check_precision(Integer value) {
  if (value > kMaxPrecision) fail(Code::resource_exhausted, "a format asks for too many digits");
  return static_cast<int>(std::max<Integer>(value, 0));
}

Integer check_width(Integer value) {
  if (value > kMaxWidth) fail(Code::resource_exhausted, "a format asks for too wide a field");
  return value;
}

/// Digits at text[at...], moving `at` on.
std::optional<Integer> read_number(std::string_view text, std::size_t& at) {
  if (at >= text.size() || !std::isdigit(static_cast<unsigned char>(text[at]))) return std::nullopt;
  Integer value = 0;
  for (; at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])); ++at) {
    value = std::min<Integer>(value * 10 + (text[at] - '0'), Integer{1} << 40);
  }
  return value;
}

std::string with_groups(const std::string& digits, char separator, std::size_t size) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % size == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string print_real(double value, int precision, char type, bool alternate) {
  const std::string pattern = std::string(alternate ? "%#" : "%") + ".*" + type;
  std::string out(static_cast<std::size_t>(std::snprintf(nullptr, 0, pattern.c_str(), precision, value)),
                  '\0');
  std::snprintf(out.data(), out.size() + 1, pattern.c_str(), precision, value);
  return out;
}

/// The magnitude of a float, without a sign.
std::string real_digits(double magnitude, const Spec& spec) {
  const bool capitals = spec.type == 'E' || spec.type == 'F' || spec.type == 'G';
  if (std::isnan(magnitude)) return capitals ? "NAN" : "nan";
  if (std::isinf(magnitude)) return capitals ? "INF" : "inf";
  if (spec.type == '\0' && !spec.precision) return format_real(magnitude);
  if (spec.type == '%')
    return print_real(magnitude * 100, spec.precision.value_or(6), 'f', spec.alternate) + "%";
  if (spec.type == '\0') {  // like g, but it never looks like an integer
    std::string out = print_real(magnitude, std::max(*spec.precision, 1), 'g', false);
    const bool plain = out.find_first_of(".en") == std::string::npos;
    return plain ? out + ".0" : out;
  }
  const char type = spec.type == 'n' ? 'g' : spec.type;
  const int precision = spec.precision.value_or(6);
  return print_real(magnitude, type == 'g' || type == 'G' ? std::max(precision, 1) : precision, type,
                    spec.alternate);
}

/// Sign, prefix and digits put into the field.
Text place_number(bool negative, const std::string& prefix, std::string digits, const Spec& spec,
                  bool untrusted, Budget& budget) {
  if (spec.grouping != '\0') {
    const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
    const bool by_four = spec.type == 'b' || spec.type == 'o' || spec.type == 'x' || spec.type == 'X';
    digits = with_groups(digits.substr(0, whole), spec.grouping, by_four ? 4 : 3) + digits.substr(whole);
  }
  std::string head = negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "";
  head += prefix;
  if (spec.align == '=') {
    std::string fill;
    const auto used = static_cast<Integer>(head.size() + digits.size());
    for (Integer i = used; i < spec.width; ++i) encode(spec.fill, fill);
    return Text(head + fill + digits, untrusted);
  }
  const Side side = spec.align == '<' ? Side::left : spec.align == '^' ? Side::both : Side::right;
  return justify(Text(head + digits, untrusted), spec.width, spec.fill, side, budget);
}

Text place_integer(Integer value, const Spec& spec, bool untrusted, Budget& budget) {
  const unsigned base = spec.type == 'b'                       ? 2
                        : spec.type == 'o'                     ? 8
                        : spec.type == 'x' || spec.type == 'X' ? 16
                                                               : 10;
  const std::string prefix = !spec.alternate || base == 10 ? "" : std::string("0") + spec.type;
  std::string digits = digits_of(value, base, spec.type == 'X');
  if (spec.precision) {  // of %-formats: at least so many digits
    const auto least = static_cast<std::size_t>(*spec.precision);
    if (digits.size() < least) digits.insert(0, least - digits.size(), '0');
  }
  return place_number(value < 0, prefix, std::move(digits), spec, untrusted, budget);
}

Text place_real(double value, const Spec& spec, bool untrusted, Budget& budget) {
  return place_number(std::signbit(value) && !std::isnan(value), "", real_digits(std::abs(value), spec), spec,
                      untrusted, budget);
}

Text place_string(const Text& text, const Spec& spec, Budget& budget) {
  Text shown = text;
  if (spec.precision) {
    shown = text.sub(0, offset_of(text.view(), static_cast<std::size_t>(*spec.precision)));
  }
  const Side side = spec.align == '>' ? Side::right : spec.align == '^' ? Side::both : Side::left;
  return justify(shown, spec.width, spec.fill, side, budget);
}

Text code_point_text(Integer code, bool untrusted) {
  if (code < 0 || code > 0x10FFFF) misfit("%c arg not in range(0x110000)");
  if (code >= 0xD800 && code <= 0xDFFF) misfit("%c arg is a surrogate");
  std::string out;
  encode(static_cast<char32_t>(code), out);
  return Text(std::move(out), untrusted);
}

// --- %

/// What Python takes for a mapping here, and so does not insist on using.
bool has_items(const Value& value) {
  return value.is(Type::dict) || value.is(Type::list) || value.is(Type::range) || value.is_undefined();
}

class PercentFormatter {
 public:
  PercentFormatter(const Text& pattern, const Value& arguments, Budget& budget)
      : pattern_(pattern), view_(pattern.view()), arguments_(arguments), out_(budget) {}

  Text run() {
    std::size_t at = 0;
    while (at < view_.size()) {
      const std::size_t percent = std::min(view_.find('%', at), view_.size());
      out_.add(pattern_.sub(at, percent - at));
      if (percent == view_.size()) break;
      at = conversion(percent + 1);
    }
    const bool left_over = arguments_.is(Type::tuple) ? used_ < arguments_.array()->items.size()
                                                      : !used_single_ && !has_items(arguments_);
    if (left_over) misfit("not all arguments converted during string formatting");
    return std::move(out_).finish();
  }

 private:
  Value next_argument() {
    if (arguments_.is(Type::tuple)) {
      if (used_ >= arguments_.array()->items.size()) misfit("not enough arguments for format string");
      return arguments_.array()->items[used_++];
    }
    if (used_single_) misfit("not enough arguments for format string");
    used_single_ = true;
    return arguments_;
  }

  Integer star() {
    const Value value = next_argument();
    if (!value.is_integral()) misfit("* wants int");
    return value.as_integer();
  }

  std::optional<Value> keyed(std::size_t& at) {
    if (at >= view_.size() || view_[at] != '(') return std::nullopt;
    if (!arguments_.is(Type::dict)) misfit("format requires a mapping");
    int depth = 1;
    const std::size_t begin = ++at;
    for (; at < view_.size() && depth > 0; ++at) depth += view_[at] == '(' ? 1 : view_[at] == ')' ? -1 : 0;
    if (depth > 0) misfit("incomplete format key");
    const std::string_view key = view_.substr(begin, at - 1 - begin);
    const Value* value = arguments_.dict().find(key, out_.budget());
    if (value == nullptr) misfit("{}", in_quotes(key));
    return *value;
  }

  std::size_t conversion(std::size_t at) {
    Spec spec;
    const std::optional<Value> by_key = keyed(at);
    for (; at < view_.size() && std::string_view("#0- +").find(view_[at]) != std::string_view::npos; ++at) {
      switch (view_[at]) {
        case '#':
          spec.alternate = true;
          break;
        case '0':
          if (spec.align == '\0') {
            spec.align = '=';
            spec.fill = '0';
          }
          break;
        case '-':
          spec.align = '<';
          spec.fill = ' ';
          break;
        case '+':
          spec.sign = '+';
          break;
        default:
          spec.sign = spec.sign == '+' ? '+' : ' ';
      }
    }
    read_sizes(at, spec);
    while (at < view_.size() && (view_[at] == 'h' || view_[at] == 'l' || view_[at] == 'L')) ++at;
    if (at >= view_.size()) misfit("incomplete format");
    spec.type = view_[at];
    if (spec.type == '%') {
      out_.add('%');
    } else {
      convert(by_key ? *by_key : next_argument(), spec, at);
    }
    return at + 1;
  }

  void read_sizes(std::size_t& at, Spec& spec) {
    if (at < view_.size() && view_[at] == '*') {
      ++at;
      spec.width = star();
      if (spec.width < 0) {
        spec.align = '<';
        spec.width = -spec.width;
      }
    } else if (const auto width = read_number(view_, at)) {
      spec.width = *width;
    }
    check_width(spec.width);
    if (at >= view_.size() || view_[at] != '.') return;
    ++at;
    if (at < view_.size() && view_[at] == '*') {
      ++at;
      spec.precision = check_precision(star());
    } else {
      spec.precision = check_precision(read_number(view_, at).value_or(0));
    }
  }

  void convert(const Value& value, Spec spec, std::size_t at) {
    Budget& budget = out_.budget();
    const auto as_text = [&](const Text& text) {
      if (spec.align != '<') spec.align = '>';
      spec.fill = ' ';
      out_.add(place_string(text, spec, budget));
    };
    switch (spec.type) {
      case 's':
        return as_text(to_text(value, budget));
      case 'r':
      case 'a': {
        TextBuilder repr(budget);
        append_repr(repr, value);
        return as_text(std::move(repr).finish());
      }
      case 'c':
        spec.precision.reset();
        if (value.is_integral()) return as_text(code_point_text(value.as_integer(), value.untrusted()));
        if (!value.is_string() || code_points(value.view()) != 1) misfit("%c requires int or char");
        return as_text(value.text());
      case 'd':
      case 'i':
      case 'u': {
        if (!value.is_number())
          misfit("%{} format: a real number is required, not {}", spec.type, value.type_name());
        const double real = value.is(Type::real) ? value.as_real() : 0;
        if (!std::isfinite(real) || std::abs(real) > 1e36) misfit("cannot convert float to integer");
        spec.type = 'd';
        const Integer integer = value.is(Type::real) ? static_cast<Integer>(real) : value.as_integer();
        out_.add(place_integer(integer, spec, value.untrusted(), budget));
        return;
      }
      case 'o':
      case 'x':
      case 'X':
        if (!value.is_integral())
          misfit("%{} format: an integer is required, not {}", spec.type, value.type_name());
        out_.add(place_integer(value.as_integer(), spec, value.untrusted(), budget));
        return;
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.is_number()) misfit("must be real number, not {}", value.type_name());
        out_.add(place_real(value.as_real(), spec, value.untrusted(), budget));
        return;
      default:
        misfit("unsupported format character '{}' ({:#x}) at index {}", spec.type,
               static_cast<unsigned>(static_cast<unsigned char>(spec.type)), at);
    }
  }

  const Text& pattern_;
  std::string_view view_;
  const Value& arguments_;
  TextBuilder out_;
  std::size_t used_ = 0;
  bool used_single_ = false;
};

// --- {}

Spec read_spec(std::string_view text) {
  Spec spec;
  std::size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  if (!text.empty()) {
    const Decoded fill = decode(text, 0);
    if (fill.size < text.size() && is_align(text[fill.size])) {
      spec.fill = fill.code;
      spec.align = text[fill.size];
      at = fill.size + 1;
    } else if (is_align(text[0])) {
      spec.align = text[0];
      at = 1;
    }
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' ')) spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.alternate = ++at > 0;
  if (at < text.size() && text[at] == '0') {
    ++at;
    if (spec.align == '\0') {
      spec.align = '=';
      spec.fill = '0';
    }
  }
  spec.width = check_width(read_number(text, at).value_or(0));
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.grouping = text[at++];
  if (at < text.size() && text[at] == '.') {
    ++at;
    const auto digits = read_number(text, at);
    if (!digits) misfit("Format specifier missing precision");
    spec.precision = check_precision(*digits);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) misfit("Invalid format specifier");
  return spec;
}

Text apply_spec(const Value& value, std::string_view text, Budget& budget) {
  if (text.empty()) return to_text(value, budget);
  Spec spec = read_spec(text);
  if (value.is_string()) {
    if (spec.type != '\0' && spec.type != 's')
      misfit("Unknown format code '{}' for object of type 'str'", spec.type);
    if (spec.align == '=' && spec.fill == '0') spec.align = '<';
    if (spec.align == '=') misfit("'=' alignment not allowed in string format specifier");
    return place_string(value.text(), spec, budget);
  }
  if (!value.is_number()) misfit("unsupported format string passed to {}.__format__", value.type_name());
  const bool wants_real =
      std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type != '\0';
  if (value.is(Type::real) || wants_real) {
    if (!wants_real && spec.type != '\0' && spec.type != 'n') {
      misfit("Unknown format code '{}' for object of type 'float'", spec.type);
    }
    return place_real(value.as_real(), spec, value.untrusted(), budget);
  }
  if (spec.precision) misfit("Precision not allowed in integer format specifier");
  if (spec.type == 'c') return code_point_text(value.as_integer(), value.untrusted());
  if (std::string_view("dbnoxX").find(spec.type) == std::string_view::npos && spec.type != '\0') {
    misfit("Unknown format code '{}' for object of type 'int'", spec.type);
  }
  return place_integer(value.as_integer(), spec, value.untrusted(), budget);
}

class BraceFormatter {
 public:
  BraceFormatter(const std::vector<Value>& positional, const std::vector<std::pair<Text, Value>>& named,
                 Interpreter& interpreter)
      : positional_(positional), named_(named), interpreter_(interpreter) {}

  Text run(const Text& pattern, int depth) {
    if (depth > 2) misfit("Max string recursion exceeded");
    TextBuilder out(interpreter_.budget);
    const std::string_view view = pattern.view();
    std::size_t at = 0;
    while (at < view.size()) {
      const std::size_t brace = std::min(view.find_first_of("{}", at), view.size());
      out.add(pattern.sub(at, brace - at));
      if (brace == view.size()) break;
      if (brace + 1 < view.size() && view[brace + 1] == view[brace]) {
        out.add(pattern.sub(brace, 1));
        at = brace + 2;
        continue;
      }
      if (view[brace] == '}') misfit("Single '}}' encountered in format string");
      at = field(pattern, brace + 1, out, depth);
    }
    return std::move(out).finish();
  }

 private:
  std::size_t field(const Text& pattern, std::size_t begin, TextBuilder& out, int depth) {
    const std::string_view view = pattern.view();
    std::size_t end = begin;
    for (int level = 1; end < view.size(); ++end) {
      level += view[end] == '{' ? 1 : view[end] == '}' ? -1 : 0;
      if (level == 0) break;
    }
    if (end >= view.size()) misfit("expected '}}' before end of string");
    const std::string_view body = view.substr(begin, end - begin);
    std::size_t name_end = 0;
    for (bool bracket = false; name_end < body.size(); ++name_end) {  // a[x:y] is a name
      bracket = body[name_end] == '[' || (bracket && body[name_end] != ']');
      if (!bracket && (body[name_end] == '!' || body[name_end] == ':')) break;
    }
    Value value = look_up(body.substr(0, name_end));
    std::size_t at = name_end;
    if (at < body.size() && body[at] == '!') {
      const char conversion = at + 1 < body.size() ? body[at + 1] : '\0';
      at += 2;
      if (conversion != 'r' && conversion != 's' && conversion != 'a') misfit("Unknown conversion specifier");
      if (at < body.size() && body[at] != ':') misfit("expected ':' after conversion specifier");
      TextBuilder text(interpreter_.budget);
      conversion == 's' ? append_str(text, value) : append_repr(text, value);
      value = Value::string(std::move(text).finish());
    }
    const std::size_t spec = std::min(at + 1, body.size());
    const Text spec_text = run(pattern.sub(begin + spec, body.size() - spec), depth + 1);
    out.add(apply_spec(value, spec_text.view(), interpreter_.budget));
    return end + 1;
  }

  Value first_value(std::string_view name) {
    std::size_t at = 0;
    std::optional<Integer> index = read_number(name, at);
    if (name.empty() || (index && at == name.size())) {
      const auto i = name.empty() ? static_cast<Integer>(automatic_++) : *index;
      if (i >= static_cast<Integer>(positional_.size())) {
        misfit("Replacement index {} out of range for positional args tuple", format_integer(i));
      }
      return positional_[static_cast<std::size_t>(i)];
    }
    const auto entry = std::find_if(named_.begin(), named_.end(),
                                    [&](const auto& pair) { return pair.first.view() == name; });
    if (entry == named_.end()) misfit("{}", in_quotes(name));
    return entry->second;
  }

  Value look_up(std::string_view path) {
    std::size_t at = std::min(path.find_first_of(".["), path.size());
    if (at == 0 && !path.empty()) misfit("''");
    Value value = first_value(path.substr(0, at));
    while (at < path.size()) {
      if (path[at] == '.') {
        const std::size_t end = std::min(path.find_first_of(".[", at + 1), path.size());
        value = interpreter_.get_attribute(value, Text(std::string(path.substr(at + 1, end - at - 1))));
        at = end;
        continue;
      }
      const std::size_t close = path.find(']', at);
      if (path[at] != '[' || close == std::string_view::npos) misfit("Missing ']' in format string");
      const std::string_view key = path.substr(at + 1, close - at - 1);
      std::size_t digits = 0;
      const auto index = read_number(key, digits);
      value = interpreter_.get_item(
          value, index && digits == key.size() ? Value::integer(*index) : Value::string(std::string(key)));
      at = close + 1;
    }
    return value;
  }

  const std::vector<Value>& positional_;
  const std::vector<std::pair<Text, Value>>& named_;
  Interpreter& interpreter_;
  std::size_t automatic_ = 0;
};

}  // namespace

Value format_percent(const Value& pattern, const Value& arguments, Budget& budget) {
  return Value::string(PercentFormatter(pattern.text(), arguments, budget).run(), pattern.markup());
}

Value format_braces(const Value& pattern, const std::vector<Value>& positional,
                    const std::vector<std::pair<Text, Value>>& named, Interpreter& interpreter) {
  return Value::string(BraceFormatter(positional, named, interpreter).run(pattern.text(), 0),
                       pattern.markup());
}

}  // namespace lithe::chat
