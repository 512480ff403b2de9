// `weir plan size`: what a model weighs, what its context costs, and what fits.
#include <memory>

#include "apps/commands.h"
#include "apps/plan_command.h"
#include "apps/plan_subject_options.h"
#include "plan/size_report.h"

namespace weir::apps {

void add_plan_size(CLI::App& plan, int& status) {
  struct Options {
    plan::SizeQuery query;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = plan.add_subcommand("size", "parameters, weights, KV per token, and what fits on given devices");
  add_subject_options(*command, options->query.subject, HardwareOption::kOptional);
  command->add_option("--context", options->query.context, "tokens of a sequence (default: 8192)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--block-size", options->query.block_tokens, "tokens of a KV block");
  command->add_option("--step-tokens", options->query.step_tokens, "most tokens computed in one pass");
  command->add_option("--max-num-seqs", options->query.sequences, "most sequences that sample in one pass");
  command->add_option("--memory-share", options->query.memory_share, "of a device's memory that serving may use");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, command, &status] {
    options->query.layout_given = layout_given(*command);
    status = print_report(plan::size_report(options->query), options->json);
  });
}

}  // namespace weir::apps
