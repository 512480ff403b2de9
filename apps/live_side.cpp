#include "apps/live_side.h"

#include <fmt/core.h>

#include <algorithm>

namespace weir::apps {

LiveSide::LiveSide(const LiveModel& model, const plan::CalibratedStep& step, const ServerSetting& setting, int threads)
    : model_(model), step_(step), setting_(setting), threads_(threads) {
  blocks_ = static_cast<std::uint32_t>(std::max<std::int64_t>(kPoolBytes / model.block_bytes, 1));
}

std::vector<std::string> LiveSide::arguments() const {
  std::vector<std::string> out = {model_.path};
  const auto add = [&out](const char* name, auto value) {
    out.emplace_back(name);
    out.push_back(fmt::format("{}", value));
  };
  add("--threads", threads_);
  add("--block-size", model_.block_tokens);
  add("--num-kv-blocks", blocks_);
  add("--max-num-seqs", setting_.sequences);
  add("--max-num-batched-tokens", setting_.chunk);
  add("--max-model-len", kMaxModelLen);
  add("--log-level", "warning");
  if (!setting_.cache) out.emplace_back("--no-prefix-caching");
  return out;
}

Result<plan::sim::SimResult> LiveSide::predict(const driver::WorkloadSpec& spec, double slowdown) const {
  WEIR_TRY(const auto drawn, driver::Workload::draw(spec));
  plan::sim::Workload workload;
  workload.id_tokens = std::max<std::int64_t>(spec.prefix_tokens, 1);
  for (int group = 0; group < spec.prefix_groups; ++group) workload.ids.push_back(static_cast<std::uint64_t>(group));
  for (const auto& request : drawn.requests()) {
    plan::sim::Request r;
    r.arrival_s = request.at_s;
    r.prompt_tokens = request.prompt_tokens();
    r.output_tokens = request.output_tokens;
    r.first_id = static_cast<std::uint32_t>(std::max(request.group, 0));
    r.id_count = request.group >= 0 && request.prefix_tokens > 0 ? 1 : 0;
    workload.requests.push_back(r);
  }
  plan::CalibratedStep step = step_;
  step.set_slowdown(slowdown);
  plan::sim::Cluster cluster;
  auto& instance = cluster.instance;
  instance.scheduler.max_num_seqs = setting_.sequences;
  instance.scheduler.max_num_batched_tokens = setting_.chunk;
  instance.scheduler.max_model_len = kMaxModelLen;
  instance.scheduler.enable_prefix_caching = setting_.cache;
  instance.block_tokens = model_.block_tokens;
  instance.num_blocks = blocks_;
  instance.windows = model_.windows;
  instance.model = &step;
  instance.overheads = {.request_s = step.overheads.request_s * slowdown,
                        .prompt_token_s = step.overheads.prompt_token_s * slowdown,
                        .output_s = step.overheads.output_s * slowdown};
  return plan::sim::simulate(cluster, workload);
}

}  // namespace weir::apps
