#include "plan/vllm/step_time.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace weir::plan::vllm {

namespace {
constexpr double kBytes = 2;  // of an activation: BF16
}

// Rows of the captured graph that takes them; as they are where none does.
double StepTime::padded(double rows) const {
  const auto& sizes = run_.engine.graph_sizes;
  const auto it = std::lower_bound(sizes.begin(), sizes.end(), rows);
  return it == sizes.end() ? rows : *it;
}

// What one rank computes alone.
double StepTime::rank_us(const StepShape& shape, double rows) const {
  const KernelProfile& profile = run_.profile;
  const bool works = shape.tokens > 0;
  const auto decode_rows = works ? static_cast<double>(shape.decode_tokens) : 1;
  const double decode_read = works ? shape.decode_attended : 1;
  const double attention = profile.attention.at(static_cast<double>(shape.tokens - shape.decode_tokens),
                                                shape.attended - shape.decode_attended, decode_rows, decode_read);
  double layer = 2 * profile.layer("layernorm", rows) + attention;
  for (const char* name : {"qkv_proj", "qk_norm", "rotary_emb", "o_proj"}) layer += profile.layer(name, rows);
  double dense = 0;
  for (const char* name : {"gate_up_proj", "act_fn", "down_proj"}) dense += profile.layer(name, rows);
  double time = run_.facts.layers * layer + (run_.facts.layers - run_.facts.sparse_layers) * dense;
  if (works) {
    const auto sequences = static_cast<double>(shape.sequences);
    time += profile.layer("embedding", rows) + profile.layer("final_layernorm", rows) +
            profile.layer("lm_head", sequences) + profile.layer("sampler", sequences);
  }
  return time;
}

// One layer's experts on the device that holds most of them, for rows of all ranks.
double StepTime::experts_us(double rows) const {
  const ModelFacts& facts = run_.facts;
  const int parts = run_.engine.expert_parallel ? run_.engine.tp * run_.engine.dp : 1;
  const double local = static_cast<double>(facts.experts) / parts;
  const double chosen = local * (1 - std::pow(1 - static_cast<double>(facts.experts_used) / facts.experts, rows));
  return run_.profile.moe.at(rows / parts, std::max(1.0, chosen));
}

double StepTime::links_s(double mean_rows, double samples) const {
  const ModelFacts& facts = run_.facts;
  const Device& device = run_.device;
  const double bytes = mean_rows * facts.hidden * kBytes;
  double time = 0;
  if (const int ranks = run_.engine.dp; ranks > 1) {
    const double hop = device.link_latency_s + bytes / device.link_bytes_per_s;
    time += facts.sparse_layers * 2.0 * (ranks - 1) * hop;
  }
  if (const int shares = run_.engine.tp; shares > 1) {
    const double hop = device.link_latency_s + bytes / shares / device.link_bytes_per_s;
    const double sums = 2.0 * facts.layers + 1;  // after o and down, and of the embedding
    time += sums * 2.0 * (shares - 1) * hop;
    const double logits = samples * facts.vocab / shares * kBytes;
    time += (shares - 1) * (device.link_latency_s + logits / device.link_bytes_per_s);
  }
  return time;
}

double StepTime::group_step_s(std::span<const StepShape> ranks) const {
  double most = 0;
  for (const StepShape& shape : ranks)
    most = std::max(most, static_cast<double>(std::max<std::int64_t>(1, shape.tokens)));
  const auto& sizes = run_.engine.graph_sizes;
  const bool graph = !sizes.empty() && most <= sizes.back();  // then all ranks run the same
  double slowest = 0, all_rows = 0, samples = 0;
  for (const StepShape& shape : ranks) {
    const double rows = graph ? padded(most) : static_cast<double>(std::max<std::int64_t>(1, shape.tokens));
    slowest = std::max(slowest, rank_us(shape, rows));
    all_rows += rows;
    samples = std::max(samples, static_cast<double>(shape.sequences));
  }
  double kernels = slowest;
  if (run_.facts.sparse_layers > 0) kernels += run_.facts.sparse_layers * experts_us(all_rows);
  return kernels * 1e-6 * load_factor_ + links_s(all_rows / static_cast<double>(ranks.size()), samples);
}

}  // namespace weir::plan::vllm
