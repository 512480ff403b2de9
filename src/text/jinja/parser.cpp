#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/expression_parser.h"
#include "text/jinja/scopes.h"

namespace weir::text::jinja {

namespace {

using Names = std::vector<std::string_view>;

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : stream_(std::move(tokens)), expressions_(stream_) {}

  Body run() { return statements_until({}); }

 private:
  // A body up to the block tag with one of these names, which is left as the current token. Without names: the whole
  // template.
  Body statements_until(const Names& end) {
    if (static_cast<int>(ends_.size()) >= kMaxBlockDepth)
      raise_at(stream_.current().line, "blocks nested more than {} levels deep are not allowed", kMaxBlockDepth);
    ends_.push_back(end);
    Body body;
    while (true) {
      const Token& token = stream_.current();
      if (token.kind == TokenKind::kEnd) {
        if (!end.empty()) unknown_tag("Unexpected end of template.", {});
        break;
      }
      if (token.kind == TokenKind::kData) {
        auto statement = std::make_unique<Stmt>(StmtKind::kData, token.line);
        statement->value = Value::string(token.text);
        body.push_back(std::move(statement));
        stream_.next();
      } else if (token.kind == TokenKind::kVariableBegin) {
        stream_.next();
        auto statement = std::make_unique<Stmt>(StmtKind::kOutput, token.line);
        statement->exprs.push_back(expressions_.tuple({}));
        stream_.expect(TokenKind::kVariableEnd, "end of print statement");
        body.push_back(std::move(statement));
      } else {
        stream_.next();
        if (std::any_of(end.begin(), end.end(), [&](std::string_view name) { return stream_.at_name(name); })) break;
        if (StmtPtr made = statement()) body.push_back(std::move(made));
        stream_.expect(TokenKind::kBlockEnd, "end of statement block");
      }
    }
    ends_.pop_back();
    return body;
  }

  // The body of a statement whose opening tag ends here.
  Body body_until(const Names& end) {
    stream_.skip_operator(":");
    stream_.expect(TokenKind::kBlockEnd, "end of statement block");
    return statements_until(end);
  }

  // The same, and the closing tag's name is consumed.
  Body whole_body(std::string_view end) {
    Body body = body_until({end});
    stream_.next();
    return body;
  }

  [[noreturn]] void unknown_tag(std::string message, std::string_view name) {
    const Names looking = ends_.empty() ? Names{} : ends_.back();
    if (!looking.empty()) {
      const bool nesting = !name.empty() && std::any_of(ends_.begin(), ends_.end(), [&](const Names& names) {
        return std::find(names.begin(), names.end(), name) != names.end();
      });
      message += nesting
                     ? " You probably made a nesting mistake. Jinja is expecting this tag, but currently looking for "
                     : " Jinja was looking for the following tags: ";
      for (std::size_t i = 0; i < looking.size(); ++i)
        message += fmt::format("{}'{}'", i == 0 ? "" : " or ", looking[i]);
      message += '.';
    }
    if (!tags_.empty()) message += fmt::format(" The innermost block that needs to be closed is '{}'.", tags_.back());
    raise_at(stream_.current().line, "{}", message);
  }

  StmtPtr statement() {
    const Token token = stream_.current();
    if (token.kind != TokenKind::kName) raise_at(token.line, "tag name expected");
    using Method = StmtPtr (Parser::*)();
    static constexpr std::pair<std::string_view, Method> kStatements[] = {
        {"for", &Parser::for_loop},    {"if", &Parser::if_branches},        {"set", &Parser::assignment},
        {"macro", &Parser::macro},     {"call", &Parser::call_block},       {"filter", &Parser::filter_block},
        {"with", &Parser::with_block}, {"block", &Parser::block},           {"print", &Parser::print},
        {"break", &Parser::loop_exit}, {"continue", &Parser::loop_exit},    {"generation", &Parser::generation},
        {"include", &Parser::refused}, {"import", &Parser::refused},        {"from", &Parser::refused},
        {"extends", &Parser::refused}, {"autoescape", &Parser::autoescape},
    };
    for (const auto& [name, method] : kStatements) {
      if (name != token.text) continue;
      tags_.push_back(name);
      StmtPtr made = (this->*method)();
      tags_.pop_back();
      return made;
    }
    unknown_tag(fmt::format("Encountered unknown tag '{}'.", token.text), token.text);
  }

  StmtPtr start(StmtKind kind) {
    auto made = std::make_unique<Stmt>(kind, stream_.current().line);
    stream_.next();
    return made;
  }

  StmtPtr for_loop() {
    StmtPtr made = start(StmtKind::kFor);
    made->target = expressions_.assign_target("in", false);
    stream_.expect_name("in");
    made->iterable = expressions_.tuple({.conditional = false, .end_name = "recursive"});
    if (stream_.skip_name("if")) made->test = expressions_.expression();
    made->recursive = stream_.skip_name("recursive");
    ++loop_depth_;
    made->body = body_until({"endfor", "else"});
    --loop_depth_;
    if (stream_.next().text == "else") made->else_body = whole_body("endfor");
    return made;
  }

