// The functions that a template finds without defining them.
#include <algorithm>
#include <ctime>

#include "template/builtins.h"
#include "template/format.h"
#include "template/interpreter.h"
#include "template/objects.h"

namespace lithe::chat {
namespace {

constexpr Integer kMaxRange = 100'000;  // of the reference's sandbox

Value range(Call& c) {
  auto out = std::make_shared<Range>();
  if (c.has(1)) {
    out->start = c.integer(0, 0);
    out->stop = c.integer(1, 0);
  } else {
    out->stop = c.integer(0, 0);
  }
  out->step = c.integer(2, 1);
  if (out->step == 0) misfit("range() arg 3 must not be zero");
  const Integer span = out->step > 0 ? out->stop - out->start : out->start - out->stop;
  const Integer width = out->step > 0 ? out->step : -out->step;
  if (span > 0 && (span - 1) / width >= kMaxRange) {
    misfit("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).",
           static_cast<long>(kMaxRange));
  }
  return Value::range(std::move(out));
}

/// dict(mapping or pairs, name=value, ...)
std::shared_ptr<Dict> build_dict(Call& c) {
  auto out = std::make_shared<Dict>();
  if (c.has(0)) {
    if (c[0].is(Type::dict)) {
      for (const auto& [key, value] : c[0].dict().entries()) out->set(key, value, c.budget);
      out->untrusted = c[0].dict().untrusted;
    } else {
      std::size_t i = 0;
      for (const Value& item : items_of(c[0], c.budget)) {
        if (!iterable(item)) misfit("cannot convert dictionary update sequence element #{} to a sequence", i);
        const auto pair = items_of(item, c.budget);
        if (pair->items.size() != 2) {
          misfit("dictionary update sequence element #{} has length {}; 2 is required", i,
                 pair->items.size());
        }
        out->set(pair->items[0], pair->items[1], c.budget);
        ++i;
      }
    }
  }
  for (auto& [name, value] : c.named_rest()) out->set(Value::string(name), std::move(value), c.budget);
  return out;
}

Value dict(Call& c) {
  return make_dict(build_dict(c), c.budget);
}

Value make_namespace(Call& c) {
  const auto values = build_dict(c);
  auto* space = c.interpreter.make<Namespace>(c.budget);
  for (const auto& [key, value] : values->entries()) {
    if (!key.is_string()) misfit("attribute names of a namespace must be strings");
    space->set(key.text(), value);
  }
  return Value::object(space);
}

Value raise_exception(Call& c) {
  throw Fault{Code::invalid_argument, std::string(c.text(0).view()), true};
}

/// datetime.now().strftime(format)
Value strftime_now(Call& c) {
  std::string format;
  const std::string_view given = c.string(0).view();
  for (std::size_t i = 0; i < given.size();
       ++i) {  // what strftime(3) does otherwise than Python's naive datetime
    const char next = i + 1 < given.size() ? given[i + 1] : '\0';
    if (given[i] != '%' || (next != 'f' && next != 'z' && next != 'Z' && next != '%')) {
      format += given[i];
      continue;
    }
    format += next == '%' ? "%%" : next == 'f' ? "000000" : "";
    ++i;
  }
  if (format.empty()) return Value::string(Text());
  const std::time_t now = c.interpreter.now();
  std::tm local{};
  localtime_r(&now, &local);
  std::string out(64 + 32 * std::min<std::size_t>(format.size(), 4096), '\0');
  c.budget.allocate(out.size());
  out.resize(std::strftime(out.data(), out.size(), format.c_str(), &local));
  return Value::string(std::move(out), c[0].text().untrusted());
}

Value cycler(Call& c) {
  if (c.rest().empty()) misfit("at least one item has to be provided");
  return Value::object(c.interpreter.make<Cycler>(std::move(c.rest())));
}

Value joiner(Call& c) {
  return Value::object(c.interpreter.make<Joiner>(c.has(0) ? c[0] : Value::string(", ")));
}

constexpr Function kGlobals[] = {
    {"cycler", "*", cycler},
    {"dict", "items? **", dict},
    {"joiner", "sep?", joiner},
    {"namespace", "items? **", make_namespace},
    {"raise_exception", "message", raise_exception},
    {"range", "start stop? step?", range},
    {"strftime_now", "format", strftime_now},
};

}  // namespace

std::span<const Function> globals() {
  return kGlobals;
}

}  // namespace lithe::chat
