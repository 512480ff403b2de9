#include "plan/roofline.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/memory.h"

namespace weir::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostTokens = 1 << 24;
constexpr std::int64_t kMostSequences = 1 << 20;
constexpr std::array kFractions = {0.0, 0.5, 0.8, 0.9, 0.95, 0.99};

Json operator_json(const Operator& one, const Hardware& hardware) {
  return {{"name", one.name},
          {"kind", operator_kind_name(one.kind)},
          {"repeats", one.repeats},
          {"flops", one.flops},
          {"weight_bytes", one.weight_bytes},
          {"kv_bytes", one.kv_bytes},
          {"activation_bytes", one.activation_bytes},
          {"message_bytes", one.message_bytes},
          {"intensity", one.intensity()},
          {"bound", one.message_bytes > 0          ? "link"
                    : compute_bound(one, hardware) ? "compute"
                                                   : "memory"},
          {"all_flops", one.repeats * one.flops},
          {"all_bytes", one.repeats * one.bytes()},
          {"floor_s", one.repeats * floor_s(one, hardware)}};
}

void add_operators(const char* what, const std::vector<Operator>& operators, const Hardware& hardware, Report& report,
                   Json& json) {
  report.text += fmt::format("  {:<20} {:>6} {:>12} {:>11} {:>10} {:>9}  {}\n", what, "times", "flops", "bytes",
                             "flops/byte", "at least", "bound");
  for (const Operator& one : operators) {
    json["operators"].push_back(operator_json(one, hardware));
    const bool link = one.message_bytes > 0;
    report.text += fmt::format(
        "  {:<20} {:>6} {:>12.4g} {:>11} {:>10} {:>9}  {}\n", one.name, one.repeats, one.repeats * one.flops,
        decimal_bytes(one.repeats * (link ? one.message_bytes : one.bytes())),
        link ? "-" : fmt::format("{:.1f}", one.intensity()), seconds_text(one.repeats * floor_s(one, hardware)),
        link                           ? "link"
        : compute_bound(one, hardware) ? "compute"
                                       : "memory");
  }
}

Json bound_json(const PassBound& bound) {
  return {{"flops", bound.flops},           {"bytes", bound.bytes},
          {"intensity", bound.intensity()}, {"compute_s", bound.compute_s},
          {"memory_s", bound.memory_s},     {"link_s", bound.link_s},
          {"step_s", bound.step_s},         {"bound", bound.memory_bound() ? "memory" : "compute"}};
}

std::string bound_text(const PassBound& bound) {
  std::string text = fmt::format("  whole pass: {:.1f} flops/byte, {} bound; arithmetic {}, memory {}",
                                 bound.intensity(), bound.memory_bound() ? "memory" : "compute",
                                 seconds_text(bound.compute_s), seconds_text(bound.memory_s));
  if (bound.link_s > 0) text += ", links " + seconds_text(bound.link_s);
  return text + fmt::format("; operator by operator {}\n", seconds_text(bound.step_s));
}

class Writer {
 public:
  Writer(const RooflineQuery& query, const Subject& subject)
      : query_(query),
        subject_(subject),
        options_{.layout = subject.layout, .types = subject.types, .kv_bits = subject.kv_bits} {}

  RooflineResult write() {
    head();
    decode();
    prefill();
    cached_fractions();
    result_.svg = roofline_svg(fmt::format("{} on {} as {}, {}", subject_.card.name, subject_.hardware.name,
                                           subject_.layout.name(), subject_.types.name),
                               subject_.hardware, decode_, prefill_);
    return std::move(result_);
  }

 private:
  void head() {
    const Hardware& hardware = subject_.hardware;
    Json& json = result_.report.json;
    json["model"] = subject_.card.name;
    json["hardware"] = {{"name", hardware.name},
                        {"bf16_tflops", hardware.bf16_tflops},
                        {"bandwidth_gbs", hardware.bandwidth_gbs},
                        {"source", hardware.source}};
    json["layout"] = subject_.layout.name();
    json["weight_type"] = subject_.types.name;
    text(fmt::format("{} as {} on {} ({}), {}\n", subject_.card.name, subject_.types.name, hardware.name,
                     subject_.layout.name(), fmt::format("{:g} TB/s a device", hardware.bandwidth_gbs / 1000)));
    text("ridge points (operations per byte from which arithmetic is the bound):");
    for (const double bits : {16.0, 8.0, 4.0}) {
      const bool integer = subject_.types.integer && bits == subject_.types.compute_bits;
      const double ridge = ridge_intensity(hardware, bits, integer), peak = hardware.peak_tflops(bits, integer);
      json["ridge"][fmt::format("{:g}_bits", bits)] = ridge;
      json["peak_tflops"][fmt::format("{:g}_bits", bits)] = peak;
      text(fmt::format(" {:g} bits{} {:.0f} ({:g} TFLOP/s{});", bits, integer ? ", integers," : "", ridge, peak,
                       bits < 16 && peak == hardware.bf16_tflops ? ", widened to 16" : ""));
    }
    result_.report.text.back() = '\n';
  }

