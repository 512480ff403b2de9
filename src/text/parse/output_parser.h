// OutputParser: the text of one reply, as it comes -> content, reasoning and tool calls.
//
// The result depends on the text alone, not on how it was cut into pieces. Nothing is lost: markers, and white space
// beside them, belong to the format; everything else comes out as one of the three, and what does not parse is content.
// Calls come out as they are written, the name first. Memory is what is held back: the beginning of what may be a
// marker, or a call whose name is not known yet. Time is linear. One per reply; not thread-safe.
#pragma once

#include <memory>

#include "text/parse/delta.h"
#include "text/parse/formats.h"

namespace weir::text::parse {

struct ReplySyntax {
  std::shared_ptr<const OutputFormat> format;
  ToolSchemas tools;
  bool calls = false;  // the request has tools, and does not forbid them
  // Calls come out when they are complete, and what only begins like a call is content. Otherwise they stream.
  bool whole_calls = false;
  ReplyStart start;
};

class OutputParser {
 public:
  explicit OutputParser(std::shared_ptr<const ReplySyntax> syntax);
  ~OutputParser();
  OutputParser(OutputParser&&) noexcept;
  OutputParser& operator=(OutputParser&&) noexcept;

  // `hidden`: the text is a control token, which the user does not see where it is no marker.
  void feed(std::string_view text, bool hidden, Delta& out);
  // The reply is over. Once. `cut_off`: the model would have gone on; a call that has begun stays one.
  void finish(Delta& out, bool cut_off = false);

  std::size_t calls() const;  // begun so far

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weir::text::parse
