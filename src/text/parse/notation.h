// ToolNotation: one way of writing tool calls. There is a file for each family of them; which model uses which is in
// formats.cpp. Immutable, so all replies share one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/parse/calls.h"

namespace weir::text::parse {

class ToolNotation {
 public:
  explicit ToolNotation(std::vector<std::string> opens) : opens_(std::move(opens)) {}
  virtual ~ToolNotation() = default;

  // Any of them in a reply's text begins calls.
  const std::vector<std::string>& opens() const { return opens_; }
  // At the start of a reply, one of these bytes may begin calls without a marker.
  virtual std::string_view bare_starts() const { return {}; }
  // Beginnings of calls that end a reasoning which nothing else has ended: models forget that now and then. Longer than
  // a marker where reasoning may speak of one.
  virtual std::vector<std::string> ends_of_reasoning() const { return {}; }
  // The markers inside calls.
  virtual std::vector<std::string> inner_markers() const { return {}; }

  // Reads calls after opens()[open] has been taken; -1: nothing has been taken, the calls are bare.
  virtual Task<bool> read(Calls& calls, int open) const = 0;

 private:
  std::vector<std::string> opens_;
};

using NotationPtr = std::shared_ptr<const ToolNotation>;

// JSON objects, one or several, in a list or one after the other.
struct JsonNotation {
  std::vector<std::string> opens;
  std::vector<std::string> closes;  // none: the calls end where their JSON does
  JsonCall form = JsonCall::kNamed;
  bool bare = false;    // without a marker at the start of a reply
  bool python = false;  // Python calls instead of objects, too
};
NotationPtr make_notation(JsonNotation notation);

// Calls as Python writes them: in a list, or one a line.
struct PythonNotation {
  std::vector<std::string> opens;
  std::vector<std::string> closes;
  bool bare = false;
};
NotationPtr make_notation(PythonNotation notation);

// A name between tags of its own, then JSON.
NotationPtr deepseek_notation();  // V3, R1 and V3.1
NotationPtr kimi_notation();
NotationPtr mistral_notation();
NotationPtr first_line_notation();    // GLM-4
NotationPtr function_tag_notation();  // <function=name>{...}</function>
NotationPtr solar_notation();         // Solar Open
NotationPtr recipient_notation();     // functionary 3.2

// Tags for the call and for each parameter.
struct TagNotation {
  std::vector<std::string> section_opens;  // none: calls stand alone
  std::vector<std::string> section_closes;
  std::string call_open, name_end, call_close;  // <function=, >, </function>
  std::string key_open, key_end, value_close;   // <parameter=, >, </parameter>
  bool bare_calls = false;                      // models leave the section's tags out now and then
  bool attributes = false;                      // the name stands in an attribute, perhaps among others
  bool own_lines = true;                        // a line break beside a value's tags belongs to them
  std::string object_open, object_close;        // around all arguments as one JSON object; "": never so
};
NotationPtr make_notation(TagNotation notation);
NotationPtr glm_notation();
NotationPtr hunyuan_notation();  // Hy3: GLM's tags in a section, all of them with or without a suffix

// Elements named like the parameters, and nested like their values: MiniMax M3.
NotationPtr element_notation();

// call:name{key:value} with a string quote of its own.
struct BraceNotation {
  std::string open, close, quote;
};
NotationPtr make_notation(BraceNotation notation);

}  // namespace weir::text::parse