  StmtPtr if_branches() {
    StmtPtr made = start(StmtKind::kIf);
    while (true) {
      made->exprs.push_back(expressions_.tuple({.conditional = false}));
      made->branches.push_back(body_until({"elif", "else", "endif"}));
      const std::string end = stream_.next().text;
      if (end == "elif") continue;
      if (end == "else") made->else_body = whole_body("endif");
      return made;
    }
  }

  StmtPtr assignment() {
    StmtPtr made = start(StmtKind::kSet);
    made->target = expressions_.assign_target({}, true);
    if (stream_.skip_operator("=")) {
      made->exprs.push_back(expressions_.tuple({}));
      return made;
    }
    made->kind = StmtKind::kSetBlock;
    made->filter = expressions_.filters(nullptr, false);
    made->body = whole_body("endset");
    return made;
  }

  // {% break %} does not reach out of the functions that these bodies are.
  Body function_body(std::string_view end) {
    const int outer = std::exchange(loop_depth_, 0);
    Body body = whole_body(end);
    loop_depth_ = outer;
    return body;
  }

  void signature(Stmt& made) {
    stream_.expect_operator("(");
    while (!stream_.at_operator(")")) {
      if (!made.parameters.empty()) stream_.expect_operator(",");
      Parameter parameter;
      parameter.name = expressions_.variable_name();
      for (const Parameter& other : made.parameters)
        if (other.name == parameter.name) raise_at(made.line, "duplicate argument '{}' in a macro", parameter.name);
      if (stream_.skip_operator("=")) {
        parameter.fallback = expressions_.expression();
      } else if (!made.parameters.empty() && made.parameters.back().fallback) {
        raise_at(stream_.current().line, "non-default argument follows default argument");
      }
      made.parameters.push_back(std::move(parameter));
    }
    stream_.expect_operator(")");
  }

  StmtPtr macro() {
    StmtPtr made = start(StmtKind::kMacro);
    made->name = expressions_.variable_name();
    signature(*made);
    made->body = function_body("endmacro");
    return made;
  }

  StmtPtr call_block() {
    StmtPtr made = start(StmtKind::kCallBlock);
    if (stream_.at_operator("(")) signature(*made);
    made->exprs.push_back(expressions_.expression());
    if (made->exprs[0]->kind != ExprKind::kCall) raise_at(made->line, "expected call");
    made->body = function_body("endcall");
    return made;
  }

  StmtPtr filter_block() {
    StmtPtr made = start(StmtKind::kFilterBlock);
    made->filter = expressions_.filters(nullptr, true);
    made->body = whole_body("endfilter");
    return made;
  }

  StmtPtr with_block() {
    StmtPtr made = start(StmtKind::kWith);
    while (stream_.current().kind != TokenKind::kBlockEnd) {
      if (!made->targets.empty()) stream_.expect_operator(",");
      made->targets.push_back(expressions_.assign_target({}, false));
      stream_.expect_operator("=");
      made->exprs.push_back(expressions_.expression());
    }
    made->body = whole_body("endwith");
    return made;
  }

  StmtPtr block() {
    StmtPtr made = start(StmtKind::kBlock);
    made->name = stream_.expect(TokenKind::kName, "name").text;
    if (std::find(blocks_.begin(), blocks_.end(), made->name) != blocks_.end())
      raise_at(made->line, "block '{}' defined twice", made->name);
    blocks_.push_back(made->name);
    made->scoped = stream_.skip_name("scoped");
    stream_.skip_name("required");
    made->body = function_body("endblock");
    stream_.skip_name(made->name);
    return made;
  }

  StmtPtr print() {
    StmtPtr made = start(StmtKind::kOutput);
    while (stream_.current().kind != TokenKind::kBlockEnd) {
      if (!made->exprs.empty()) stream_.expect_operator(",");
      made->exprs.push_back(expressions_.expression());
    }
    return made;
  }

  StmtPtr loop_exit() {
    const bool is_break = stream_.at_name("break");
    StmtPtr made = start(is_break ? StmtKind::kBreak : StmtKind::kContinue);
    if (loop_depth_ == 0) raise_at(made->line, "'{}' outside loop", is_break ? "break" : "continue");
    return made;
  }

  StmtPtr generation() {
    StmtPtr made = start(StmtKind::kScope);
    made->body = function_body("endgeneration");
    return made;
  }

  StmtPtr autoescape() {
    StmtPtr made = start(StmtKind::kScope);
    made->exprs.push_back(expressions_.expression());
    made->body = whole_body("endautoescape");
    return made;
  }

  // A chat template is one text: there is nothing to include. Only reaching the tag is an error, as in Jinja without a
  // loader.
  StmtPtr refused() {
    StmtPtr made = std::make_unique<Stmt>(StmtKind::kUnsupported, stream_.current().line);
    made->name = stream_.current().text;
    while (stream_.current().kind != TokenKind::kBlockEnd && stream_.current().kind != TokenKind::kEnd) stream_.next();
    return made;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  std::vector<Names> ends_;             // the closing tags of the blocks that are open
  std::vector<std::string_view> tags_;  // their names
  std::vector<std::string> blocks_;
  int loop_depth_ = 0;
};

}  // namespace

Template parse_template(std::string source) {
  Template made;
  made.body = Parser(tokenize(source)).run();
  made.source = std::move(source);
  resolve_scopes(made);
  return made;
}

}  // namespace weir::text::jinja
