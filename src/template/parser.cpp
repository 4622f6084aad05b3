#include "template/parser.h"

#include <algorithm>

#include "template/builtins.h"
#include "template/parser_impl.h"

namespace lithe::chat {

Program parse_template(std::string_view source, int depth) {
  return Parser(source, depth).run();
}

Program Parser::run() {
  program_.loop = intern("loop");
  program_.caller = intern("caller");
  program_.varargs = intern("varargs");
  program_.kwargs = intern("kwargs");
  program_.body = parse_block({});
  return std::move(program_);
}

// --- tokens

bool Parser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  take();
  return true;
}

bool Parser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

namespace {

std::string describe(const Token& token) {
  switch (token.kind) {
    case TokenKind::variable_begin:
      return "begin of print statement";
    case TokenKind::variable_end:
      return "end of print statement";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::end:
      return "end of template";
    case TokenKind::data:
      return "template data / text";
    default:
      return std::string(token.text);
  }
}

}  // namespace

void Parser::expect_op(std::string_view op) {
  if (!skip_op(op)) error(fmt::format("expected token '{}', got '{}'", op, describe(current())));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) error(fmt::format("expected token '{}', got '{}'", name, describe(current())));
}

void Parser::expect(TokenKind kind) {
  if (!is(kind)) {
    error(fmt::format("expected token '{}', got '{}'", describe({kind, {}, 0, 0}), describe(current())));
  }
  take();
}

std::string_view Parser::take_name() {
  if (!is(TokenKind::name)) error(fmt::format("expected token 'name', got '{}'", describe(current())));
  return take().text;
}

void Parser::unsupported(std::string_view what) const {
  const Position position = position_of(source_, current().at);
  fail(Code::unsupported, "line {}, column {}: {} is not supported in a chat template", position.line,
       position.column, what);
}

Symbol Parser::intern(std::string_view name) {
  const auto [entry, is_new] = symbols_.emplace(name, static_cast<Symbol>(program_.names.size()));
  if (is_new) {
    program_.names.emplace_back(name);
    program_.globals.push_back(find_global(name));
  }
  return entry->second;
}

// --- statements

std::unique_ptr<Statement> Parser::statement(StatementKind kind) const {
  auto out = std::make_unique<Statement>();
  out->kind = kind;
  out->line = current().line;
  return out;
}

Block Parser::parse_block(Ends ends) {
  const Level level(*this);
  Block out;
  while (true) {
    switch (current().kind) {
      case TokenKind::end:
        if (ends.size() > 0)
          error(fmt::format("Unexpected end of template: '{}' is missing", *(ends.end() - 1)));
        return out;
      case TokenKind::data:
      case TokenKind::variable_begin:
        parse_data(out);
        break;
      default: {
        take();  // block_begin
        const bool at_end =
            is(TokenKind::name) && std::find(ends.begin(), ends.end(), current().text) != ends.end();
        if (at_end) return out;
        parse_statement(out);
        expect(TokenKind::block_end);
      }
    }
  }
}

Block Parser::parse_body(Ends ends) {
  skip_op(":");
  expect(TokenKind::block_end);
  return parse_block(ends);
}

void Parser::parse_data(Block& out) {
  if (is(TokenKind::data)) {
    auto data = statement(StatementKind::data);
    data->text = Text::frozen(std::string(take().text));
    out.push_back(std::move(data));
    return;
  }
  auto print = statement(StatementKind::print);
  take();
  print->expr = parse_tuple(true);
  expect(TokenKind::variable_end);
  out.push_back(std::move(print));
}

