#include <fmt/core.h>
#include <unistd.h>

#include "apps/commands.h"
#include "base/printable.h"
#include "quantise/quantise.h"

namespace weir::apps {

int quantize(const QuantizeOptions& options) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto progress = [terminal](std::int64_t number, std::int64_t count, const std::string& name) {
    if (terminal) fmt::print(stderr, "\r\x1b[K{}/{} {}", number, count, printable(name));
  };
  const auto done = quantise::quantise(
      {.in = options.in, .out = options.out, .kind = options.type, .threads = options.threads}, progress);
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  if (!done) return fail_with(done.error());
  fmt::print("{}: {} tensors, {:.1f} MB of weights as {:.1f} MB\n", printable(options.out), done->tensors,
             static_cast<double>(done->bytes_in) / 1e6, static_cast<double>(done->bytes_out) / 1e6);
  if (!done->note.empty()) fmt::print(stderr, "{}\n", done->note);
  return 0;
}

}  // namespace weir::apps
