// `weir template render --json`: renders chat templates for scripts and conformance checks.
#pragma once

namespace weir::apps {

// Reads one JSON request a line from standard input and writes one JSON answer a line to standard output until the
// input ends. A request that fails is an answer {"error": ...}. Requests: {"template_text", "messages", "tools",
// "kwargs", "bos_token", "eos_token", "now"} or
// {"template_text", "context", "now"}. Returns the exit status.
int template_render_filter();

}  // namespace weir::apps
