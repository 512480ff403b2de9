// What the grammars of tool calls share: where they read from, where calls go, and the pieces they are made of.
//
// A grammar begins after a marker that opens its notation. It takes what it recognises, reports calls as soon as their
// names are sure, and streams arguments. It gives true when a call has been read and its notation ends here, and false
// when what comes next does not belong to it; in both cases what it has taken and not settled is plain text.
#pragma once

#include "text/parse/delta.h"
#include "text/parse/json_scanner.h"
#include "text/parse/literals.h"
#include "text/parse/source.h"

namespace weir::text::parse {

class Calls {
 public:
  // `whole`: a call comes out once its arguments are complete.
  Calls(Source& source, const ToolSchemas& schemas, bool whole) : in(source), schemas(schemas), whole_(whole) {}

  // Where reports go from now on.
  void into(Delta& out) { out_ = &out; }

  // A call begins; all that has been taken belonged to it.
  void begin(std::string name, std::string id = {});
  // More of its arguments' JSON text.
  void arguments(std::string_view json);
  void argument_byte(char c) { arguments({&c, 1}); }
  std::size_t count() const { return count_; }
  // What has been read of a notation is all that there is. A call that is not whole, where it must be, was none: its
  // text becomes content, and this gives true.
  bool give_up();
  // The reply ends because it may not go on: a call is as whole as it can be.
  void cut_off() { cut_off_ = true; }

  Source& in;
  const ToolSchemas& schemas;

 private:
  void end();

  Delta* out_ = nullptr;
  std::size_t count_ = 0;
  bool whole_, cut_off_ = false;
  // The call that is not whole yet.
  bool open_ = false, broken_ = false;
  CallDelta call_;
  JsonScanner scanner_;  // of its arguments
  std::string text_;     // all that has been read of it
};

// A JSON string, decoded. nullopt: none, or it never ends.
Task<std::optional<std::string>> take_json_string(Source& in);
// A JSON value as it stands, but for control characters in strings, which get escaped. nullopt: none.
Task<std::optional<std::string>> take_json(Source& in);
// Whether a JSON object begins here, white space aside: {" or {}.
Task<bool> object_ahead(Source& in);
// Streams a JSON object into the arguments of the current call. False: it stops being JSON; what came before has been
// streamed.
Task<bool> stream_object(Calls& calls);

// How a call is written as one JSON object.
enum class JsonCall {
  kNamed,      // {"name": ..., "arguments": {...}}, with all the names that the two keys go by
  kNamedFull,  // the same, and without arguments it is no call
  kKeyed,      // {"get_weather": {...}}
};
Task<bool> take_json_call(Calls& calls, JsonCall form);

// name(key=value, ...), values as Python's literals.
Task<bool> take_python_call(Calls& calls);

}  // namespace weir::text::parse
