// `weir plan kv`: fetch the KV of a prefix, or compute it again?
#include <memory>

#include "apps/commands.h"
#include "apps/plan_command.h"
#include "apps/plan_subject_options.h"
#include "plan/kv_transfer.h"

namespace weir::apps {

void add_plan_kv(CLI::App& plan, int& status) {
  struct Options {
    plan::KvQuery query;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  auto* command = plan.add_subcommand("kv", "fetch a prefix's KV from each tier and link, or compute it again?");
  add_subject_options(*command, options->query.subject, HardwareOption::kRequired);
  command->add_option("--prefix", options->query.prefix, "tokens whose KV lies elsewhere");
  command->add_option("--kv-gb", options->query.kv_gb, "instead of --prefix: as many tokens as have so many GB of KV")
      ->check(CLI::Range(1e-9, 1e6));
  command->add_option("--suffix", options->query.suffix, "tokens behind them that are computed in any case");
  command->add_option("--page", options->query.page_tokens, "tokens of a page");
  command->add_option("--share", options->query.share, "of peaks and bandwidth that kernels reach");
  command->add_option("--link", options->query.links, "NAME,gbs=GB/s,latency_us=,depth=; may be repeated");
  command->add_flag("--json", options->json, "print JSON");
  command->callback([options, &status] { status = print_report(plan::kv_report(options->query), options->json); });
}

}  // namespace weir::apps
