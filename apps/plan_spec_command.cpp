// `weir plan spec`: what speculative decoding is worth, by batch and draft length.
#include <memory>

#include "apps/commands.h"
#include "apps/plan_command.h"
#include "apps/plan_subject_options.h"
#include "plan/speculation.h"

namespace weir::apps {

void add_plan_spec(CLI::App& plan, int& status) {
  const auto [command, options] = add_report<plan::SpecQuery>(
      plan, status, "spec", "tokens per pass, speed-up against batch, and the best draft length", plan::spec_report);
  auto& query = *options;
  add_subject_options(*command, query.subject, HardwareOption::kOptional);
  command->get_option("model")->required(false);
  command
      ->add_option("--acceptance", query.acceptance,
                   "of draft 1, 2, ... when all before it were accepted; the last for all further")
      ->delimiter(',');
  command->add_option("--drafts", query.most_drafts, "most drafted tokens to consider");
  command->add_option("--draft", query.draft, "the model that drafts");
  command->add_option("--draft-share", query.draft_share, "instead: cost of a drafted token, of a pass of the target");
  command->add_flag("--draft-at-once", query.draft_at_once, "all drafts come from one pass of the draft");
  command->add_option("--pass-ms", query.pass_times,
                      "measured passes ROWS:MILLISECONDS,..., instead of model and hardware");
  command->add_option("--batch", query.batches, "batches to consider, comma between")->delimiter(',');
  command->add_option("--context", query.context, "tokens of each sequence");
}

}  // namespace weir::apps
