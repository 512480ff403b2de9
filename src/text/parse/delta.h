// What a piece of a reply adds to its parts.
#pragma once

#include <string>
#include <vector>

namespace weir::text::parse {

struct CallDelta {
  std::size_t index = 0;  // of the call in the reply
  bool first = false;     // the call begins: it has its name, and the model's own id if it gave one
  std::string name, id;
  std::string arguments;  // goes on with what came before; all together JSON text
};

// Adds what comes after `calls`.
void append_calls(std::vector<CallDelta>& calls, std::vector<CallDelta>&& next);

struct Delta {
  std::string content, reasoning;
  std::vector<CallDelta> calls;

  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
  // Adds what comes after this.
  void append(Delta&& next);
};

}  // namespace weir::text::parse
