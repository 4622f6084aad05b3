// Expressions. Their precedence, from loose to tight: if-else, or, and, not, comparisons, + -, ~, * / // %,
// **, unary, then calls, subscripts, filters and tests.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "template/builtins.h"
#include "template/parser_impl.h"

namespace lithe::chat {

std::unique_ptr<Expr> Parser::node(ExprKind kind, int line) const {
  auto out = std::make_unique<Expr>();
  out->kind = kind;
  out->line = line;
  return out;
}

ExprPtr Parser::finish(std::unique_ptr<Expr> expr) const {
  for (const ExprPtr& child : expr->children) {
    if (child != nullptr) expr->height = std::max(expr->height, child->height + 1);
  }
  if (expr->height > 2 * max_depth_) error("an expression is nested too deeply");
  return expr;
}

ExprPtr Parser::unary(ExprKind kind, int line, ExprPtr operand) const {
  auto out = node(kind, line);
  out->children.push_back(std::move(operand));
  return finish(std::move(out));
}

ExprPtr Parser::binary(ExprKind kind, int line, ExprPtr left, ExprPtr right) const {
  auto out = node(kind, line);
  out->children.push_back(std::move(left));
  out->children.push_back(std::move(right));
  return finish(std::move(out));
}

ExprPtr Parser::parse_expression() {
  return parse_conditional();
}

bool Parser::at_tuple_end(std::string_view end_name) const {
  return is(TokenKind::variable_end) || is(TokenKind::block_end) || is_op(")") ||
         (!end_name.empty() && is_name(end_name));
}

ExprPtr Parser::parse_tuple(bool with_conditional, std::string_view end_name, bool parenthesized) {
  auto out = node(ExprKind::tuple, current().line);
  bool is_tuple = false;
  while (true) {
    if (!out->children.empty()) expect_op(",");
    if (at_tuple_end(end_name)) break;
    out->children.push_back(with_conditional ? parse_expression() : parse_or());
    if (!is_op(",")) break;
    is_tuple = true;
  }
  if (!is_tuple) {
    if (!out->children.empty()) return std::move(out->children.front());
    if (!parenthesized) error("Expected an expression");
  }
  return finish(std::move(out));
}

ExprPtr Parser::parse_conditional() {
  const Level level(*this);
  const int line = current().line;
  ExprPtr value = parse_or();
  while (skip_name("if")) {
    ++conditional_;
    auto out = node(ExprKind::conditional, line);
    out->children.push_back(parse_or());
    out->children.push_back(std::move(value));
    if (skip_name("else")) out->children.push_back(parse_conditional());
    --conditional_;
    value = finish(std::move(out));
  }
  return value;
}

ExprPtr Parser::parse_or() {
  const int line = current().line;
  ExprPtr left = parse_and();
  while (skip_name("or")) {
    ExprPtr right = parse_and();
    left = binary(ExprKind::logical_or, line, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr Parser::parse_and() {
  const int line = current().line;
  ExprPtr left = parse_not();
  while (skip_name("and")) {
    ExprPtr right = parse_not();
    left = binary(ExprKind::logical_and, line, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr Parser::parse_not() {
  const Level level(*this);
  const int line = current().line;
  if (skip_name("not")) return unary(ExprKind::logical_not, line, parse_not());
  return parse_compare();
}

ExprPtr Parser::parse_compare() {
  static constexpr std::array<std::pair<std::string_view, Comparison>, 6> kOperators = {
      {{"==", Comparison::eq},
       {"!=", Comparison::ne},
       {"<", Comparison::lt},
       {"<=", Comparison::le},
       {">", Comparison::gt},
       {">=", Comparison::ge}}};
  auto out = node(ExprKind::compare, current().line);
  out->children.push_back(parse_sum());
  while (true) {
    const auto* op = is(TokenKind::op)
                         ? std::find_if(kOperators.begin(), kOperators.end(),
                                        [&](const auto& row) { return row.first == current().text; })
                         : kOperators.end();
    if (op != kOperators.end()) {
      take();
      out->comparisons.push_back(op->second);
    } else if (skip_name("in")) {
      out->comparisons.push_back(Comparison::in);
    } else if (is_name("not") && look().kind == TokenKind::name && look().text == "in") {
      take();
      take();
      out->comparisons.push_back(Comparison::not_in);
    } else {
      break;
    }
    out->children.push_back(parse_sum());
  }
  if (out->comparisons.empty()) return std::move(out->children.front());
  return finish(std::move(out));
}

ExprPtr Parser::parse_sum() {
  const int line = current().line;
  ExprPtr left = parse_concat();
  while (is_op("+") || is_op("-")) {
    const ExprKind kind = take().text == "+" ? ExprKind::add : ExprKind::subtract;
    ExprPtr right = parse_concat();
    left = binary(kind, line, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr Parser::parse_concat() {
  auto out = node(ExprKind::concat, current().line);
  out->children.push_back(parse_product());
  while (skip_op("~")) out->children.push_back(parse_product());
  if (out->children.size() == 1) return std::move(out->children.front());
  return finish(std::move(out));
}

ExprPtr Parser::parse_product() {
  const int line = current().line;
  ExprPtr left = parse_power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    const std::string_view op = take().text;
    const ExprKind kind = op == "*"    ? ExprKind::multiply
                          : op == "/"  ? ExprKind::divide
                          : op == "//" ? ExprKind::floor_divide
                                       : ExprKind::modulo;
    ExprPtr right = parse_power();
    left = binary(kind, line, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr Parser::parse_power() {
  const int line = current().line;
  ExprPtr left = parse_unary(true);
  while (skip_op("**")) {  // from the left, unlike Python
    ExprPtr right = parse_unary(true);
    left = binary(ExprKind::power, line, std::move(left), std::move(right));
  }
  return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
  const Level level(*this);
  const int line = current().line;
  ExprPtr out;
  if (skip_op("-")) {
    out = unary(ExprKind::negate, line, parse_unary(false));
  } else if (skip_op("+")) {
    out = unary(ExprKind::plus, line, parse_unary(false));
  } else {
    out = parse_primary();
  }
  out = parse_postfix(std::move(out));
  return with_filter ? parse_filters_and_tests(std::move(out)) : std::move(out);
}

// --- primaries

ExprPtr Parser::parse_primary() {
  switch (current().kind) {
    case TokenKind::name:
      return parse_name();
    case TokenKind::string:
      return parse_string();
    case TokenKind::integer:
    case TokenKind::real:
      return parse_number();
    default:
      break;
  }
  if (skip_op("(")) {
    ExprPtr out = parse_tuple(true, {}, true);
    expect_op(")");
    return out;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  error(is(TokenKind::end) ? std::string("unexpected end of template")
                           : fmt::format("unexpected '{}'", current().text));
}

ExprPtr Parser::parse_name() {
  const Token& token = take();
  const std::string_view name = token.text;
  auto out = node(ExprKind::constant, token.line);
  if (name == "true" || name == "True") {
    out->value = Value::boolean(true);
  } else if (name == "false" || name == "False") {
    out->value = Value::boolean(false);
  } else if (name == "none" || name == "None") {
    out->value = Value::none();
  } else {
    out->kind = ExprKind::name;
    out->symbol = intern(name);
    note_use(name);
  }
  return out;
}

ExprPtr Parser::parse_string() {
  auto out = node(ExprKind::constant, current().line);
  std::string bytes;
  while (is(TokenKind::string)) bytes += unescape(source_, take());
  out->value = Value::string(Text::frozen(std::move(bytes)));
  return out;
}

ExprPtr Parser::parse_number() {
  auto out = node(ExprKind::constant, current().line);
  const Token& token = take();
  std::string digits(token.text);
  std::erase(digits, '_');
  if (token.kind == TokenKind::real) {
    double value = 0;
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (result.ec == std::errc::result_out_of_range) {  // too large or too small: as strtod rounds it
      value =
          digits.find("e-") == std::string::npos && digits.find("E-") == std::string::npos ? HUGE_VAL : 0.0;
    }
    out->value = Value::real(value);
    return out;
  }
  const char prefix = digits.size() > 1 ? static_cast<char>(digits[1] | 0x20) : '\0';
  const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
  Integer value = 0;
  for (const char c : digits.substr(base == 10 ? 0 : 2)) {
    value = value * base + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
    if (value > kMaxInteger) syntax_error(source_, token.at, "an integer is too large");
  }
  out->value = Value::integer(value);
  return out;
}

ExprPtr Parser::parse_list() {
  auto out = node(ExprKind::list, current().line);
  take();
  while (!is_op("]")) {
    if (!out->children.empty()) expect_op(",");
    if (is_op("]")) break;
    out->children.push_back(parse_expression());
  }
  take();
  return finish(std::move(out));
}

ExprPtr Parser::parse_dict() {
  auto out = node(ExprKind::dict, current().line);
  take();
  while (!is_op("}")) {
    if (!out->children.empty()) expect_op(",");
    if (is_op("}")) break;
    out->children.push_back(parse_expression());
    expect_op(":");
    out->children.push_back(parse_expression());
  }
  take();
  return finish(std::move(out));
}

// --- what follows a primary

ExprPtr Parser::parse_postfix(ExprPtr expr) {
  while (true) {
    if (is_op(".")) {
      expr = parse_dot(std::move(expr));
    } else if (is_op("[")) {
      expr = parse_brackets(std::move(expr));
    } else if (is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_filters_and_tests(ExprPtr expr) {
  while (true) {
    if (skip_op("|")) {
      expr = parse_filter(std::move(expr));
    } else if (skip_name("is")) {
      expr = parse_test(std::move(expr));
    } else if (is_op("(")) {
      expr = parse_call(std::move(expr));
    } else {
      return expr;
    }
  }
}

ExprPtr Parser::parse_dot(ExprPtr expr) {
  const int line = take().line;
  if (is(TokenKind::integer)) return binary(ExprKind::item, line, std::move(expr), parse_number());
  if (!is(TokenKind::name)) error("expected name or number");
  auto out = node(ExprKind::attribute, line);
  out->text = Text::frozen(std::string(take().text));
  out->children.push_back(std::move(expr));
  return finish(std::move(out));
}

ExprPtr Parser::parse_brackets(ExprPtr expr) {
  const int line = take().line;
  std::vector<Subscript> subscripts;
  while (!is_op("]")) {
    if (!subscripts.empty()) expect_op(",");
    subscripts.push_back(parse_subscript());
  }
  take();
  if (subscripts.size() == 1 && subscripts.front().is_slice) {
    auto out = node(ExprKind::slice, line);
    out->children.push_back(std::move(expr));
    for (ExprPtr& part : subscripts.front().parts) out->children.push_back(std::move(part));
    return finish(std::move(out));
  }
  if (subscripts.size() == 1)
    return binary(ExprKind::item, line, std::move(expr), std::move(subscripts[0].parts[0]));
  auto tuple = node(ExprKind::tuple, line);
  for (Subscript& subscript : subscripts) {
    if (subscript.is_slice) unsupported("a slice in a tuple of subscripts");
    tuple->children.push_back(std::move(subscript.parts[0]));
  }
  return binary(ExprKind::item, line, std::move(expr), finish(std::move(tuple)));
}

Parser::Subscript Parser::parse_subscript() {
  Subscript out;
  if (!is_op(":")) {
    out.parts[0] = parse_expression();
    if (!is_op(":")) return out;
  }
  take();
  out.is_slice = true;
  const auto part = [&]() -> ExprPtr {
    if (is_op(":") || is_op("]") || is_op(",")) return nullptr;
    return parse_expression();
  };
  out.parts[1] = part();
  if (skip_op(":")) out.parts[2] = part();
  return out;
}

std::unique_ptr<const CallArguments> Parser::parse_arguments(int& height) {
  auto out = std::make_unique<CallArguments>();
  const auto argument = [&]() {
    ExprPtr expr = parse_expression();
    height = std::max(height, expr->height + 1);
    return expr;
  };
  const auto ensure = [&](bool condition) {
    if (!condition) error("invalid syntax for function call expression");
  };
  expect_op("(");
  for (bool first = true; !is_op(")"); first = false) {
    if (!first) expect_op(",");
    if (is_op(")")) break;
    if (skip_op("*")) {
      ensure(out->star == nullptr && out->double_star == nullptr);
      out->star = argument();
    } else if (skip_op("**")) {
      ensure(out->double_star == nullptr);
      out->double_star = argument();
    } else if (is(TokenKind::name) && look().kind == TokenKind::op && look().text == "=") {
      ensure(out->double_star == nullptr);
      Text name = Text::frozen(std::string(take().text));
      take();
      out->named.emplace_back(std::move(name), argument());
    } else {
      ensure(out->star == nullptr && out->double_star == nullptr && out->named.empty());
      out->positional.push_back(argument());
    }
  }
  take();
  return out;
}

ExprPtr Parser::parse_call(ExprPtr callee) {
  auto out = node(ExprKind::call, current().line);
  out->children.push_back(std::move(callee));
  out->arguments = parse_arguments(out->height);
  return finish(std::move(out));
}

ExprPtr Parser::parse_filter(ExprPtr expr) {
  auto out = node(ExprKind::filter, current().line);
  std::string name(take_name());
  while (skip_op(".")) name += "." + std::string(take_name());
  out->function = find_filter(name);
  if (out->function == nullptr && conditional_ == 0) unsupported(fmt::format("the filter '{}'", name));
  out->text = Text::frozen(std::move(name));
  out->children.push_back(std::move(expr));
  if (is_op("(")) out->arguments = parse_arguments(out->height);
  return finish(std::move(out));
}

bool Parser::starts_test_argument() const {
  switch (current().kind) {
    case TokenKind::string:
    case TokenKind::integer:
    case TokenKind::real:
      return true;
    case TokenKind::name:
      return !is_name("else") && !is_name("or") && !is_name("and");
    default:
      return is_op("[") || is_op("{");
  }
}

ExprPtr Parser::parse_test(ExprPtr expr) {
  const int line = current().line;
  const bool negated = skip_name("not");
  auto out = node(ExprKind::test, line);
  std::string name(take_name());
  while (skip_op(".")) name += "." + std::string(take_name());
  out->function = find_test(name);
  if (out->function == nullptr && conditional_ == 0) unsupported(fmt::format("the test '{}'", name));
  out->text = Text::frozen(std::move(name));
  out->children.push_back(std::move(expr));
  if (is_op("(")) {
    out->arguments = parse_arguments(out->height);
  } else if (starts_test_argument()) {
    if (is_name("is")) error("You cannot chain multiple tests with is");
    auto arguments = std::make_unique<CallArguments>();
    arguments->positional.push_back(parse_postfix(parse_primary()));
    out->height = std::max(out->height, arguments->positional.front()->height + 1);
    out->arguments = std::move(arguments);
  }
  ExprPtr test = finish(std::move(out));
  return negated ? unary(ExprKind::logical_not, line, std::move(test)) : std::move(test);
}

}  // namespace lithe::chat
