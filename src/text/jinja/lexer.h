// Lexer: template source -> tokens, with Jinja's white space control (trim_blocks and lstrip_blocks on, as chat
// templates expect).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/value.h"

namespace weir::text::jinja {

enum class TokenKind {
  kData,  // text between tags
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  int line = 1;
  std::string text;  // data, name, unescaped string or operator
  Int integer = 0;
  double real = 0;
};

// Raises TemplateError. The last token is kEnd.
std::vector<Token> tokenize(std::string_view source);

// What error messages call a token.
std::string describe(const Token& token);

}  // namespace weir::text::jinja
