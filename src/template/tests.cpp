// Tests: {{ value is name(arguments) }}; and the predicates of strings, which ask the same of every code
// point.
#include <algorithm>

#include "template/builtins.h"
#include "template/format.h"
#include "template/interpreter.h"
#include "template/operators.h"
#include "template/unicode.h"

namespace lithe::chat {
namespace {

Value yes(bool condition) {
  return Value::boolean(condition);
}

template <Type type>
Value has_type(Call& c) {
  return yes(c[0].is(type));
}

template <Comparison op>
Value compared(Call& c) {
  return yes(compare_with(op, c[0], c[1], c.budget));
}

Value defined(Call& c) {
  return yes(!c[0].is_undefined());
}
Value is_true(Call& c) {
  return yes(c[0].is(Type::boolean) && c[0].as_bool());
}
Value is_false(Call& c) {
  return yes(c[0].is(Type::boolean) && !c[0].as_bool());
}
Value number(Call& c) {
  return yes(c[0].is_number());
}
Value escaped(Call& c) {
  return yes(c[0].markup());
}
Value is_iterable(Call& c) {
  return yes(iterable(c[0]) ||
             (c[0].is(Type::object) && c[0].type_name() == std::string_view("LoopContext")));
}
Value sequence(Call& c) {
  return yes(has_length(c[0]) && !c[0].is(Type::view));
}
Value callable(Call& c) {
  return yes(c[0].is(Type::function) || c[0].is(Type::method) || c[0].is_undefined() ||
             (c[0].is(Type::object) && c[0].object()->callable()));
}

Value same_as(Call& c) {
  const Value &a = c[0], &b = c[1];
  if (a.identity() != nullptr || b.identity() != nullptr) return yes(a.identity() == b.identity());
  if (a.type() != b.type()) return yes(false);
  if (a.is(Type::real)) return yes(false);
  return yes(equal(a, b, c.budget));
}

Value remainder(Call& c, const Value& divisor) {
  return operate(ExprKind::modulo, c[0], divisor, c.budget);
}
Value odd(Call& c) {
  return yes(equal(remainder(c, Value::integer(2)), Value::integer(1), c.budget));
}
Value even(Call& c) {
  return yes(equal(remainder(c, Value::integer(2)), Value::integer(0), c.budget));
}
Value divisible(Call& c) {
  return yes(equal(remainder(c, c[1]), Value::integer(0), c.budget));
}

Value known_filter(Call& c) {
  return yes(find_filter(c.string(0).view()) != nullptr);
}
Value known_test(Call& c) {
  return yes(find_test(c.string(0).view()) != nullptr);
}

// --- the predicates of str

/// Not empty, and every code point passes.
template <typename Passes>
bool all(std::string_view text, Budget& budget, Passes&& passes) {
  budget.scan(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Decoded next = decode(text, at);
    if (!passes(next.code)) return false;
    at += next.size;
  }
  return !text.empty();
}

/// Some letters with case, and all of them in this one.
bool in_case(std::string_view text, Budget& budget, bool (*other)(char32_t)) {
  bool any = false;
  const bool none_other = all(text, budget, [&](char32_t code) {
    any |= is_cased(code);
    return !other(code) && !is_title(code);
  });
  return any && none_other;
}

Value lower_test(Call& c) {
  return yes(in_case(c.text(0).view(), c.budget, is_upper));
}
Value upper_test(Call& c) {
  return yes(in_case(c.text(0).view(), c.budget, is_lower));
}

template <bool (*passes)(char32_t)>
Value every(Call& c) {
  return yes(all(c[0].view(), c.budget, passes));
}
bool is_alnum(char32_t code) {
  return code != '_' && is_word(code);
}
Value is_ascii(Call& c) {
  return yes(c[0].text().empty() || all(c[0].view(), c.budget, [](char32_t code) { return code < 0x80; }));
}
Value is_printable_text(Call& c) {
  return yes(c[0].text().empty() || all(c[0].view(), c.budget, is_printable));
}
Value is_identifier(Call& c) {
  const std::string_view text = c[0].view();
  return yes(all(text, c.budget, is_word) && !is_decimal(decode(text, 0).code));
}
Value is_title_text(Call& c) {
  bool cased = false, any = false;
  const bool good = all(c[0].view(), c.budget, [&](char32_t code) {
    const bool fits = (is_upper(code) || is_title(code)) ? !cased : !is_lower(code) || cased;
    cased = is_cased(code);
    any |= cased;
    return fits;
  });
  return yes(good && any);
}

constexpr Function kTests[] = {
    {"!=", "a b", compared<Comparison::ne>},
    {"<", "a b", compared<Comparison::lt>},
    {"<=", "a b", compared<Comparison::le>},
    {"==", "a b", compared<Comparison::eq>},
    {">", "a b", compared<Comparison::gt>},
    {">=", "a b", compared<Comparison::ge>},
    {"boolean", "value", has_type<Type::boolean>},
    {"callable", "value", callable},
    {"defined", "value", defined},
    {"divisibleby", "value num", divisible},
    {"eq", "a b", compared<Comparison::eq>},
    {"equalto", "a b", compared<Comparison::eq>},
    {"escaped", "value", escaped},
    {"even", "value", even},
    {"false", "value", is_false},
    {"filter", "value", known_filter},
    {"float", "value", has_type<Type::real>},
    {"ge", "a b", compared<Comparison::ge>},
    {"greaterthan", "a b", compared<Comparison::gt>},
    {"gt", "a b", compared<Comparison::gt>},
    {"in", "value seq", compared<Comparison::in>},
    {"integer", "value", has_type<Type::integer>},
    {"iterable", "value", is_iterable},
    {"le", "a b", compared<Comparison::le>},
    {"lessthan", "a b", compared<Comparison::lt>},
    {"lower", "value", lower_test},
    {"lt", "a b", compared<Comparison::lt>},
    {"mapping", "value", has_type<Type::dict>},
    {"ne", "a b", compared<Comparison::ne>},
    {"none", "value", has_type<Type::none>},
    {"number", "value", number},
    {"odd", "value", odd},
    {"sameas", "value other", same_as},
    {"sequence", "value", sequence},
    {"string", "value", has_type<Type::string>},
    {"test", "value", known_test},
    {"true", "value", is_true},
    {"undefined", "value", has_type<Type::undefined>},
    {"upper", "value", upper_test},
};

constexpr Function kStringPredicates[] = {
    {"isalnum", "self", every<is_alnum>},
    {"isalpha", "self", every<is_alpha>},
    {"isascii", "self", is_ascii},
    {"isdecimal", "self", every<is_decimal>},
    {"isdigit", "self", every<is_digit>},
    {"isidentifier", "self", is_identifier},
    {"islower", "self", lower_test},
    {"isnumeric", "self", every<is_digit>},
    {"isprintable", "self", is_printable_text},
    {"isspace", "self", every<is_space>},
    {"istitle", "self", is_title_text},
    {"isupper", "self", upper_test},
};

}  // namespace

std::span<const Function> tests() {
  return kTests;
}
std::span<const Function> string_predicates() {
  return kStringPredicates;
}

}  // namespace lithe::chat
