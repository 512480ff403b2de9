#include "plan/size_report.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "load/kv_streams.h"

namespace weir::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxAutoTp = 64;

struct Asked {
  const SizeQuery& query;
  Subject subject;
  std::int64_t context = 0;

  MemoryOptions memory_options(const ParallelLayout& layout) const {
    return {.layout = layout,
            .types = subject.types,
            .kv_bits = subject.kv_bits,
            .block_tokens = query.block_tokens,
            .step_tokens = query.step_tokens,
            .sequences = query.sequences,
            .memory_share = query.memory_share};
  }
};

std::string role_name(TensorRole role) {
  switch (role) {
    case TensorRole::kEmbedding:
      return "embedding";
    case TensorRole::kAttention:
      return "attention";
    case TensorRole::kFfn:
      return "ffn";
    case TensorRole::kExperts:
      return "experts";
    case TensorRole::kSharedExpert:
      return "shared_expert";
    case TensorRole::kRouter:
      return "router";
    case TensorRole::kNorm:
      return "norms";
    case TensorRole::kHead:
      return "head";
  }
  return "";
}

void add_model(const Asked& asked, Report& report) {
  const ModelCard& card = asked.subject.card;
  const WeightTypes& types = asked.subject.types;
  const bool as_files = asked.query.subject.weights.empty() && card.exact_bytes;
  const double weights = as_files ? static_cast<double>(card.weight_bytes) : card.bytes_as(types);
  Json& json = report.json["model"];
  json["name"] = card.name;
  json["parameters"] = card.parameters();
  json["active_parameters"] = card.active_parameters();
  json["weight_type"] = types.name;
  json["weight_bytes"] = weights;
  json["counted_from_files"] = as_files;
  report.text += fmt::format("{}: {:.2f} B parameters, {:.2f} B meet a token{}\n", card.name, card.parameters() / 1e9,
                             card.active_parameters() / 1e9,
                             card.spec.tied_embeddings ? " (the head is the embedding table)" : "");
  if (!card.note.empty()) {
    json["note"] = card.note;
    report.text += fmt::format("  {}\n", card.note);
  }
  report.text += fmt::format("weights as {}: {}{}\n", types.name, decimal_bytes(weights),
                             as_files ? " (counted from its files)" : "");
  std::map<TensorRole, std::pair<double, double>> by_role;
  for (const CardTensor& tensor : card.tensors) {
    by_role[tensor.role].first += static_cast<double>(tensor.elements());
    by_role[tensor.role].second += static_cast<double>(tensor.elements()) * types.bits(tensor) / 8;
  }
  for (const auto& [role, sums] : by_role) {
    json["parts"][role_name(role)] = {{"parameters", sums.first}, {"bytes", sums.second}};
    report.text +=
        fmt::format("  {:<14} {:>9.3f} B  {:>9}\n", role_name(role), sums.first / 1e9, decimal_bytes(sums.second));
  }
  report.text += "in other types:";
  for (const char* name : {"bf16", "fp8", "int4", "nvfp4", "q4_k_m"}) {
    const auto other = parse_weight_types(name);
    if (!other) continue;
    const double bytes = card.bytes_as(*other);
    json["bytes_as"][name] = bytes;
    report.text += fmt::format(" {} {},", name, decimal_bytes(bytes));
  }
  report.text.back() = '\n';
}

// The arithmetic, and why a formula that doubles it is wrong.
std::string kv_arithmetic(const ModelCard& card, const KvCost& cost, double kv_bits) {
  const load::ModelSpec& spec = card.spec;
  int full = 0, windowed = 0, latent = 0;
  for (const load::LayerSpec& layer : spec.layer) {
    if (layer.mixer == load::Mixer::kLatent) ++latent;
    if (layer.mixer == load::Mixer::kAttention) ++(layer.window > 0 ? windowed : full);
  }
  std::string text;
  const double bytes = kv_bits / 8;
  if (full > 0) {
    text += fmt::format("  2 (key and value) x {} layers x {} KV heads x {} x {:g} bytes = {} bytes\n", full,
                        spec.kv_heads, spec.head_dim, bytes, grouped(cost.full));
  }
  if (windowed > 0) {
    text += fmt::format(
        "  2 (key and value) x {} layers x {} KV heads x {} x {:g} bytes = {} bytes, of the window's tokens only\n",
        windowed, spec.kv_heads, spec.head_dim, bytes, grouped(cost.windowed));
  }
  if (latent > 0) {
    text += fmt::format("  {} layers x (latent {} + rotated key {}) x {:g} bytes = {} bytes\n", latent,
                        spec.latent.rank, spec.latent.rope_dim, bytes, grouped(cost.latent));
    text +=
        "  no factor 2: keys and values are made from the same latent, which is kept once; and no factor of heads\n";
  }
  if (cost.indexer > 0) text += fmt::format("  and the indexer's keys: {} bytes\n", grouped(cost.indexer));
  if (full + windowed > 0) {
    const double doubled = 2 * (cost.full + cost.windowed);
    text += fmt::format(
        "  the factor 2 is keys and values, and stands once. Formulas that come to {} bytes count it twice: before a "
        "size\n"
        "  per token that already holds both, or once more for the {:g} bytes of an element\n",
        grouped(doubled), bytes);
    if (spec.kv_heads < spec.heads) {
      text += fmt::format("  and by the {} query heads it would be {} times as much: those keep nothing\n", spec.heads,
                          spec.heads / spec.kv_heads);
    }
  }
  return text;
}