  void decode() {
    decode_ = operators_of(subject_.card, decode_shape(query_.batch, query_.context), options_);
    const PassBound bound = bound_of(decode_, subject_.hardware);
    Json& json = result_.report.json["decode"];
    const auto batch = static_cast<double>(query_.batch);
    // The arithmetic everyone does in their head: weights over bandwidth.
    const double stages = subject_.layout.pp;
    const double weights = totals_of(decode_).weight_bytes;
    const double weights_s = weights / (subject_.hardware.bandwidth_gbs * 1e9);
    const double all = subject_.card.bytes_as(subject_.types) / subject_.layout.devices();
    const double all_s = all * stages / (subject_.hardware.bandwidth_gbs * 1e9);
    json = bound_json(bound);
    json["batch"] = query_.batch;
    json["context"] = query_.context;
    json["weight_bytes_read"] = weights;
    json["weights_s"] = weights_s;
    json["all_weights_s"] = all_s;
    json["tokens_per_s_per_sequence"] = 1 / bound.step_s;
    json["tokens_per_s"] = batch / bound.step_s;
    json["weights_only_tokens_per_s"] = batch / weights_s;
    json["all_weights_passes_per_s"] = 1 / all_s;
    text(fmt::format("\ndecoding, {} sequences of {} tokens, one device\n", query_.batch, query_.context));
    add_operators("operator", decode_, subject_.hardware, result_.report, json);
    text(bound_text(bound));
    text(fmt::format("  weights alone: {} read a pass / {:g} GB/s = {}, {:.1f} passes/s (all {} of them: {}, {:.1f})\n",
                     decimal_bytes(weights), subject_.hardware.bandwidth_gbs, seconds_text(weights_s), 1 / weights_s,
                     decimal_bytes(all * stages), seconds_text(all_s), 1 / all_s));
    text(fmt::format("  at most {:.1f} tokens/s a sequence, {:.1f} tokens/s in all\n", 1 / bound.step_s,
                     batch / bound.step_s));
    batch_ridge(json);
  }

  // The batch from which a decoding pass is bound by arithmetic, if any.
  void batch_ridge(Json& json) {
    const auto memory_bound = [&](std::int64_t batch) {
      return bound_of(operators_of(subject_.card, decode_shape(batch, query_.context), options_), subject_.hardware)
          .memory_bound();
    };
    std::int64_t low = 1, high = kMostSequences / 16;
    if (memory_bound(high)) {
      json["compute_bound_from_batch"] = nullptr;
      text(fmt::format("  memory bound at any batch: the KV of {} tokens costs more than their arithmetic\n",
                       query_.context));
      return;
    }
    if (!memory_bound(low)) high = low;
    while (high - low > 1) {
      const std::int64_t middle = (low + high) / 2;
      (memory_bound(middle) ? low : high) = middle;
    }
    json["compute_bound_from_batch"] = high;
    text(fmt::format("  compute bound from {} sequences on\n", high));
  }

  void prefill() {
    const auto cached = static_cast<std::int64_t>(std::floor(query_.cached * static_cast<double>(query_.prompt)));
    const std::int64_t suffix = std::max<std::int64_t>(1, query_.prompt - cached);
    prefill_ = operators_of(subject_.card, prefill_shape(query_.prompt - suffix, suffix), options_);
    const PassBound bound = bound_of(prefill_, subject_.hardware);
    Json& json = result_.report.json["prefill"];
    json = bound_json(bound);
    json["prompt"] = query_.prompt;
    json["cached"] = query_.prompt - suffix;
    json["suffix"] = suffix;
    json["tokens_per_s"] = static_cast<double>(suffix) / bound.step_s;
    text(fmt::format("\nprefill of {} tokens behind {} cached ones, one device\n", suffix, query_.prompt - suffix));
    add_operators("operator", prefill_, subject_.hardware, result_.report, json);
    text(bound_text(bound));
    text(fmt::format("  at most {} tokens/s computed\n", grouped(static_cast<double>(suffix) / bound.step_s)));
  }

