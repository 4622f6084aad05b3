#include "template/operators.h"

#include <algorithm>
#include <cmath>

#include "template/format.h"
#include "template/strformat.h"
#include "template/unicode.h"

namespace lithe::chat {
namespace {

const char* symbol_of(ExprKind kind) {
  switch (kind) {
    case ExprKind::add:
      return "+";
    case ExprKind::subtract:
      return "-";
    case ExprKind::multiply:
      return "*";
    case ExprKind::divide:
      return "/";
    case ExprKind::floor_divide:
      return "//";
    case ExprKind::modulo:
      return "%";
    default:
      return "** or pow()";
  }
}

[[noreturn]] void unsupported_operands(ExprKind kind, const Value& a, const Value& b) {
  misfit("unsupported operand type(s) for {}: '{}' and '{}'", symbol_of(kind), a.type_name(), b.type_name());
}

Integer floor_divide(Integer a, Integer b) {
  const Integer quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

double floor_modulo(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest != 0 ? (b < 0) != (rest < 0) : false) rest += b;
  return rest == 0 ? std::copysign(0.0, b) : rest;
}

double floor_divide(double a, double b) {
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

Value power(const Value& a, const Value& b, bool untrusted, Budget& budget) {
  if (a.is_integral() && b.is_integral() && b.as_integer() >= 0) {
    Integer result = 1, base = a.as_integer();
    for (Integer left = b.as_integer(); left > 0; left >>= 1) {
      budget.step();
      if (left & 1) result = multiply_integers(result, base);
      if (left > 1 && base != 0 && base != 1 && base != -1) base = multiply_integers(base, base);
      if (base == -1) base = left > 1 ? 1 : base;
    }
    return Value::integer(result, untrusted);
  }
  const double x = a.as_real(), y = b.as_real();
  if (x == 0 && y < 0) misfit("0.0 cannot be raised to a negative power");
  const double result = std::pow(x, y);
  if (std::isnan(result) && !std::isnan(x) && !std::isnan(y))
    fail(Code::unsupported, "complex numbers are not supported");
  if (std::isinf(result) && std::isfinite(x) && std::isfinite(y))
    misfit("(34, 'Numerical result out of range')");
  return Value::real(result, untrusted);
}

Value operate_integers(ExprKind kind, Integer a, Integer b, bool untrusted) {
  switch (kind) {
    case ExprKind::add:
      return Value::integer(check_integer(a + b), untrusted);
    case ExprKind::subtract:
      return Value::integer(check_integer(a - b), untrusted);
    case ExprKind::multiply:
      return Value::integer(multiply_integers(a, b), untrusted);
    case ExprKind::divide:
      if (b == 0) misfit("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b), untrusted);
    case ExprKind::floor_divide:
      if (b == 0) misfit("integer division or modulo by zero");
      return Value::integer(floor_divide(a, b), untrusted);
    default:
      if (b == 0) misfit("integer modulo by zero");
      return Value::integer(a - multiply_integers(floor_divide(a, b), b), untrusted);
  }
}

Value operate_reals(ExprKind kind, double a, double b, bool untrusted) {
  switch (kind) {
    case ExprKind::add:
      return Value::real(a + b, untrusted);
    case ExprKind::subtract:
      return Value::real(a - b, untrusted);
    case ExprKind::multiply:
      return Value::real(a * b, untrusted);
    case ExprKind::divide:
      if (b == 0) misfit("float division by zero");
      return Value::real(a / b, untrusted);
    case ExprKind::floor_divide:
      if (b == 0) misfit("float floor division by zero");
      return Value::real(floor_divide(a, b), untrusted);
    default:
      if (b == 0) misfit("float modulo");
      return Value::real(floor_modulo(a, b), untrusted);
  }
}

Value concatenate(const Value& a, const Value& b, Budget& budget) {
  if (a.is_string()) {
    if (!b.is_string()) misfit("can only concatenate str (not \"{}\") to str", b.type_name());
    return join_strings(a, b, budget);
  }
  if (a.is(Type::list) || a.is(Type::tuple)) {
    if (a.type() != b.type())
      misfit("can only concatenate {0} (not \"{1}\") to {0}", a.type_name(), b.type_name());
    budget.allocate((a.array()->items.size() + b.array()->items.size()) * sizeof(Value));
    std::vector<Value> items = a.array()->items;
    items.insert(items.end(), b.array()->items.begin(), b.array()->items.end());
    return make_array(a.type(), a.is(Type::list) ? "list" : "tuple", std::move(items), budget,
                      a.array()->untrusted || b.array()->untrusted);
  }
  unsupported_operands(ExprKind::add, a, b);
}

bool is_sequence(const Value& value) {
  return value.is_string() || value.is(Type::list) || value.is(Type::tuple);
}

Value multiply_sequence(const Value& a, const Value& b, Budget& budget) {
  const bool left = is_sequence(a);
  const Value& sequence = left ? a : b;
  const Value& count = left ? b : a;
  if (!is_sequence(sequence)) unsupported_operands(ExprKind::multiply, a, b);
  if (!count.is_integral()) misfit("can't multiply sequence by non-int of type '{}'", count.type_name());
  return repeat(sequence, count.as_integer(), budget);
}

}  // namespace

Integer multiply_integers(Integer a, Integer b) {
  const auto magnitude = [](Integer value) {
    return value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  };
  const auto x = magnitude(a), y = magnitude(b), limit = magnitude(kMaxInteger);
  if (y != 0 && x > limit / y) fail(Code::resource_exhausted, "an integer is too large");
  const auto product = static_cast<Integer>(x * y);
  return (a < 0) != (b < 0) ? -product : product;
}

Value join_strings(const Value& a, const Value& b, Budget& budget) {
  if (!a.markup() && !b.markup()) return Value::string(Text::concat(a.text(), b.text(), budget));
  const auto safe = [&](const Value& value) {
    return value.markup() ? value.text() : escape_html(value.text(), budget);
  };
  return Value::string(Text::concat(safe(a), safe(b), budget), true);
}

Value repeat(const Value& value, Integer count, Budget& budget) {
  const Integer times = std::max<Integer>(count, 0);
  if (value.is_string()) {
    if (times == 0 || value.text().empty()) return Value::string(Text(), value.markup());
    if (times > (Integer{1} << 32)) budget.check_text(SIZE_MAX);
    budget.check_text(static_cast<std::size_t>(times) * value.text().size());
    TextBuilder out(budget);
    for (Integer i = 0; i < times; ++i) out.add(value.text());
    return Value::string(std::move(out).finish(), value.markup());
  }
  const auto& items = value.array()->items;
  std::vector<Value> out;
  for (Integer i = 0; i < times && !items.empty(); ++i) {
    budget.allocate(items.size() * sizeof(Value));
    out.insert(out.end(), items.begin(), items.end());
  }
  return make_array(value.type(), value.is(Type::list) ? "list" : "tuple", std::move(out), budget,
                    value.array()->untrusted);
}

Value operate(ExprKind kind, const Value& a, const Value& b, Budget& budget) {
  if (a.is_undefined()) misfit("{}", a.undefined_message());
  if (kind == ExprKind::modulo && a.is_string()) return format_percent(a, b, budget);
  if (b.is_undefined()) misfit("{}", b.undefined_message());
  if (a.is_number() && b.is_number()) {
    const bool untrusted = a.untrusted() || b.untrusted();
    if (kind == ExprKind::power) return power(a, b, untrusted, budget);
    if (a.is_integral() && b.is_integral())
      return operate_integers(kind, a.as_integer(), b.as_integer(), untrusted);
    return operate_reals(kind, a.as_real(), b.as_real(), untrusted);
  }
  if (kind == ExprKind::add) return concatenate(a, b, budget);
  if (kind == ExprKind::multiply) return multiply_sequence(a, b, budget);
  unsupported_operands(kind, a, b);
}

Value negate(const Value& value) {
  if (value.is_undefined()) misfit("{}", value.undefined_message());
  if (value.is(Type::real)) return Value::real(-value.as_real(), value.untrusted());
  if (!value.is_integral()) misfit("bad operand type for unary -: '{}'", value.type_name());
  return Value::integer(-value.as_integer(), value.untrusted());
}

Value positive(const Value& value) {
  if (value.is_undefined()) misfit("{}", value.undefined_message());
  if (!value.is_number()) misfit("bad operand type for unary +: '{}'", value.type_name());
  return value.is_integral() ? Value::integer(value.as_integer(), value.untrusted()) : value;
}

bool compare_with(Comparison op, const Value& a, const Value& b, Budget& budget) {
  switch (op) {
    case Comparison::eq:
      return equal(a, b, budget);
    case Comparison::ne:
      return !equal(a, b, budget);
    case Comparison::in:
      return contains(b, a, budget);
    case Comparison::not_in:
      return !contains(b, a, budget);
    case Comparison::lt:
      return compare(a, b, "<", budget) == Order::less;
    case Comparison::gt:
      return compare(a, b, ">", budget) == Order::greater;
    case Comparison::le: {
      const Order order = compare(a, b, "<=", budget);
      return order == Order::less || order == Order::same;
    }
    case Comparison::ge: {
      const Order order = compare(a, b, ">=", budget);
      return order == Order::greater || order == Order::same;
    }
  }
  return false;
}

// --- subscripts

bool index_sequence(const Value& container, Integer index, Budget& budget, Value& out) {
  const auto size = static_cast<Integer>(length_of(container, budget));
  if (index < 0) index += size;
  if (index < 0 || index >= size) return false;
  const auto i = static_cast<std::size_t>(index);
  if (container.is_string()) {
    const std::size_t at = offset_of(container.view(), i);
    out = Value::string(container.text().sub(at, decode(container.view(), at).size), container.markup());
  } else if (container.is(Type::range)) {
    out = Value::integer(container.range().at(i));
  } else {
    out = container.array()->items[i];
  }
  return true;
}

namespace {

struct SliceBounds {
  Integer start, step;
  std::size_t count;
};

bool missing(const Value* part) {
  return part == nullptr || part->is_none();
}

Integer slice_index(const Value& part) {
  if (!part.is_integral()) misfit("slice indices must be integers or None or have an __index__ method");
  return part.as_integer();
}

/// Python's clamping of a slice to a sequence of `size` items.
SliceBounds bounds_of(const Value* start, const Value* stop, const Value* step, Integer size) {
  const Integer stride = missing(step) ? 1 : slice_index(*step);
  if (stride == 0) misfit("slice step cannot be zero");
  const Integer low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  const auto clamp = [&](const Value* part, Integer fallback) {
    if (missing(part)) return fallback;
    Integer index = slice_index(*part);
    if (index < 0) index += size;
    return std::clamp(index, low, high);
  };
  const Integer first = clamp(start, stride > 0 ? low : high);
  const Integer last = clamp(stop, stride > 0 ? high : low);
  const Integer span = stride > 0 ? last - first : first - last;
  const Integer width = stride > 0 ? stride : -stride;
  return {first, stride, span <= 0 ? 0 : static_cast<std::size_t>((span + width - 1) / width)};
}

Value slice_string(const Value& value, const SliceBounds& bounds, Budget& budget) {
  const Text& text = value.text();
  if (bounds.count == 0) return Value::string(Text(), value.markup());
  if (bounds.step == 1) {
    const std::size_t begin = offset_of(text.view(), static_cast<std::size_t>(bounds.start));
    const std::size_t size = offset_of(text.view().substr(begin), bounds.count);
    return Value::string(text.sub(begin, size), value.markup());
  }
  const auto letters = items_of(value, budget);
  TextBuilder out(budget);
  for (std::size_t i = 0; i < bounds.count; ++i) {
    out.add(letters->items[static_cast<std::size_t>(bounds.start + static_cast<Integer>(i) * bounds.step)]
                .text());
  }
  return Value::string(std::move(out).finish(), value.markup());
}

}  // namespace

Value slice(const Value& container, const Value* start, const Value* stop, const Value* step,
            Budget& budget) {
  if (container.is_undefined()) misfit("{}", container.undefined_message());
  if (container.is(Type::dict)) misfit("unhashable type: 'slice'");
  const bool sliceable = is_sequence(container) || container.is(Type::range);
  if (!sliceable) misfit("'{}' object is not subscriptable", container.type_name());
  const SliceBounds bounds = bounds_of(start, stop, step, static_cast<Integer>(length_of(container, budget)));
  if (container.is_string()) return slice_string(container, bounds, budget);
  if (container.is(Type::range)) {
    const Range& range = container.range();
    auto out = std::make_shared<Range>();
    out->start = range.start + bounds.start * range.step;
    out->step = multiply_integers(range.step, bounds.step);
    out->stop = out->start + static_cast<Integer>(bounds.count) * out->step;
    return Value::range(std::move(out));
  }
  std::vector<Value> items;
  budget.allocate(bounds.count * sizeof(Value));
  items.reserve(bounds.count);
  for (std::size_t i = 0; i < bounds.count; ++i) {
    items.push_back(
        container.array()
            ->items[static_cast<std::size_t>(bounds.start + static_cast<Integer>(i) * bounds.step)]);
  }
  return make_array(container.type(), container.is(Type::list) ? "list" : "tuple", std::move(items), budget,
                    container.array()->untrusted);
}

}  // namespace lithe::chat
