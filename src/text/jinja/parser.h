// Parser: tokens -> syntax tree, with Jinja's grammar and precedences.
#pragma once

#include <string>

#include "text/jinja/ast.h"

namespace weir::text::jinja {

// Parses and resolves a template. Raises TemplateError with the line.
Template parse_template(std::string source);

}  // namespace weir::text::jinja
