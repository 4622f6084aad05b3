#include "template/format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "template/builtins.h"
#include "template/unicode.h"

namespace lithe::chat {

std::string format_real(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 40> buffer;
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific).ptr;
  std::string_view shortest(buffer.data(), static_cast<std::size_t>(end - buffer.data()));  // -d.ddde+xx
  std::string out;
  if (shortest.front() == '-') {
    out = "-";
    shortest.remove_prefix(1);
  }
  const std::size_t e = shortest.find('e');
  const int exponent = std::atoi(std::string(shortest.substr(e + 1)).c_str());
  std::string digits(1, shortest[0]);
  if (e > 2) digits += shortest.substr(2, e - 2);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += "." + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  const auto point = static_cast<std::size_t>(exponent + 1);
  return out + digits.substr(0, point) + "." + digits.substr(point);
}

std::string digits_of(Integer value, unsigned base, bool capitals) {
  const char* const names = capitals ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string digits;
  auto rest = value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  do {
    digits += names[static_cast<unsigned>(rest % base)];
    rest /= base;
  } while (rest > 0);
  std::reverse(digits.begin(), digits.end());
  return digits;
}

std::string format_integer(Integer value) {
  return (value < 0 ? "-" : "") + digits_of(value, 10);
}

// --- repr and str

namespace {

/// The two-letter escapes that Python and JSON share, and whatever `quote` is; false for all else.
bool append_short_escape(std::string& out, char32_t code, char quote) {
  constexpr std::string_view kCodes = "\\\n\r\t", kLetters = "\\nrt";
  if (code >= 0x80) return false;
  const auto letter = static_cast<char>(code);
  const std::size_t at = kCodes.find(letter);
  if (at == std::string_view::npos && letter != quote) return false;
  out += '\\';
  out += at == std::string_view::npos ? quote : kLetters[at];
  return true;
}

void append_escaped(std::string& out, char32_t code, char quote) {
  if (append_short_escape(out, code, quote)) return;
  if (is_printable(code)) {
    encode(code, out);
  } else if (code < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned>(code));
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<unsigned>(code));
  }
}

char quote_for(std::string_view text) {
  return text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
}

/// Rewrites the code points of each run, keeping the run's mark.
template <typename Append>
void append_mapped(TextBuilder& out, const Text& text, Append&& append) {
  text.for_each_run([&](std::size_t begin, std::size_t end, bool untrusted) {
    std::string piece;
    for (std::size_t at = begin; at < end;) {
      const Decoded next = decode(text.view(), at);
      append(piece, next.code);
      at += next.size;
    }
    out.add(piece, untrusted);
  });
}

void append_items(TextBuilder& out, const Array& array, const char* open, const char* close) {
  out.add(open, array.untrusted);
  for (std::size_t i = 0; i < array.items.size(); ++i) {
    if (i > 0) out.add(", ", array.untrusted);
    append_repr(out, array.items[i]);
  }
  out.add(close, array.untrusted);
}

void append_dict_repr(TextBuilder& out, const Dict& dict) {
  out.add('{', dict.untrusted);
  bool first = true;
  for (const auto& [key, value] : dict.entries()) {
    if (!first) out.add(", ", dict.untrusted);
    first = false;
    append_repr(out, key);
    out.add(": ", dict.untrusted);
    append_repr(out, value);
  }
  out.add('}', dict.untrusted);
}

void append_range(TextBuilder& out, const Range& range) {
  out.add("range(" + format_integer(range.start) + ", " + format_integer(range.stop));
  if (range.step != 1) out.add(", " + format_integer(range.step));
  out.add(')');
}

}  // namespace

std::string in_quotes(std::string_view text) {
  const char quote = quote_for(text);
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const Decoded next = decode(text, at);
    append_escaped(out, next.code, quote);
    at += next.size;
  }
  return out + quote;
}

void append_repr(TextBuilder& out, const Value& value) {
  const Budget::Level level(out.budget());
  switch (value.type()) {
    case Type::undefined:
      out.add("Undefined");
      return;
    case Type::string: {
      const char quote = quote_for(value.view());
      if (value.markup()) out.add("Markup(");
      const bool untrusted =
          value.text().untrusted();  // the quotes may turn what is between them into something else
      out.add(quote, untrusted);
      append_mapped(out, value.text(),
                    [&](std::string& piece, char32_t code) { append_escaped(piece, code, quote); });
      out.add(quote, untrusted);
      if (value.markup()) out.add(')');
      return;
    }
    case Type::list:
      append_items(out, *value.array(), "[", "]");
      return;
    case Type::tuple:
      append_items(out, *value.array(), "(", value.array()->items.size() == 1 ? ",)" : ")");
      return;
    case Type::view:
      out.add(value.type_name(), value.array()->untrusted);
      append_items(out, *value.array(), "([", "])");
      return;
    case Type::dict:
      append_dict_repr(out, value.dict());
      return;
    case Type::object:
      value.object()->append_repr(out);
      return;
    default:
      append_str(out, value);
  }
}

void append_str(TextBuilder& out, const Value& value) {
  switch (value.type()) {
    case Type::undefined:
      return;
    case Type::none:
      out.add("None", value.untrusted());
      return;
    case Type::boolean:
      out.add(value.as_bool() ? "True" : "False", value.untrusted());
      return;
    case Type::integer:
      out.add(format_integer(value.as_integer()), value.untrusted());
      return;
    case Type::real:
      out.add(format_real(value.as_real()), value.untrusted());
      return;
    case Type::string:
      out.add(value.text());
      return;
    case Type::range:
      append_range(out, value.range());
      return;
    case Type::iterator:
      out.add(fmt::format("<{} object>", value.type_name()));
      return;
    case Type::function:
      out.add(fmt::format("<function {}>", value.function()->name));
      return;
    case Type::method:
      out.add(fmt::format("<method {}>", value.method().function->name));
      return;
    default:
      append_repr(out, value);
  }
}

