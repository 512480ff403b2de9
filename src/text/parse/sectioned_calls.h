// SectionedCalls: notations whose calls each begin with a marker of their own, between markers around all of them.
#pragma once

#include "text/parse/notation.h"

namespace weir::text::parse {

class SectionedCalls : public ToolNotation {
 public:
  // `bare`: calls without a section around them are calls, too.
  SectionedCalls(std::vector<std::string> section_opens, const std::string& call_open,
                 std::vector<std::string> section_closes, bool bare = false)
      : ToolNotation(all_opens(section_opens, call_open, bare)),
        bare_open_(bare ? static_cast<int>(section_opens.size()) : -1),
        steps_(all_steps(call_open, std::move(section_closes))) {}

  std::vector<std::string> inner_markers() const override { return steps_.texts(); }
  Task<bool> read(Calls& calls, int open) const override;

 protected:
  // One call, after the marker that opens it.
  virtual Task<bool> one(Calls& calls) const = 0;

 private:
  static std::vector<std::string> all_opens(std::vector<std::string> opens, const std::string& call_open, bool bare) {
    if (bare) opens.push_back(call_open);
    return opens;
  }
  static Markers all_steps(const std::string& call_open, std::vector<std::string> closes) {
    closes.insert(closes.begin(), call_open);
    return Markers(std::move(closes));
  }

  int bare_open_;  // of opens(), the one that opens a call; -1: none
  Markers steps_;  // the marker that opens a call, then those that close the section
};

}  // namespace weir::text::parse
