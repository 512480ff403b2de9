// `weir plan kv`: fetch the KV of a prefix, or compute it again?
#include <memory>

#include "apps/commands.h"
#include "apps/plan_command.h"
#include "apps/plan_subject_options.h"
#include "plan/kv_transfer.h"

namespace weir::apps {

void add_plan_kv(CLI::App& plan, int& status) {
  const auto [command, query] = add_report<plan::KvQuery>(
      plan, status, "kv", "fetch a prefix's KV from each tier and link, or compute it again?", plan::kv_report);
  add_subject_options(*command, query->subject, HardwareOption::kRequired);
  command->add_option("--prefix", query->prefix, "tokens whose KV lies elsewhere");
  command->add_option("--kv-gb", query->kv_gb, "instead of --prefix: as many tokens as have so many GB of KV")
      ->check(CLI::Range(1e-9, 1e6));
  command->add_option("--suffix", query->suffix, "tokens behind them that are computed in any case");
  command->add_option("--page", query->page_tokens, "tokens of a page");
  command->add_option("--share", query->share, "of peaks and bandwidth that kernels reach");
  command->add_option("--link", query->links, "NAME,gbs=GB/s,latency_us=,depth=; may be repeated");
}

}  // namespace weir::apps
