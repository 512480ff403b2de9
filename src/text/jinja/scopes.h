// Resolver: decides for every name in a template which variable it means, once, before anything runs.
//
// Jinja's rules are lexical and not quite what a chain of dictionaries would do, so this follows them step by step: a
// frame knows all names that are read or stored anywhere in it (but not inside nested frames); a name that is stored
// shadows an outer variable from the start of the frame, with the outer value copied in; a name that is stored only in
// branches of an {% if %} falls back to the outer variable or the context; the test of a loop, its body and its else
// part are frames of their own, an {% if %} is none.
#pragma once

#include "text/jinja/ast.h"

namespace weir::text::jinja {

// Fills in the ScopeInfo, hops and slots of a parsed template. Raises TemplateError for what Jinja's compiler refuses:
// unknown filters and tests that are not inside a condition, assignments to `loop`.
void resolve_scopes(Template& parsed);

}  // namespace weir::text::jinja
