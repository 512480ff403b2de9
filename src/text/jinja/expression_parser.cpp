#include "text/jinja/expression_parser.h"

#include <algorithm>

#include "text/jinja/builtins.h"

namespace weir::text::jinja {

class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMaxParseDepth)
      raise_at(parser_.stream_.current().line, "expressions nested more than {} levels deep are not allowed",
               kMaxParseDepth);
  }
  ~Nesting() { --parser_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

namespace {

void raise_height(Expr& parent, const Expr& child) {
  parent.height = std::max(parent.height, child.height + 1);
  if (parent.height > kMaxExpressionHeight)
    raise_at(parent.line, "an expression with more than {} operators in a row is not allowed", kMaxExpressionHeight);
}

constexpr std::pair<std::string_view, CompareOp> kCompareOps[] = {
    {"==", CompareOp::kEq}, {"!=", CompareOp::kNe}, {"<", CompareOp::kLt},
    {"<=", CompareOp::kLe}, {">", CompareOp::kGt},  {">=", CompareOp::kGe},
};

}  // namespace

void ExpressionParser::add(Expr& parent, ExprPtr child) {
  if (child) raise_height(parent, *child);
  parent.items.push_back(std::move(child));
}

ExprPtr ExpressionParser::binary(ExprKind kind, ExprPtr left, ExprPtr right, int line) {
  ExprPtr made = node(kind, line);
  add(*made, std::move(left));
  add(*made, std::move(right));
  return made;
}

void ExpressionParser::add_call(Expr& parent, std::unique_ptr<CallArgs> args) {
  for (const ExprPtr& arg : args->positional) raise_height(parent, *arg);
  for (const auto& [name, arg] : args->named) raise_height(parent, *arg);
  if (args->star) raise_height(parent, *args->star);
  if (args->double_star) raise_height(parent, *args->double_star);
  parent.call = std::move(args);
}

bool ExpressionParser::at_tuple_end(std::string_view end_name) const {
  const TokenKind kind = stream_.current().kind;
  return kind == TokenKind::kVariableEnd || kind == TokenKind::kBlockEnd || stream_.at_operator(")") ||
         (!end_name.empty() && stream_.at_name(end_name));
}

ExprPtr ExpressionParser::tuple(const TupleOptions& options) {
  ExprPtr made = node(ExprKind::kTuple, stream_.current().line);
  bool is_tuple = false;
  while (true) {
    if (!made->items.empty()) stream_.expect_operator(",");
    if (at_tuple_end(options.end_name)) break;
    add(*made, options.conditional ? expression() : disjunction());
    if (!stream_.at_operator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return made;
  if (!made->items.empty()) return std::move(made->items[0]);
  if (!options.parentheses)
    raise_at(stream_.current().line, "Expected an expression, got '{}'", describe(stream_.current()));
  return made;
}

ExprPtr ExpressionParser::target_part(bool namespaces) {
  const Nesting nesting(*this);
  const Token token = stream_.current();
  if (stream_.skip_operator("(")) {
    ExprPtr made = target_tuple({}, false, true);
    stream_.expect_operator(")");
    return made;
  }
  if (token.kind != TokenKind::kName) raise_at(token.line, "can't assign to '{}'", describe(token));
  std::string name = variable_name();
  if (!namespaces || !stream_.skip_operator(".")) {
    ExprPtr made = node(ExprKind::kName, token.line);
    made->name = std::move(name);
    return made;
  }
  ExprPtr made = node(ExprKind::kNamespaceRef, token.line);
  made->name = std::move(name);
  made->value = Value::string(stream_.expect(TokenKind::kName, "name").text);
  return made;
}

ExprPtr ExpressionParser::target_tuple(std::string_view end_name, bool namespaces, bool parentheses) {
  ExprPtr made = node(ExprKind::kTuple, stream_.current().line);
  bool is_tuple = false;
  while (true) {
    if (!made->items.empty()) stream_.expect_operator(",");
    if (at_tuple_end(end_name)) break;
    add(*made, target_part(namespaces));
    if (!stream_.at_operator(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return made;
  if (!made->items.empty()) return std::move(made->items[0]);
  if (!parentheses) raise_at(stream_.current().line, "Expected an expression, got '{}'", describe(stream_.current()));
  return made;
}

ExprPtr ExpressionParser::assign_target(std::string_view end_name, bool namespaces) {
  return target_tuple(end_name, namespaces, false);
}

std::string ExpressionParser::variable_name() {
  const Token& token = stream_.expect(TokenKind::kName, "name");
  for (const std::string_view constant : {"true", "false", "none", "True", "False", "None"})
    if (token.text == constant) raise_at(token.line, "can't assign to '{}'", token.text);
  return token.text;
}

ExprPtr ExpressionParser::expression() {
  const Nesting nesting(*this);
  return conditional();
}

ExprPtr ExpressionParser::conditional() {
  ExprPtr first = disjunction();
  while (stream_.at_name("if")) {
    ExprPtr made = node(ExprKind::kConditional, stream_.next().line);
    ExprPtr condition = disjunction();
    ExprPtr otherwise = stream_.skip_name("else") ? expression() : nullptr;
    add(*made, std::move(first));
    add(*made, std::move(condition));
    add(*made, std::move(otherwise));
    first = std::move(made);
  }
  return first;
}

ExprPtr ExpressionParser::disjunction() {
  ExprPtr left = conjunction();
  while (stream_.at_name("or")) {
    const int line = stream_.next().line;
    left = binary(ExprKind::kOr, std::move(left), conjunction(), line);
  }
  return left;
}

ExprPtr ExpressionParser::conjunction() {
  ExprPtr left = negation();
  while (stream_.at_name("and")) {
    const int line = stream_.next().line;
    left = binary(ExprKind::kAnd, std::move(left), negation(), line);
  }
  return left;
}

ExprPtr ExpressionParser::negation() {
  if (!stream_.at_name("not")) return comparison();
  const Nesting nesting(*this);
  ExprPtr made = node(ExprKind::kNot, stream_.next().line);
  add(*made, negation());
  return made;
}

ExprPtr ExpressionParser::comparison() {
  ExprPtr first = sum();
  ExprPtr made;
  while (true) {
    const auto* symbol = std::find_if(std::begin(kCompareOps), std::end(kCompareOps),
                                      [&](const auto& op) { return stream_.at_operator(op.first); });
    CompareOp op = CompareOp::kIn;
    if (symbol != std::end(kCompareOps)) {
      op = symbol->second;
    } else if (stream_.at_name("not") && stream_.next_is_name("in")) {
      stream_.next();
      op = CompareOp::kNotIn;
    } else if (!stream_.at_name("in")) {
      break;
    }
    const int line = stream_.next().line;
    if (!made) {
      made = node(ExprKind::kCompare, line);
      add(*made, std::move(first));
    }
    made->compare.push_back(op);
    add(*made, sum());
  }
  return made ? std::move(made) : std::move(first);
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concatenation();
  while (stream_.at_operator("+") || stream_.at_operator("-")) {
    const Token& token = stream_.next();
    const BinaryOp op = token.text == "+" ? BinaryOp::kAdd : BinaryOp::kSub;
    left = binary(ExprKind::kBinary, std::move(left), concatenation(), token.line);
    left->op = op;
  }
  return left;
}

ExprPtr ExpressionParser::concatenation() {
  ExprPtr first = product();
  if (!stream_.at_operator("~")) return first;
  ExprPtr made = node(ExprKind::kConcat, stream_.current().line);
  add(*made, std::move(first));
  while (stream_.skip_operator("~")) add(*made, product());
  return made;
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (true) {
    BinaryOp op = BinaryOp::kMul;
    if (stream_.at_operator("/")) {
      op = BinaryOp::kDiv;
    } else if (stream_.at_operator("//")) {
      op = BinaryOp::kFloorDiv;
    } else if (stream_.at_operator("%")) {
      op = BinaryOp::kMod;
    } else if (!stream_.at_operator("*")) {
      return left;
    }
    const int line = stream_.next().line;
    left = binary(ExprKind::kBinary, std::move(left), power(), line);
    left->op = op;
  }
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary(true);
  while (stream_.at_operator("**")) {
    const int line = stream_.next().line;
    left = binary(ExprKind::kBinary, std::move(left), unary(true), line);
    left->op = BinaryOp::kPow;
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filter) {
  ExprPtr made;
  if (stream_.at_operator("-") || stream_.at_operator("+")) {
    const Nesting nesting(*this);
    const Token& token = stream_.next();
    made = node(token.text == "-" ? ExprKind::kNegate : ExprKind::kPlus, token.line);
    add(*made, unary(false));
  } else {
    made = primary();
  }
  made = postfix(std::move(made));
  return with_filter ? filter_or_test(std::move(made)) : std::move(made);
}

ExprPtr ExpressionParser::name_or_literal() {
  const Token& token = stream_.next();
  if (token.text == "true" || token.text == "True" || token.text == "false" || token.text == "False") {
    ExprPtr made = node(ExprKind::kConst, token.line);
    made->value = Value::boolean(token.text[0] == 't' || token.text[0] == 'T');
    return made;
  }
  if (token.text == "none" || token.text == "None") {
    ExprPtr made = node(ExprKind::kConst, token.line);
    made->value = Value::none();
    return made;
  }
  ExprPtr made = node(ExprKind::kName, token.line);
  made->name = token.text;
  return made;
}

ExprPtr ExpressionParser::primary() {
  const Token& token = stream_.current();
  ExprPtr made = node(ExprKind::kConst, token.line);
  switch (token.kind) {
    case TokenKind::kName:
      return name_or_literal();
    case TokenKind::kString: {
      std::string text;
      while (stream_.current().kind == TokenKind::kString) text += stream_.next().text;
      made->value = Value::string(std::move(text));
      return made;
    }
    case TokenKind::kInteger:
      made->value = Value::integer(stream_.next().integer);
      return made;
    case TokenKind::kFloat:
      made->value = Value::real(stream_.next().real);
      return made;
    default:
      break;
  }
  if (stream_.at_operator("[")) return list();
  if (stream_.at_operator("{")) return dict();
  if (!stream_.skip_operator("(")) raise_at(token.line, "unexpected '{}'", describe(token));
  made = tuple({.parentheses = true});
  stream_.expect_operator(")");
  return made;
}

ExprPtr ExpressionParser::list() {
  ExprPtr made = node(ExprKind::kList, stream_.next().line);
  while (!stream_.at_operator("]")) {
    if (!made->items.empty()) stream_.expect_operator(",");
    if (stream_.at_operator("]")) break;
    add(*made, expression());
  }
  stream_.expect_operator("]");
  return made;
}

ExprPtr ExpressionParser::dict() {
  ExprPtr made = node(ExprKind::kDict, stream_.next().line);
  while (!stream_.at_operator("}")) {
    if (!made->items.empty()) stream_.expect_operator(",");
    if (stream_.at_operator("}")) break;
    add(*made, expression());
    stream_.expect_operator(":");
    add(*made, expression());
  }
  stream_.expect_operator("}");
  return made;
}

ExprPtr ExpressionParser::postfix(ExprPtr made) {
  while (true) {
    if (stream_.at_operator(".") || stream_.at_operator("[")) {
      made = subscript(std::move(made));
    } else if (stream_.at_operator("(")) {
      made = call(std::move(made));
    } else {
      return made;
    }
  }
}

ExprPtr ExpressionParser::filter_or_test(ExprPtr made) {
  while (true) {
    if (stream_.at_operator("|")) {
      made = filters(std::move(made), false);
    } else if (stream_.at_name("is")) {
      made = test(std::move(made));
    } else if (stream_.at_operator("(")) {
      made = call(std::move(made));
    } else {
      return made;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr object) {
  const Token& token = stream_.next();
  if (token.text == "[") return bracket(std::move(object), token.line);
  const Token& attribute = stream_.next();
  if (attribute.kind == TokenKind::kName) {
    ExprPtr made = node(ExprKind::kAttribute, token.line);
    made->name = attribute.text;
    add(*made, std::move(object));
    return made;
  }
  if (attribute.kind != TokenKind::kInteger) raise_at(attribute.line, "expected name or number");
  ExprPtr index = node(ExprKind::kConst, attribute.line);
  index->value = Value::integer(attribute.integer);
  return binary(ExprKind::kItem, std::move(object), std::move(index), token.line);
}

ExprPtr ExpressionParser::bracket(ExprPtr object, int line) {
  ExprPtr index;
  if (!stream_.at_operator(":")) {
    if (stream_.at_operator("]")) raise_at(line, "expected subscript expression");
    index = expression();
    if (stream_.at_operator(",")) {
      ExprPtr made = node(ExprKind::kTuple, line);
      add(*made, std::move(index));
      while (stream_.skip_operator(",")) {
        if (stream_.at_operator("]")) break;
        add(*made, expression());
      }
      index = std::move(made);
    }
  }
  if (!stream_.at_operator(":")) {
    stream_.expect_operator("]");
    return binary(ExprKind::kItem, std::move(object), std::move(index), line);
  }
  ExprPtr made = node(ExprKind::kSlice, line);
  add(*made, std::move(object));
  add(*made, std::move(index));
  for (int bound = 0; bound < 2; ++bound) {
    const bool given = stream_.skip_operator(":") && !stream_.at_operator(":") && !stream_.at_operator("]");
    add(*made, given ? expression() : nullptr);
  }
  stream_.expect_operator("]");
  return made;
}

void ExpressionParser::call_arg(CallArgs& args, int line) {
  const auto ensure = [&](bool allowed) {
    if (!allowed) raise_at(line, "invalid syntax for function call expression");
  };
  if (stream_.skip_operator("*")) {
    ensure(!args.star && !args.double_star);
    args.star = expression();
  } else if (stream_.skip_operator("**")) {
    ensure(!args.double_star);
    args.double_star = expression();
  } else if (stream_.current().kind == TokenKind::kName && stream_.next_is_operator("=")) {
    ensure(!args.double_star);
    std::string name = stream_.next().text;
    stream_.next();
    for (const auto& [other, value] : args.named)
      if (other == name) raise_at(line, "keyword argument repeated: {}", name);
    args.named.emplace_back(std::move(name), expression());
  } else {
    ensure(!args.star && !args.double_star && args.named.empty());
    args.positional.push_back(expression());
  }
}

std::unique_ptr<CallArgs> ExpressionParser::call_args() {
  const int line = stream_.current().line;
  stream_.expect_operator("(");
  auto args = std::make_unique<CallArgs>();
  bool first = true;
  while (!stream_.at_operator(")")) {
    if (!first) {
      stream_.expect_operator(",");
      if (stream_.at_operator(")")) break;
    }
    call_arg(*args, line);
    first = false;
  }
  stream_.expect_operator(")");
  return args;
}

ExprPtr ExpressionParser::call(ExprPtr callee) {
  ExprPtr made = node(ExprKind::kCall, stream_.current().line);
  add(*made, std::move(callee));
  add_call(*made, call_args());
  return made;
}

ExprPtr ExpressionParser::filters(ExprPtr made, bool first) {
  while (first || stream_.skip_operator("|")) {
    first = false;
    const Token& token = stream_.expect(TokenKind::kName, "name");
    ExprPtr filter = node(ExprKind::kFilter, token.line);
    filter->name = token.text;
    while (stream_.skip_operator(".")) filter->name += "." + stream_.expect(TokenKind::kName, "name").text;
    filter->filter = find_filter(filter->name);
    add(*filter, std::move(made));
    add_call(*filter, stream_.at_operator("(") ? call_args() : std::make_unique<CallArgs>());
    made = std::move(filter);
  }
  return made;
}

ExprPtr ExpressionParser::test(ExprPtr subject) {
  const int line = stream_.next().line;
  const bool negated = stream_.skip_name("not");
  ExprPtr made = node(ExprKind::kTest, line);
  made->name = stream_.expect(TokenKind::kName, "name").text;
  while (stream_.skip_operator(".")) made->name += "." + stream_.expect(TokenKind::kName, "name").text;
  made->test = find_test(made->name);
  add(*made, std::move(subject));
  const Token& token = stream_.current();
  const bool operand = token.kind == TokenKind::kName || token.kind == TokenKind::kString ||
                       token.kind == TokenKind::kInteger || token.kind == TokenKind::kFloat ||
                       stream_.at_operator("[") || stream_.at_operator("{");
  auto args = std::make_unique<CallArgs>();
  if (stream_.at_operator("(")) {
    args = call_args();
  } else if (operand && !stream_.at_name("else") && !stream_.at_name("or") && !stream_.at_name("and")) {
    if (stream_.at_name("is")) raise_at(token.line, "You cannot chain multiple tests with is");
    const Nesting nesting(*this);
    args->positional.push_back(postfix(primary()));
  }
  add_call(*made, std::move(args));
  if (!negated) return made;
  ExprPtr outer = node(ExprKind::kNot, line);
  add(*outer, std::move(made));
  return outer;
}

}  // namespace weir::text::jinja
