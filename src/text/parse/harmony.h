// gpt-oss's "harmony" format: a reply is a sequence of messages, each with a header that names its channel and perhaps
// its recipient: <|start|>assistant<|channel|>analysis<|message|>...<|end|>. Analysis is reasoning, what goes to
// functions.NAME is a call, the rest is content. (OpenAI's harmony guide.) Models leave out `functions.` now and then.
//
// Muse Glimmer's messages have recipients only: what goes to itself is reasoning, what goes to the user or nobody is
// content, and in what goes to a tool stand calls in a notation of their own.
#pragma once

#include <string>
#include <vector>

#include "text/parse/calls.h"
#include "text/parse/formats.h"

namespace weir::text::parse {

std::vector<std::string> harmony_markers();

// Reads a whole reply into `out`, to which it always refers anew, as it changes with every piece of text.
Task<bool> read_harmony(Calls& calls, Delta*& out, ReplyStart start, NotationPtr tools, bool calls_allowed);

}  // namespace weir::text::parse