void Parser::parse_statement(Block& out) {
  if (!is(TokenKind::name)) error("tag name expected");
  const std::string_view tag = current().text;
  if (tag == "if") {
    out.push_back(parse_if());
  } else if (tag == "for") {
    out.push_back(parse_for());
  } else if (tag == "set") {
    out.push_back(parse_set());
  } else if (tag == "macro") {
    out.push_back(parse_macro());
  } else if (tag == "call") {
    out.push_back(parse_call_block());
  } else if (tag == "filter") {
    out.push_back(parse_filter_block());
  } else if (tag == "with") {
    out.push_back(parse_with());
  } else if (tag == "print") {
    parse_print(out);
  } else if (tag == "break" || tag == "continue") {
    out.push_back(parse_loop_control());
  } else if (tag == "generation") {
    take();
    out.push_back(parse_scope("endgeneration"));
  } else if (tag == "autoescape") {
    take();
    if (!skip_name("false") && !skip_name("False")) unsupported("autoescape");
    out.push_back(parse_scope("endautoescape"));
  } else if (tag == "block" || tag == "extends" || tag == "include" || tag == "import" || tag == "from") {
    unsupported(fmt::format("the statement '{}'", tag));
  } else {
    error(fmt::format("Encountered unknown tag '{}'.", tag));
  }
}

std::unique_ptr<Statement> Parser::parse_if() {
  auto out = statement(StatementKind::condition);
  ++conditional_;
  while (true) {
    take();  // if, elif
    ExprPtr test = parse_tuple(false);
    Block body = parse_body({"elif", "else", "endif"});
    out->branches.emplace_back(std::move(test), std::move(body));
    if (is_name("elif")) continue;
    if (skip_name("else")) {
      Block otherwise = parse_body({"endif"});
      out->branches.emplace_back(nullptr, std::move(otherwise));
    }
    break;
  }
  take();  // endif
  --conditional_;
  return out;
}

std::unique_ptr<Statement> Parser::parse_for() {
  auto out = statement(StatementKind::loop);
  take();
  if (is_name("loop")) error("Can't assign to special loop variable in for-loop target");
  out->target = parse_target(false);
  expect_name("in");
  out->expr = parse_tuple(false, "recursive");
  if (skip_name("if")) out->test = parse_expression();
  out->recursive = skip_name("recursive");
  open_loops_.push_back(out.get());
  ++loops_;
  out->body = parse_body({"endfor", "else"});
  --loops_;
  open_loops_.pop_back();
  out->uses_loop |= out->recursive;
  if (take().text == "else") {
    out->otherwise = parse_body({"endfor"});
    take();
  }
  return out;
}

std::unique_ptr<Statement> Parser::parse_set() {
  auto out = statement(StatementKind::assign);
  take();
  out->target = parse_target(true);
  if (skip_op("=")) {
    out->expr = parse_tuple(true);
    return out;
  }
  out->kind = StatementKind::capture;
  while (is_op("|")) {
    take();
    out->expr = parse_filter(std::move(out->expr));
  }
  out->body = parse_body({"endset"});
  take();
  return out;
}

std::unique_ptr<Statement> Parser::parse_with() {
  auto out = statement(StatementKind::with);
  take();
  while (!is(TokenKind::block_end)) {
    if (!out->bindings.empty()) expect_op(",");
    Target target = parse_target(false);
    expect_op("=");
    ExprPtr value = parse_expression();
    out->bindings.emplace_back(std::move(target), std::move(value));
  }
  out->body = parse_body({"endwith"});
  take();
  return out;
}

std::unique_ptr<Statement> Parser::parse_filter_block() {
  auto out = statement(StatementKind::filter);
  take();
  out->expr = parse_filter(nullptr);
  while (skip_op("|")) out->expr = parse_filter(std::move(out->expr));
  out->body = parse_body({"endfilter"});
  take();
  return out;
}

std::unique_ptr<Statement> Parser::parse_scope(std::string_view end) {
  auto out = statement(StatementKind::scope);
  out->body = parse_body({end});
  take();
  return out;
}

std::unique_ptr<Statement> Parser::parse_loop_control() {
  const bool is_break = current().text == "break";
  if (loops_ == 0) error(fmt::format("'{}' outside loop", current().text));
  auto out = statement(is_break ? StatementKind::break_loop : StatementKind::continue_loop);
  take();
  return out;
}

