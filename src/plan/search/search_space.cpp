#include "plan/search/search_space.h"

#include <algorithm>
#include <tuple>

namespace weir::plan {
namespace {

double gigabytes(double bytes) {
  return bytes / 1e9;
}

}  // namespace

SearchSpace::SearchSpace(const InstanceSource& source, const SearchRequest& request) : request_(request) {
  for (std::size_t precision = 0; precision < request.precisions.size(); ++precision) {
    for (const auto& layout : request.layouts) add(source, layout, precision);
  }
}

void SearchSpace::refuse(const ParallelLayout& layout, std::size_t precision, std::string term, double need,
                         double have, std::string text) {
  refusals_.push_back({layout, request_.precisions[precision], std::move(term), need, have, std::move(text)});
}

void SearchSpace::add(const InstanceSource& source, const ParallelLayout& layout, std::size_t precision) {
  if (layout.devices() > request_.max_devices) {
    return refuse(layout, precision, "devices", layout.devices(), request_.max_devices,
                  fmt::format("needs {} devices of {}", layout.devices(), request_.max_devices));
  }
  auto model = source.make(layout, request_.precisions[precision]);
  if (!model) return refuse(layout, precision, "layout", 0, 0, model.error().message);
  // The smallest workspace there is: passes of the fewest tokens.
  const int rows = *std::min_element(request_.batch_tokens.begin(), request_.batch_tokens.end());
  const DeviceBytes memory = (*model)->memory(rows);
  if (memory.weights > memory.usable) {
    return refuse(layout, precision, "weights", memory.weights, memory.usable,
                  fmt::format("weights of {:.1f} GB on a device with {:.1f} GB usable", gigabytes(memory.weights),
                              gigabytes(memory.usable)));
  }
  if (memory.for_kv() <= 0) {
    return refuse(
        layout, precision, "workspace", memory.workspace, memory.usable - memory.weights,
        fmt::format("workspace of {:.1f} GB where weights leave {:.1f} GB of {:.1f} GB usable",
                    gigabytes(memory.workspace), gigabytes(memory.usable - memory.weights), gigabytes(memory.usable)));
  }
  Candidate candidate{.layout = layout, .precision = precision, .model = std::move(*model)};
  const int block_size = *std::min_element(request_.block_sizes.begin(), request_.block_sizes.end());
  if (most_units(candidate, rows, block_size) == 0) {
    const double need = kv_need_of(candidate, candidate.unit(), block_size);
    return refuse(
        layout, precision, "KV", need, memory.for_kv(),
        fmt::format("KV of {:.1f} GB for {} sequence{} of {:.0f} tokens a device where weights ({:.1f} GB) and "
                    "workspace ({:.1f} GB) leave {:.1f} GB of {:.1f} GB usable",
                    gigabytes(need), layout.pp, layout.pp == 1 ? "" : "s", request_.workload.longest_context(),
                    gigabytes(memory.weights), gigabytes(memory.workspace), gigabytes(memory.for_kv()),
                    gigabytes(memory.usable)));
  }
  candidates_.push_back(std::move(candidate));
}

std::string SearchSpace::nothing_fits() const {
  if (refusals_.empty()) return "there is no layout to try";
  // The one that is nearest to fitting; a layout that the model cannot take is worth naming only if all are such.
  const auto over = [](const Refusal& refusal) {
    return refusal.have > 0 ? refusal.need / refusal.have : refusal.term == "layout" ? 1e300 : 1e200;
  };
  const auto nearest = std::min_element(refusals_.begin(), refusals_.end(), [&](const auto& a, const auto& b) {
    if ((a.term == "devices") != (b.term == "devices")) return b.term == "devices";
    return over(a) < over(b);
  });
  return fmt::format(
      "it does not fit {} device{}: nearest is {} with {}: {}. Give more devices, fewer bits (--weights, "
      "--kv) or a shorter context",
      request_.max_devices, request_.max_devices == 1 ? "" : "s", nearest->layout.name(), nearest->precision.name(),
      nearest->text);
}

std::int64_t SearchSpace::most_units(const Candidate& candidate, int rows, int block_size) const {
  const auto [at, is_new] = candidate.units.try_emplace({rows, block_size}, 0);
  if (!is_new) return at->second;
  const auto fits = [&](std::int64_t units) {
    const double most_rows = rows > 0 ? rows : static_cast<double>(units);
    return kv_need_of(candidate, units * candidate.unit(), block_size) <= candidate.model->memory(most_rows).for_kv();
  };
  std::int64_t bad = std::max<std::int64_t>(1, request_.max_batch / candidate.layout.pp) + 1;
  while (bad - at->second > 1) {
    const std::int64_t middle = at->second + (bad - at->second) / 2;
    (fits(middle) ? at->second : bad) = middle;
  }
  return at->second;
}

double SearchSpace::kv_need_of(const Candidate& candidate, std::int64_t batch, int block_size) const {
  const auto [at, is_new] = candidate.kv.try_emplace(block_size);
  if (is_new) at->second = kv_of_sequence(*candidate.model, request_.workload, block_size);
  return kv_need(at->second, candidate.layout, batch);
}

double SearchSpace::decode_s(const Candidate& candidate, std::int64_t units) const {
  const auto [at, is_new] = candidate.decode_s.try_emplace(units, 0.0);
  if (is_new) {
    ++evaluated_;
    at->second =
        decode_steady_state(*candidate.model, candidate.layout, request_.workload, units * candidate.unit()).tpot_s;
  }
  return at->second;
}

std::vector<PrefillOption> SearchSpace::prefill_options(std::size_t precision) const {
  std::vector<PrefillOption> all, kept;
  for (std::size_t index = 0; index < candidates_.size(); ++index) {
    const Candidate& candidate = candidates_[index];
    const int devices = candidate.layout.devices();
    if (candidate.precision != precision || devices >= request_.max_devices) continue;
    for (const int block_size : request_.block_sizes) {
      for (const int tokens : request_.batch_tokens) {
        const auto state = prefill_state(*candidate.model, candidate.layout, request_.workload, tokens, block_size);
        ++evaluated_;
        const double prompts = state.prompts / candidate.layout.dp * candidate.layout.pp;
        if (prompts * candidate.model->kv_bytes(request_.workload.input_tokens, block_size) >
            candidate.model->memory(tokens).for_kv())
          continue;
        all.push_back({index, tokens, block_size, devices, state.service_s, state.requests_s});
      }
    }
  }
  const auto beats = [](const PrefillOption& a, const PrefillOption& b) {
    return a.block_size == b.block_size && a.devices <= b.devices && a.service_s <= b.service_s &&
           a.requests_s / a.devices >= b.requests_s / b.devices;
  };
  // Equals are beaten by the first of them only.
  for (std::size_t i = 0; i < all.size(); ++i) {
    bool beaten = false;
    for (std::size_t k = 0; k < all.size() && !beaten; ++k)
      beaten = k != i && beats(all[k], all[i]) && (k < i || !beats(all[i], all[k]));
    if (!beaten) kept.push_back(all[i]);
  }
  return kept;
}

double SearchSpace::handover_s(const InstanceModel& model, int from_devices, int to_devices, int all_devices) const {
  const double gbs = all_devices <= request_.links.domain ? request_.links.domain_gbs : request_.links.network_gbs;
  const double bytes = model.handover_bytes(request_.workload.input_tokens);
  if (bytes == 0) return 0;
  if (gbs <= 0) return 1e30;
  return bytes / (1e9 * gbs * std::min(from_devices, to_devices));
}

std::vector<std::int64_t> batch_ladder(std::int64_t most) {
  std::vector<std::int64_t> ladder;
  for (std::int64_t units = 1; units < most; units = std::max(units + 1, units * 5 / 4)) ladder.push_back(units);
  if (most > 0) ladder.push_back(most);
  return ladder;
}

double request_rate(const SearchWorkload& workload, std::int64_t batch, double tpot_s) {
  return static_cast<double>(batch) / ((workload.output_tokens - 1) * tpot_s);
}

double output_rate(const SearchWorkload& workload, std::int64_t batch, double tpot_s) {
  return request_rate(workload, batch, tpot_s) * workload.output_tokens;
}

std::vector<DecodeOption> decoder_front(std::vector<DecodeOption> options) {
  const auto key = [](const DecodeOption& option) { return std::tuple(option.block_size, option.devices); };
  std::stable_sort(options.begin(), options.end(), [&](const auto& a, const auto& b) {
    if (key(a) != key(b)) return key(a) < key(b);
    if (a.tpot_s != b.tpot_s) return a.tpot_s < b.tpot_s;
    return a.requests_s > b.requests_s;
  });
  std::vector<DecodeOption> kept;
  for (const auto& option : options) {
    const bool beaten = !kept.empty() && key(kept.back()) == key(option) && kept.back().requests_s >= option.requests_s;
    if (!beaten) kept.push_back(option);
  }
  return kept;
}

}  // namespace weir::plan
