// The expressions of a template: a recursive descent parser over the tokens of a tag.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace weir::text::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& look() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  const Token& next() {  // the current token; the one behind it becomes current
    const Token& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }

  bool at_name(std::string_view name) const { return is(current(), TokenKind::kName, name); }
  bool at_operator(std::string_view symbol) const { return is(current(), TokenKind::kOperator, symbol); }
  bool next_is_name(std::string_view name) const { return is(look(), TokenKind::kName, name); }
  bool next_is_operator(std::string_view symbol) const { return is(look(), TokenKind::kOperator, symbol); }
  bool skip_name(std::string_view name) { return at_name(name) && (next(), true); }
  bool skip_operator(std::string_view symbol) { return at_operator(symbol) && (next(), true); }

  const Token& expect(TokenKind kind, std::string_view expected) {
    if (current().kind != kind) unexpected(expected);
    return next();
  }
  void expect_name(std::string_view name) {
    if (!skip_name(name)) unexpected(name);
  }
  void expect_operator(std::string_view symbol) {
    if (!skip_operator(symbol)) unexpected(symbol);
  }

 private:
  static bool is(const Token& token, TokenKind kind, std::string_view text) {
    return token.kind == kind && token.text == text;
  }
  [[noreturn]] void unexpected(std::string_view expected) const {
    if (current().kind == TokenKind::kEnd)
      raise_at(current().line, "unexpected end of template, expected '{}'.", expected);
    raise_at(current().line, "expected token '{}', got '{}'", expected, describe(current()));
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& stream) : stream_(stream) {}

  struct TupleOptions {
    bool conditional = true;         // "a if b else c" may stand in it
    std::string_view end_name = {};  // a name that ends it
    bool parentheses = false;        // it may be empty
  };
  // One expression, or several with commas between them as a tuple.
  ExprPtr tuple(const TupleOptions& options);
  ExprPtr expression();
  // "name", "a, (b, c)" and, with namespaces, "ns.attribute".
  ExprPtr assign_target(std::string_view end_name, bool namespaces);
  std::string variable_name();
  // "|a|b(c)" around `node`; `first` is true when the first "|" is left out.
  ExprPtr filters(ExprPtr node, bool first);

 private:
  class Nesting;

  ExprPtr conditional();
  ExprPtr disjunction();
  ExprPtr conjunction();
  ExprPtr negation();
  ExprPtr comparison();
  ExprPtr sum();
  ExprPtr concatenation();
  ExprPtr product();
  ExprPtr power();
  ExprPtr unary(bool with_filter);
  ExprPtr primary();
  ExprPtr name_or_literal();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr postfix(ExprPtr node);
  ExprPtr filter_or_test(ExprPtr node);
  ExprPtr subscript(ExprPtr node);
  ExprPtr bracket(ExprPtr node, int line);
  ExprPtr call(ExprPtr node);
  ExprPtr test(ExprPtr node);
  std::unique_ptr<CallArgs> call_args();
  void call_arg(CallArgs& args, int line);
  ExprPtr target_part(bool namespaces);
  ExprPtr target_tuple(std::string_view end_name, bool namespaces, bool parentheses);
  bool at_tuple_end(std::string_view end_name) const;

  static ExprPtr node(ExprKind kind, int line) { return std::make_unique<Expr>(kind, line); }
  static void add(Expr& parent, ExprPtr child);  // child may be null
  static ExprPtr binary(ExprKind kind, ExprPtr left, ExprPtr right, int line);
  static void add_call(Expr& parent, std::unique_ptr<CallArgs> args);

  TokenStream& stream_;
  int depth_ = 0;
};

}  // namespace weir::text::jinja
