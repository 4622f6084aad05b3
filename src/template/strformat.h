// Python's two ways to format: "%d of %s" % (1, 'x') and "{} of {name}".format(1, name='x').
#pragma once

#include <vector>

#include "template/builtins.h"
#include "template/value.h"

namespace lithe::chat {

Value format_percent(const Value& pattern, const Value& arguments, Budget& budget);
Value format_braces(const Value& pattern, const std::vector<Value>& positional,
                    const std::vector<std::pair<Text, Value>>& named, Interpreter& interpreter);

}  // namespace lithe::chat