void Parser::parse_print(Block& out) {
  take();
  for (bool first = true; !is(TokenKind::block_end); first = false) {
    if (!first) expect_op(",");
    auto print = statement(StatementKind::print);
    print->expr = parse_expression();
    out.push_back(std::move(print));
  }
}

// --- macros

void Parser::parse_signature(MacroBody& macro) {
  expect_op("(");
  bool optional = false;
  while (!is_op(")")) {
    if (!macro.parameters.empty()) expect_op(",");
    const std::string_view name = take_name();
    Parameter parameter{intern(name), Text::frozen(std::string(name)), nullptr};
    if (skip_op("=")) {
      parameter.fallback = parse_expression();
      optional = true;
    } else if (optional) {
      error("non-default argument follows default argument");
    }
    macro.parameters.push_back(std::move(parameter));
  }
  take();
}

void Parser::parse_macro_body(MacroBody& macro, std::string_view end) {
  const int loops = loops_;
  loops_ = 0;  // a macro's body cannot leave the loop around it
  open_macros_.push_back(&macro);
  macro.body = parse_body({end});
  open_macros_.pop_back();
  loops_ = loops;
  take();
}

std::unique_ptr<Statement> Parser::parse_macro() {
  auto out = statement(StatementKind::macro);
  take();
  auto macro = std::make_unique<MacroBody>();
  const std::string_view name = take_name();
  macro->name = Text::frozen(std::string(name));
  out->symbol = intern(name);
  parse_signature(*macro);
  parse_macro_body(*macro, "endmacro");
  out->macro = std::move(macro);
  return out;
}

std::unique_ptr<Statement> Parser::parse_call_block() {
  auto out = statement(StatementKind::call);
  take();
  auto macro = std::make_unique<MacroBody>();
  if (is_op("(")) parse_signature(*macro);
  out->expr = parse_expression();
  if (out->expr->kind != ExprKind::call) error("expected call");
  parse_macro_body(*macro, "endcall");
  out->macro = std::move(macro);
  return out;
}

/// Macros take `caller`, `varargs` and `kwargs` only if their body mentions them; loops make `loop` likewise.
void Parser::note_use(std::string_view name) {
  for (MacroBody* macro : open_macros_) {
    macro->uses_caller |= name == "caller";
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
  }
  if (name != "loop") return;
  for (Statement* loop : open_loops_) loop->uses_loop = true;
}

// --- targets

Target Parser::parse_single_target(bool with_attributes) {
  const Level level(*this);
  Target out;
  out.line = current().line;
  if (skip_op("(")) {
    out = parse_target(with_attributes);
    expect_op(")");
    return out;
  }
  if (!is(TokenKind::name)) error(fmt::format("can't assign to '{}'", describe(current())));
  const std::string_view name = current().text;
  for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
    if (name == constant) error(fmt::format("can't assign to '{}'", name));
  }
  if (name == "loop" && !open_loops_.empty())
    error("Can't assign to special loop variable in for-loop target");
  take();
  out.symbol = intern(name);
  if (with_attributes && skip_op(".")) {
    out.kind = Target::Kind::attribute;
    out.attribute = Text::frozen(std::string(take_name()));
  }
  return out;
}

Target Parser::parse_target(bool with_attributes) {
  Target first = parse_single_target(with_attributes);
  if (!is_op(",")) return first;
  Target tuple;
  tuple.kind = Target::Kind::tuple;
  tuple.line = first.line;
  tuple.items.push_back(std::move(first));
  while (skip_op(",")) {
    const bool ends = is(TokenKind::block_end) || is_op(")") || is_op("=") || is_name("in");
    if (ends) break;
    tuple.items.push_back(parse_single_target(with_attributes));
  }
  return tuple;
}

}  // namespace lithe::chat