void add_kv(const Asked& asked, Report& report) {
  const ModelCard& card = asked.subject.card;
  const KvCost cost = kv_cost(card, asked.subject.kv_bits);
  Json& json = report.json["kv"];
  json["kind"] = cost.kind;
  json["type"] = asked.subject.kv_name;
  json["bytes_per_token"] = cost.per_token();
  json["bytes_per_token_beyond_windows"] = cost.per_token_beyond_windows();
  json["parts"] = {
      {"full", cost.full}, {"windowed", cost.windowed}, {"latent", cost.latent}, {"indexer", cost.indexer}};
  json["state_bytes_per_sequence"] = cost.state_bytes;
  report.text += fmt::format("\nKV in {}: {} bytes per token = {} ({})\n", asked.subject.kv_name,
                             grouped(cost.per_token()), binary_bytes(cost.per_token()), cost.kind);
  report.text += kv_arithmetic(card, cost, asked.subject.kv_bits);
  if (cost.windowed > 0)
    report.text += fmt::format("  once the windows have passed, a token more costs {} bytes\n",
                               grouped(cost.per_token_beyond_windows()));
  if (cost.state_bytes > 0)
    report.text +=
        fmt::format("  recurrent state: {} a sequence, whatever its length\n", decimal_bytes(cost.state_bytes));
}

void add_waste(const Asked& asked, Report& report) {
  report.text += fmt::format(
      "\nblocks of a sequence of about {} tokens\n  tokens a block   bytes a block   unused in mean\n", asked.context);
  for (const int tokens : {1, 8, 16, 32, 64, 128, 256, 512}) {
    const KvWaste waste = internal_waste(asked.subject.card, asked.subject.kv_bits, tokens, asked.context);
    const double block = kv_cost(asked.subject.card, asked.subject.kv_bits).per_token() * tokens;
    report.json["blocks"].push_back({{"block_tokens", tokens},
                                     {"bytes", block},
                                     {"held_bytes", waste.held_bytes},
                                     {"used_bytes", waste.used_bytes},
                                     {"waste", waste.waste()}});
    report.text += fmt::format("  {:>14}   {:>13}   {:>6.2f} %\n", tokens, decimal_bytes(block), 100 * waste.waste());
  }
}

Json memory_json(const ParallelLayout& layout, const MemoryUse& memory, std::int64_t context) {
  const WeightTerms& w = memory.weights;
  return {{"layout", layout.name()},
          {"devices", layout.devices()},
          {"memory_bytes", memory.memory_bytes},
          {"usable_bytes", memory.usable_bytes},
          {"weight_bytes", w.total()},
          {"weights",
           {{"embedding", w.embedding},
            {"attention", w.attention},
            {"ffn", w.ffn},
            {"experts", w.experts},
            {"shared_expert", w.shared},
            {"head", w.head},
            {"other", w.other}}},
          {"workspace_bytes", memory.workspace_bytes},
          {"reserved_bytes", memory.reserved_bytes},
          {"kv_pool_bytes", std::max(0.0, memory.kv_pool_bytes)},
          {"block_bytes", memory.block_bytes},
          {"blocks", memory.blocks},
          {"kv_bytes_per_token", memory.kv_bytes_per_token},
          {"state_bytes_per_sequence", memory.state_bytes_per_sequence},
          {"longest_context", memory.longest_context()},
          {"context", context},
          {"sequences", memory.sequences_of(context)},
          {"kv_tokens", memory.kv_tokens(context)}};
}

