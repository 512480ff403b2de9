// The log: one line per event on standard error, written by a background thread (spdlog async), so that nobody waits
// for a terminal.
#pragma once

#include <spdlog/spdlog.h>

#include <memory>
#include <string_view>

#include "base/result.h"

namespace weir {

// Lines as the log shows them. What a line quotes (paths of requests, names in files) may be anybody's, so control
// characters are escaped here, for all of them.
std::unique_ptr<spdlog::formatter> make_log_formatter();

// Call once from main. Levels: trace, debug, info, warning, error, off.
Status init_log(std::string_view level);

// Writes out what is queued and stops the background thread. Call before main returns.
void shutdown_log();

}  // namespace weir
