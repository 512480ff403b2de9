// `weir plan roofline`: what bounds each operator, and what no implementation can beat.
#include <fstream>
#include <memory>

#include "apps/commands.h"
#include "apps/plan_command.h"
#include "apps/plan_subject_options.h"
#include "plan/roofline.h"

namespace weir::apps {
namespace {

struct Options {
  plan::RooflineQuery query;
  std::string svg;
};

Result<plan::Report> roofline(const Options& options) {
  WEIR_TRY(auto result, plan::roofline(options.query));
  if (!options.svg.empty()) {
    std::ofstream file(options.svg, std::ios::binary);
    file << result.svg;
    file.close();
    if (!file) return fail(ErrorCode::kInvalidArgument, "--svg: {} cannot be written", options.svg);
  }
  return std::move(result.report);
}

}  // namespace

void add_plan_roofline(CLI::App& plan, int& status) {
  const auto [command, options] =
      add_report<Options>(plan, status, "roofline",
                          "arithmetic intensity of prefill and decoding, what bounds them, and by how much", roofline);
  add_subject_options(*command, options->query.subject, HardwareOption::kRequired);
  command->add_option("--batch", options->query.batch, "sequences that decode together");
  command->add_option("--context", options->query.context, "tokens of each of them");
  command->add_option("--prompt", options->query.prompt, "tokens of the prompt that is prefilled");
  command->add_option("--cached", options->query.cached, "of the prompt, found in the prefix cache: 0 to below 1");
  command->add_option("--svg", options->svg, "write the plot to a file");
}

}  // namespace weir::apps
