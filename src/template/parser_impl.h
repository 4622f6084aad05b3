// The parser's state, shared by its two halves: statements (parser.cpp) and expressions (parser_expr.cpp).
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "template/ast.h"
#include "template/lexer.h"

namespace lithe::chat {

class Parser {
 public:
  Parser(std::string_view source, int depth)
      : source_(source), max_depth_(depth), tokens_(tokenize(source)) {}
  Program run();

 private:
  // --- tokens
  const Token& current() const { return tokens_[next_]; }
  const Token& look() const { return tokens_[std::min(next_ + 1, tokens_.size() - 1)]; }
  const Token& take() { return tokens_[next_ + 1 < tokens_.size() ? next_++ : next_]; }
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_op(std::string_view op) const { return is(TokenKind::op) && current().text == op; }
  bool is_name(std::string_view name) const { return is(TokenKind::name) && current().text == name; }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect_name(std::string_view name);
  void expect(TokenKind kind);
  std::string_view take_name();
  [[noreturn]] void error(std::string_view message) const { syntax_error(source_, current().at, message); }
  [[noreturn]] void unsupported(std::string_view what) const;

  // --- statements
  using Ends = std::initializer_list<std::string_view>;
  Block parse_block(Ends ends);  // up to the tag that ends it, which becomes current
  Block parse_body(Ends ends);   // after the end of the opening tag
  void parse_statement(Block& out);
  void parse_data(Block& out);
  std::unique_ptr<Statement> statement(StatementKind kind) const;
  std::unique_ptr<Statement> parse_if();
  std::unique_ptr<Statement> parse_for();
  std::unique_ptr<Statement> parse_set();
  std::unique_ptr<Statement> parse_with();
  std::unique_ptr<Statement> parse_filter_block();
  std::unique_ptr<Statement> parse_macro();
  std::unique_ptr<Statement> parse_call_block();
  std::unique_ptr<Statement> parse_scope(std::string_view end);
  std::unique_ptr<Statement> parse_loop_control();
  void parse_print(Block& out);
  void parse_signature(MacroBody& macro);
  void parse_macro_body(MacroBody& macro, std::string_view end);
  Target parse_target(bool with_attributes);
  Target parse_single_target(bool with_attributes);

  // --- expressions
  ExprPtr parse_expression();
  ExprPtr parse_tuple(bool with_conditional, std::string_view end_name = {}, bool parenthesized = false);
  ExprPtr parse_conditional();
  ExprPtr parse_or();
  ExprPtr parse_and();
  ExprPtr parse_not();
  ExprPtr parse_compare();
  ExprPtr parse_sum();
  ExprPtr parse_concat();
  ExprPtr parse_product();
  ExprPtr parse_power();
  ExprPtr parse_unary(bool with_filter);
  ExprPtr parse_primary();
  ExprPtr parse_name();
  ExprPtr parse_string();
  ExprPtr parse_number();
  ExprPtr parse_list();
  ExprPtr parse_dict();
  ExprPtr parse_postfix(ExprPtr expr);
  ExprPtr parse_filters_and_tests(ExprPtr expr);
  ExprPtr parse_dot(ExprPtr expr);
  ExprPtr parse_brackets(ExprPtr expr);
  struct Subscript {
    ExprPtr parts[3];  // an expression, or a slice's start, stop and step, each of which may be missing
    bool is_slice = false;
  };
  Subscript parse_subscript();
  ExprPtr parse_call(ExprPtr callee);
  ExprPtr parse_filter(ExprPtr expr);
  ExprPtr parse_test(ExprPtr expr);
  bool starts_test_argument() const;
  std::unique_ptr<const CallArguments> parse_arguments(int& height);
  bool at_tuple_end(std::string_view end_name) const;

  std::unique_ptr<Expr> node(ExprKind kind, int line) const;
  /// Checks the height and hands the node over.
  ExprPtr finish(std::unique_ptr<Expr> expr) const;
  ExprPtr binary(ExprKind kind, int line, ExprPtr left, ExprPtr right) const;
  ExprPtr unary(ExprKind kind, int line, ExprPtr operand) const;

  Symbol intern(std::string_view name);
  void note_use(std::string_view name);

  /// One level of nesting in the source: bounds the parser's recursion.
  class Level {
   public:
    explicit Level(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > parser_.max_depth_) parser_.error("the template is nested too deeply");
    }
    ~Level() { --parser_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Parser& parser_;
  };

  std::string_view source_;
  int max_depth_;
  int depth_ = 0;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  Program program_;
  std::unordered_map<std::string, Symbol> symbols_;
  int conditional_ = 0;  // inside an `if`: an unknown filter is an error only when it is reached
  int loops_ = 0;        // that `break` may leave
  std::vector<Statement*> open_loops_;
  std::vector<MacroBody*> open_macros_;
};

}  // namespace lithe::chat
