// `weir plan size`: what a model weighs, what its context costs, and what fits.
#include <memory>

#include "apps/commands.h"
#include "apps/plan_command.h"
#include "apps/plan_subject_options.h"
#include "plan/size_report.h"

namespace weir::apps {

void add_plan_size(CLI::App& plan, int& status) {
  const auto [command, query] = add_report<plan::SizeQuery>(
      plan, status, "size", "parameters, weights, KV per token, and what fits on given devices", plan::size_report);
  add_subject_options(*command, query->subject, HardwareOption::kOptional);
  // Before the report is made: whether a layout was asked for.
  command->parse_complete_callback(
      [command = command, query = query] { query->layout_given = layout_given(*command); });
  command->add_option("--context", query->context, "tokens of a sequence (default: 8192)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--block-size", query->block_tokens, "tokens of a KV block");
  command->add_option("--step-tokens", query->step_tokens, "most tokens computed in one pass");
  command->add_option("--max-num-seqs", query->sequences, "most sequences that sample in one pass");
  command->add_option("--memory-share", query->memory_share, "of a device's memory that serving may use");
}

}  // namespace weir::apps
