// `weir tokenize FILE --json` and `weir detokenize FILE --json`: JSON lines filters from standard input to standard
// output, one answer per line, flushed at once. A line that cannot be answered gets {"error": "..."}.
//
// Both return the exit status: 0 at the end of input, 2 if the file cannot be used.
#pragma once

#include <string>

namespace weir::apps {

// {"text": "...", "add_special": false, "parse_special": false} -> {"ids": [1, 2, 3]}; both flags may be left out.
int tokenize_filter(const std::string& path);
// {"ids": [1, 2, 3], "skip_special": false} -> {"text": "..."}; the flag may be left out.
int detokenize_filter(const std::string& path);

}  // namespace weir::apps
