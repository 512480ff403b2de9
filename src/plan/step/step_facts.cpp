#include "plan/step/step_facts.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "plan/operators.h"

namespace weir::plan {
namespace {

// A number and the letter after it ("397B", "A17B") that begins at `i`; moves past it.
std::optional<double> count_at(const std::string& text, std::size_t& i, char unit) {
  std::size_t end = i;
  while (end < text.size() && (std::isdigit(static_cast<unsigned char>(text[end])) != 0 || text[end] == '.')) ++end;
  const bool ends = end + 1 >= text.size() || std::isalnum(static_cast<unsigned char>(text[end + 1])) == 0;
  if (end == i || end >= text.size() || end - i > 8 || std::toupper(text[end]) != unit || !ends) return std::nullopt;
  const double value = std::strtod(text.substr(i, end - i).c_str(), nullptr);
  i = end + 1;
  if (!(value > 0) || value > 1e5) return std::nullopt;
  return value;
}

struct NamedCounts {
  double total = 0, active = 0;
};

NamedCounts counts_in(const std::string& name) {
  NamedCounts counts;
  for (std::size_t i = 0; i < name.size();) {
    const bool starts = i == 0 || std::isalnum(static_cast<unsigned char>(name[i - 1])) == 0;
    if (!starts) {
      ++i;
      continue;
    }
    std::size_t at = i;
    if (std::toupper(name[i]) == 'A') {
      at = i + 1;
      if (const auto active = count_at(name, at, 'B')) {
        counts.active = *active * 1e9;
        i = at;
        continue;
      }
    }
    at = i;
    if (const auto total = count_at(name, at, 'B')) {
      counts.total = *total * 1e9;
      i = at;
    } else if (const auto trillions = count_at(name, at = i, 'T')) {
      counts.total = *trillions * 1e12;
      i = at;
    } else {
      ++i;
    }
  }
  return counts;
}

}  // namespace

StepFacts facts_of(const ModelCard& card) {
  const load::ModelSpec& spec = card.spec;
  StepFacts facts;
  facts.name = card.name;
  facts.layers = spec.layers;
  facts.hidden = spec.hidden;
  facts.heads = spec.heads;
  facts.kv_heads = std::max(1, spec.kv_heads);
  bool head = false;
  double embedding = 0;
  for (const CardTensor& tensor : card.tensors) {
    const double elements = static_cast<double>(tensor.elements());
    switch (tensor.role) {
      case TensorRole::kAttention:
        facts.attention_weights += elements;
        break;
      case TensorRole::kFfn:
      case TensorRole::kSharedExpert:
        facts.ffn_weights += elements;
        break;
      case TensorRole::kExperts:
        facts.expert_weights += elements;
        break;
      case TensorRole::kHead:
        facts.head_weights += elements, head = true;
        break;
      case TensorRole::kEmbedding:
        embedding += elements;
        break;
      case TensorRole::kRouter:
      case TensorRole::kNorm:
        break;
    }
  }
  if (!head) facts.head_weights = embedding > 0 ? embedding : static_cast<double>(spec.hidden) * spec.vocab;
  for (const load::LayerSpec& layer : spec.layer) {
    if (layer.sparse) facts.sparse_layers += 1;
    if (layer.mixer == load::Mixer::kDelta) continue;
    if (layer.mixer == load::Mixer::kLatent) facts.latent = true;
    if (layer.window > 0) {
      facts.window = (facts.window * facts.window_layers + layer.window) / (facts.window_layers + 1);
      facts.window_layers += 1;
    } else {
      facts.full_layers += 1;
    }
  }
  facts.experts = spec.experts.count;
  facts.experts_used = spec.experts.used;
  const load::Mixer mixer = facts.latent ? load::Mixer::kLatent : load::Mixer::kAttention;
  const AttentionCost expanded = attention_cost(spec, mixer, spec.heads, facts.kv_heads, false);
  facts.kv_elements = expanded.kept;
  facts.prefill_pair = expanded.pair;
  if (facts.latent) {
    facts.kv_heads = 1;
    facts.decode_pair = attention_cost(spec, mixer, spec.heads, 1, true).pair;
  }
  return facts;
}

// What models of our time look like: 12.5 h^2 weights per layer and h = 100 layers give P = h^3 / 8; heads of 128, 8 of
// keys and values, a vocabulary of 150,000; of a mixture, 8 experts per token that are 65 % of what a token meets. The
// shapes of Llama 3 8B and 70B, Qwen3 32B and 235B-A22B come out within a quarter.
std::optional<StepFacts> facts_from_name(const std::string& name) {
  if (name.size() > 1000) return std::nullopt;
  const NamedCounts counts = counts_in(name);
  if (counts.total <= 0 || counts.active > counts.total) return std::nullopt;
  const double active = counts.active > 0 ? counts.active : counts.total;
  StepFacts facts;
  facts.name = name;
  facts.estimated = true;
  facts.hidden = std::max(128.0, 128 * std::round(std::cbrt(8 * active) / 128));
  facts.layers = std::max(4.0, std::round(facts.hidden / (counts.active > 0 ? 64 : 90)));
  facts.full_layers = facts.layers;
  facts.kv_heads = 8;
  facts.kv_elements = 2.0 * 8 * 128;
  facts.prefill_pair = 2 * facts.hidden;
  facts.head_weights = std::min(150'000.0 * facts.hidden, 0.2 * active);
  facts.attention_weights = std::min(facts.layers * 2.3 * facts.hidden * facts.hidden, 0.4 * active);
  const double rest = active - facts.head_weights - facts.attention_weights;
  if (counts.active > 0) {
    const double used = std::min(rest, 0.65 * active);
    facts.sparse_layers = facts.layers;
    facts.experts_used = 8;
    facts.ffn_weights = rest - used;
    facts.expert_weights = counts.total - (active - used);
    facts.experts = 8 * facts.expert_weights / used;
  } else {
    facts.ffn_weights = rest;
  }
  return facts;
}

std::optional<StepFacts> facts_for(const std::string& model) {
  // Only names: a row of a table must not make the program read a file of this machine.
  const bool path =
      model.empty() || model.front() == '.' || model.front() == '/' || model.find("..") != std::string::npos;
  if (path || model.size() > 200) return std::nullopt;
  if (const auto card = read_model_card(model)) return facts_of(*card);
  return facts_from_name(model);
}

}  // namespace weir::plan
