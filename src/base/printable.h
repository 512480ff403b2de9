// Text of others (a file's, a client's, a model's) for the log or a terminal, where its control characters could forge
// lines, hide what was there or do whatever the terminal's escape sequences can do.
#pragma once

#include <string>
#include <string_view>

namespace weir {

// Control characters (C0, DEL, C1), the separators and direction marks that change how a line is laid out, and bytes
// that are no UTF-8 become \n, \t, \r or \x1b (a byte each). `kept`: ASCII control characters that stay as they are.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace weir
