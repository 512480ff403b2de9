// The commands of weir. Each returns the exit status: 0, 1 when something failed while running, 2 for what a flag or a
// file did.
#pragma once

#include "apps/options.h"

namespace weir::apps {

int serve(const ServeOptions& options);
int run(const RunOptions& options);
int chat(const RunOptions& options);
int inspect(const InspectCommandOptions& options);
int perplexity(const PerplexityOptions& options);
int quantize(const QuantizeOptions& options);
int bench_throughput(const BenchOptions& options);
int bench_machine(const MachineOptions& options);
int bench_kernels(const MachineOptions& machine, const KernelOptions& options);

// Prints "weir: message" to standard error; returns 2.
int fail_with(const Error& error);

}  // namespace weir::apps
