// Source to a Program: the grammar of Jinja2.
#pragma once

#include <string_view>

#include "template/ast.h"

namespace lithe::chat {

/// Fault: corrupt with line and column, or unsupported with the construct's name. `depth` bounds nesting.
Program parse_template(std::string_view source, int depth);

}  // namespace lithe::chat