Text to_text(const Value& value, Budget& budget) {
  if (value.is_string()) return value.text();
  TextBuilder out(budget);
  append_str(out, value);
  return std::move(out).finish();
}

std::string repr_of(const Value& value, Budget& budget) {
  TextBuilder out(budget);
  append_repr(out, value);
  return std::move(out).take_bytes();
}

// --- JSON

namespace {

class JsonWriter {
 public:
  JsonWriter(const JsonStyle& style, TextBuilder& out) : style_(style), out_(out) {}

  void write(const Value& value, int depth) {
    const Budget::Level level(out_.budget());
    switch (value.type()) {
      case Type::none:
        out_.add("null", value.untrusted());
        return;
      case Type::boolean:
        out_.add(value.as_bool() ? "true" : "false", value.untrusted());
        return;
      case Type::integer:
      case Type::real:
        out_.add(number(value), value.untrusted());
        return;
      case Type::string:
        write_string(value.text());
        return;
      case Type::list:
      case Type::tuple:
        write_array(*value.array(), depth);
        return;
      case Type::dict:
        write_dict(value.dict(), depth);
        return;
      default:
        misfit("Object of type {} is not JSON serializable", value.type_name());
    }
  }

 private:
  static std::string number(const Value& value) {
    if (value.is(Type::integer)) return format_integer(value.as_integer());
    const double real = value.as_real();
    return std::isnan(real)   ? "NaN"
           : std::isinf(real) ? (real < 0 ? "-Infinity" : "Infinity")
                              : format_real(real);
  }

  void append_code(std::string& out, char32_t code) const {
    if (append_short_escape(out, code, '"')) return;
    if (code == '\b' || code == '\f') {
      out += code == '\b' ? "\\b" : "\\f";
    } else if (code < 0x20 || (style_.ensure_ascii && code > 0x7E && code < 0x10000)) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
    } else if (style_.ensure_ascii && code >= 0x10000) {
      const auto rest = static_cast<unsigned>(code) - 0x10000;
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      encode(code, out);
    }
  }

  void write_string(const Text& text) {
    const bool untrusted = text.untrusted();
    out_.add('"', untrusted);
    append_mapped(out_, text, [&](std::string& piece, char32_t code) { append_code(piece, code); });
    out_.add('"', untrusted);
  }

  void write_key(const Value& key) {
    switch (key.type()) {
      case Type::string:
        write_string(key.text());
        return;
      case Type::none:
        out_.add("\"null\"", key.untrusted());
        return;
      case Type::boolean:
        out_.add(key.as_bool() ? "\"true\"" : "\"false\"", key.untrusted());
        return;
      case Type::integer:
      case Type::real:
        out_.add("\"" + number(key) + "\"", key.untrusted());
        return;
      default:
        misfit("keys must be str, int, float, bool or None, not {}", key.type_name());
    }
  }

  void new_line(int depth, bool untrusted) {
    if (!style_.multi_line) return;
    out_.add('\n', untrusted);
    for (int i = 0; i < depth; ++i) out_.add(style_.indent, untrusted);
  }

  void write_array(const Array& array, int depth) {
    out_.add('[', array.untrusted);
    for (std::size_t i = 0; i < array.items.size(); ++i) {
      if (i > 0) out_.add(style_.item_separator, array.untrusted);
      new_line(depth + 1, array.untrusted);
      write(array.items[i], depth + 1);
    }
    if (!array.items.empty()) new_line(depth, array.untrusted);
    out_.add(']', array.untrusted);
  }

  void write_dict(const Dict& dict, int depth) {
    std::vector<const Dict::Entry*> entries;
    for (const auto& entry : dict.entries()) entries.push_back(&entry);
    Budget& budget = out_.budget();
    budget.step(entries.size());
    if (style_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(), [&](const Dict::Entry* a, const Dict::Entry* b) {
        return compare(a->first, b->first, "<", budget) == Order::less;
      });
    }
    out_.add('{', dict.untrusted);
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) out_.add(style_.item_separator, dict.untrusted);
      new_line(depth + 1, dict.untrusted);
      write_key(entries[i]->first);
      out_.add(style_.key_separator, dict.untrusted);
      write(entries[i]->second, depth + 1);
    }
    if (!entries.empty()) new_line(depth, dict.untrusted);
    out_.add('}', dict.untrusted);
  }

  const JsonStyle& style_;
  TextBuilder& out_;
};

}  // namespace

Text to_json(const Value& value, const JsonStyle& style, Budget& budget) {
  TextBuilder out(budget);
  JsonWriter(style, out).write(value, 0);
  return std::move(out).finish();
}

Text escape_html(const Text& text, Budget& budget) {
  TextBuilder out(budget);
  append_mapped(out, text, [](std::string& piece, char32_t code) {
    switch (code) {
      case '&':
        piece += "&amp;";
        return;
      case '<':
        piece += "&lt;";
        return;
      case '>':
        piece += "&gt;";
        return;
      case '\'':
        piece += "&#39;";
        return;
      case '"':
        piece += "&#34;";
        return;
      default:
        encode(code, piece);
    }
  });
  return std::move(out).finish();
}

}  // namespace lithe::chat