// What fits by tensor parallelism (and as many-fold EP for experts), whatever was asked.
void add_table(const Asked& asked, Report& report) {
  const Subject& subject = asked.subject;
  report.text += fmt::format(
      "\non {} ({} each, {:.0f} % used)\n  layout           weights   workspace    KV pool   longest context   "
      "sequences of {}\n",
      subject.hardware.name, decimal_bytes(subject.hardware.memory_bytes), 100 * asked.query.memory_share,
      asked.context);
  for (int tp = 1; tp <= std::min(subject.hardware.domain, 16); tp *= 2) {
    const ParallelLayout layout{
        .tp = tp, .ep = subject.card.spec.experts.count % tp == 0 && subject.card.spec.experts.count > 0 ? tp : 1};
    const auto memory = memory_use(subject.card, subject.hardware, asked.memory_options(layout));
    if (!memory) continue;
    report.json["layouts"].push_back(memory_json(layout, *memory, asked.context));
    const bool fits = memory->sequences_of(1) > 0;
    report.text += fmt::format("  {:<14} {:>9} {:>11} {:>10}   {:>15}   {:>9}\n", layout.name(),
                               decimal_bytes(memory->weights.total()), decimal_bytes(memory->workspace_bytes),
                               fits ? decimal_bytes(memory->kv_pool_bytes) : "no room",
                               fits ? grouped(static_cast<double>(memory->longest_context())) : "-",
                               fits ? grouped(static_cast<double>(memory->sequences_of(asked.context))) : "-");
  }
}

Result<ParallelLayout> layout_for(const Asked& asked) {
  if (asked.query.layout_given) return asked.subject.layout;
  ParallelLayout layout;
  for (layout.tp = 1; layout.tp <= kMaxAutoTp; layout.tp *= 2) {
    const auto memory = memory_use(asked.subject.card, asked.subject.hardware, asked.memory_options(layout));
    if (memory && memory->sequences_of(asked.context) >= 1) return layout;
  }
  return ParallelLayout{};  // the refusal says why
}

Status add_fit(const Asked& asked, Report& report) {
  const Subject& subject = asked.subject;
  WEIR_TRY(const ParallelLayout layout, layout_for(asked));
  const MemoryOptions options = asked.memory_options(layout);
  WEIR_TRY(const auto memory, memory_use(subject.card, subject.hardware, options));
  WEIR_RETURN_IF_ERROR(check_fits(subject.card, subject.hardware, options, memory, asked.context));
  report.json["hardware"] = {{"name", subject.hardware.name}, {"memory_bytes", subject.hardware.memory_bytes}};
  report.json["fit"] = memory_json(layout, memory, asked.context);
  add_table(asked, report);
  report.text += fmt::format("\nas {} ({} devices), each device\n", layout.name(), layout.devices());
  const auto line = [&](const char* name, double bytes, const std::string& why) {
    report.text += fmt::format("  {:<12} {:>10}  {:>5.1f} %  {}\n", name, decimal_bytes(bytes),
                               100 * bytes / memory.memory_bytes, why);
  };
  line("weights", memory.weights.total(), subject.types.name);
  line("workspace", memory.workspace_bytes,
       fmt::format("activations of {} tokens, logits of {}", options.step_tokens, options.sequences));
  line("runtime", memory.reserved_bytes, "runtime, graphs, collectives");
  line("KV", memory.kv_pool_bytes,
       fmt::format("{} blocks of {} tokens, {} bytes a token", memory.blocks, options.block_tokens,
                   grouped(memory.kv_bytes_per_token)));
  line("unused", memory.memory_bytes - memory.usable_bytes, "left free");
  report.json["fit"]["model_context"] = subject.card.spec.context_length;
  report.text += fmt::format(
      "longest context {} tokens (the model's own: {}); {} sequences of {} tokens at once ({} tokens of KV)\n",
      grouped(static_cast<double>(memory.longest_context())),
      grouped(static_cast<double>(subject.card.spec.context_length)),
      grouped(static_cast<double>(memory.sequences_of(asked.context))), asked.context,
      grouped(static_cast<double>(memory.kv_tokens(asked.context))));
  return {};
}

}  // namespace

Result<Report> size_report(const SizeQuery& query) {
  if (query.context < 0 || query.context > 1'000'000'000 || query.block_tokens < 1 || query.block_tokens > 1 << 20) {
    return fail(ErrorCode::kInvalidArgument,
                "a context of {} tokens in blocks of {}; 1 to 1000000000 tokens and blocks of 1 to 1048576 expected",
                query.context, query.block_tokens);
  }
  Asked asked{.query = query, .subject = {}};
  WEIR_TRY(asked.subject, read_subject(query.subject));
  asked.context =
      query.context > 0 ? query.context : std::min<std::int64_t>(8192, asked.subject.card.spec.context_length);
  Report report;
  add_model(asked, report);
  add_kv(asked, report);
  if (!asked.subject.hardware.name.empty()) WEIR_RETURN_IF_ERROR(add_fit(asked, report));
  add_waste(asked, report);
  return report;
}

}  // namespace weir::plan