  void cached_fractions() {
    text(fmt::format("\nprefill by cached fraction (prompt of {} tokens)\n  {:>7} {:>8} {:>11} {:>10} {:>9}   {}\n",
                     query_.prompt, "cached", "suffix", "flops/byte", "at least", "bound",
                     "memory bound for suffixes up to"));
    for (const double cached : kFractions) {
      const auto hit = static_cast<std::int64_t>(std::floor(cached * static_cast<double>(query_.prompt)));
      const std::int64_t suffix = std::max<std::int64_t>(1, query_.prompt - hit);
      const PassBound bound = bound_of(
          operators_of(subject_.card, prefill_shape(query_.prompt - suffix, suffix), options_), subject_.hardware);
      const std::int64_t most = std::max<std::int64_t>(
          1, static_cast<std::int64_t>((1 - cached) * static_cast<double>(subject_.card.spec.context_length)));
      const std::int64_t turn = memory_bound_suffix(subject_.card, subject_.hardware, options_, cached, most);
      const auto prompt_at_turn = static_cast<double>(turn) / (1 - cached);
      result_.report.json["cached_fractions"].push_back({{"cached", cached},
                                                         {"suffix", suffix},
                                                         {"intensity", bound.intensity()},
                                                         {"step_s", bound.step_s},
                                                         {"bound", bound.memory_bound() ? "memory" : "compute"},
                                                         {"memory_bound_up_to_suffix", turn},
                                                         {"memory_bound_up_to_prompt", std::floor(prompt_at_turn)}});
      text(fmt::format("  {:>5.0f} % {:>8} {:>11.1f} {:>10} {:>9}   {} tokens (prompts of {})\n", 100 * cached, suffix,
                       bound.intensity(), seconds_text(bound.step_s), bound.memory_bound() ? "memory" : "compute", turn,
                       grouped(prompt_at_turn)));
    }
  }

  void text(const std::string& more) { result_.report.text += more; }

  const RooflineQuery& query_;
  const Subject& subject_;
  OperatorOptions options_;
  std::vector<Operator> decode_, prefill_;
  RooflineResult result_;
};

}  // namespace

double RooflineStep::step_s(const StepShape& shape) const {
  return bound_of(operators_of(card_, shape, options_), hardware_).step_s;
}

PassBound bound_of(const std::vector<Operator>& operators, const Hardware& hardware) {
  PassBound bound;
  for (const Operator& one : operators) {
    const double floor = one.repeats * floor_s(one, hardware);
    bound.step_s += floor;
    if (one.message_bytes > 0) {
      bound.link_s += floor;
      continue;
    }
    bound.flops += one.repeats * one.flops;
    bound.bytes += one.repeats * one.bytes();
    bound.compute_s += one.repeats * one.flops / (hardware.peak_tflops(one.compute_bits, one.integer) * 1e12);
    bound.memory_s += one.repeats * one.bytes() / (hardware.bandwidth_gbs * 1e9);
  }
  return bound;
}

StepShape decode_shape(std::int64_t sequences, std::int64_t context) {
  StepShape shape;
  const auto count = static_cast<double>(sequences), tokens = static_cast<double>(context);
  shape.sequences = shape.tokens = shape.decode_tokens = shape.samples = sequences;
  shape.attended = shape.decode_attended = shape.context_read = count * tokens;
  return shape;
}

StepShape prefill_shape(std::int64_t cached, std::int64_t suffix) {
  StepShape shape;
  shape.add(cached, cached + suffix, true);
  return shape;
}

std::int64_t memory_bound_suffix(const ModelCard& card, const Hardware& hardware, const OperatorOptions& options,
                                 double cached, std::int64_t most) {
  const auto memory_bound = [&](std::int64_t suffix) {
    const double prefix = static_cast<double>(suffix) * cached / (1 - cached);
    const auto shape = prefill_shape(static_cast<std::int64_t>(prefix), suffix);
    return bound_of(operators_of(card, shape, options), hardware).memory_bound();
  };
  if (most < 1 || !memory_bound(1)) return 0;
  if (memory_bound(most)) return most;
  std::int64_t low = 1, high = most;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (memory_bound(middle) ? low : high) = middle;
  }
  return low;
}

Result<RooflineResult> roofline(const RooflineQuery& query) {
  if (query.batch < 1 || query.batch > kMostSequences || query.context < 1 || query.context > kMostTokens ||
      query.prompt < 1 || query.prompt > kMostTokens || !(query.cached >= 0 && query.cached < 1)) {
    return fail(ErrorCode::kInvalidArgument,
                "batch {}, context {}, prompt {}, cached fraction {}: a batch from 1 to {}, tokens from 1 to {} and a "
                "fraction from 0 to below 1 expected",
                query.batch, query.context, query.prompt, query.cached, kMostSequences, kMostTokens);
  }
  WEIR_TRY(const auto subject, read_subject(query.subject));
  if (subject.hardware.name.empty())
    return fail(ErrorCode::kInvalidArgument, "a roofline needs hardware: a known device, or name,field=value,...");
  WEIR_RETURN_IF_ERROR(check_layout(subject.card, subject.layout));
  WEIR_RETURN_IF_ERROR(check_links(subject.hardware, subject.layout));
  return Writer(query, subject).write();
}

}  // namespace weir::plan
