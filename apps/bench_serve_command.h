// `weir bench serve`, added to `weir bench`.
#pragma once

#include <CLI/CLI.hpp>

namespace weir::apps {

void add_bench_serve(CLI::App& bench, int& status);

}  // namespace weir::apps
