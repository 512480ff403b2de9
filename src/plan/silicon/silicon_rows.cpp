#include "plan/silicon/silicon_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "plan/csv.h"

namespace weir::plan {
namespace {

constexpr std::size_t kMaxRows = 100'000;
constexpr double kLargestDegree = 4096, kLargestNumber = 1e9;
// InferenceX draws lengths uniformly from 0.8 to 1 times the stated ones (its random_range_ratio): the mean is 0.9.
constexpr double kMeanOfRandomLengths = 0.9;

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// A degree or count: empty is nothing; anything but a number within limits is an error.
class Reader {
 public:
  Reader(const Csv& csv, const std::string& file) : csv_(csv), file_(file) {}
  Result<std::optional<double>> number(std::size_t row, std::string_view column, double largest) const {
    if (csv_.at(row, column).empty()) return std::optional<double>();
    WEIR_TRY(const double value, csv_.number(row, column, 0));
    if (value < 0 || value > largest)
      return fail_at(std::string(column), ErrorCode::kCorruptFile, "{}: line {}: {} is {}; from 0 to {} makes sense",
                     file_, row + 2, column, value, largest);
    return std::optional<double>(value);
  }

 private:
  const Csv& csv_;
  const std::string& file_;
};

struct Degrees {
  std::optional<double> tp, pp, dp, expert_tp, ep;
};

Result<Degrees> degrees_of(const Reader& reader, std::size_t row, const std::string& prefix) {
  Degrees out;
  WEIR_TRY(out.tp, reader.number(row, prefix + "tp_size", kLargestDegree));
  WEIR_TRY(out.pp, reader.number(row, prefix + "pp_size", kLargestDegree));
  WEIR_TRY(out.dp, reader.number(row, prefix + "attention_dp_size", kLargestDegree));
  WEIR_TRY(out.expert_tp, reader.number(row, prefix + "moe_tp_size", kLargestDegree));
  WEIR_TRY(out.ep, reader.number(row, prefix + "moe_ep_size", kLargestDegree));
  return out;
}

int whole(double value) {
  return std::max(1, static_cast<int>(std::lround(value)));
}

// InferenceX rows with expert parallelism over all g devices write the degree g twice where a plan has it once: tensor
// (or attention) degree g * g with experts g x g, or degrees g and g with experts 1 x g * g, on g devices (their ids
// say "tp8_ep8"). Told apart from true layouts by a stated attention degree.
ParallelLayout aggregated_layout(const Degrees& d) {
  ParallelLayout layout;
  const double tp = d.tp.value_or(1), dp = d.dp.value_or(1), ep = d.ep.value_or(1), expert_tp = d.expert_tp.value_or(1);
  const double g = std::round(std::sqrt(tp * dp));
  const bool square = d.dp && g > 1 && g * g == tp * dp && ep > 1 && expert_tp * ep == tp * dp &&
                      (expert_tp == ep || (tp == dp && expert_tp == 1));
  layout.pp = whole(d.pp.value_or(1));
  if (square) {
    layout.dp = dp > 1 ? whole(g) : 1;
    layout.tp = dp > 1 ? 1 : whole(g);
    layout.ep = whole(g);
    return layout;
  }
  layout.tp = whole(tp);
  layout.dp = whole(dp);
  const int devices = layout.stage_devices();
  layout.ep = ep > 0 && devices % whole(ep) == 0 ? whole(ep) : 1;
  return layout;
}

ParallelLayout worker_layout(const Degrees& d) {
  ParallelLayout layout;
  layout.tp = whole(d.tp.value_or(1));
  layout.pp = whole(d.pp.value_or(1));
  layout.dp = whole(d.dp.value_or(1));
  const int devices = layout.stage_devices(), ep = whole(d.ep.value_or(1));
  layout.ep = devices % ep == 0 ? ep : 1;
  return layout;
}

constexpr double kInt4Bits = 4.25;  // a scale of 16 bits for 64 or more

double bits_of(std::string_view mode, std::string_view precision) {
  const std::string text = lower(mode.empty() ? precision : mode);
  if (text.find("fp4") != std::string::npos) return 4.5;  // a scale of 8 bits for 16 weights
  if (text.find("int4") != std::string::npos) return kInt4Bits;
  if (text.find("fp8") != std::string::npos || text.find("int8") != std::string::npos) return 8;
  return 16;
}

// A mixture in 4 bits keeps its attention wider: in 8 bits where latents are used (DeepSeek in NVFP4), else in 16
// (gpt-oss in MXFP4, Kimi in INT4).
StepBits row_bits(const Csv& csv, std::size_t row, const StepFacts& facts) {
  StepBits bits;
  bits.linear = bits_of(csv.at(row, "gemm_quant_mode"), csv.at(row, "precision"));
  const auto experts = csv.at(row, "moe_quant_mode");
  bits.experts = facts.dense()
                     ? bits.linear
                     : bits_of(experts.empty() ? csv.at(row, "gemm_quant_mode") : experts, csv.at(row, "precision"));
  if (!facts.dense() && bits.linear < 8) bits.linear = facts.latent && bits.linear > kInt4Bits ? 8 : 16;
  bits.kv = bits.experts <= 8 ? 8 : 16;
  // INT4 is of weights alone; INT8 of both operands.
  bits.linear_operands = bits.linear == kInt4Bits ? 16 : 0;
  bits.expert_operands = bits.experts == kInt4Bits ? 16 : 0;
  bits.integer =
      lower(csv.at(row, "gemm_quant_mode")).find("int8") != std::string::npos ||
      (csv.at(row, "gemm_quant_mode").empty() && lower(csv.at(row, "precision")).find("int8") != std::string::npos);
  return bits;
}

std::optional<double> stated_concurrency(std::string_view source) {
  constexpr std::string_view kKey = "silicon_concurrency=";
  const auto at = source.find(kKey);
  if (at == std::string_view::npos) return std::nullopt;
  double value = 0;
  for (std::size_t i = at + kKey.size(); i < source.size() && std::isdigit(static_cast<unsigned char>(source[i])) != 0;
       ++i) {
    value = value * 10 + (source[i] - '0');
    if (value > kLargestNumber) return std::nullopt;
  }
  return value;
}

// The best share of the peak that any product of op_gemm.csv reaches: 0.95 in BF16, 0.80 in FP8. FP4 was not measured.
constexpr double kBestShare16 = 0.95, kBestShare8 = 0.80;

// Requests that complete at this rate (Little's law) with every prompt computed would need more than all the devices'
// time for the products at that best share and for reading KV at full bandwidth: prompts were cached, or a figure is
// wrong. A bound of physics; no coefficient of the model enters.
bool impossible_rate(const SiliconRow& row) {
  // Whatever narrow arithmetic the device has: kernels may meet 4-bit weights in FP8.
  double tflops = row.hardware.bf16_tflops;
  if (row.bits.experts <= 8.5)
    tflops = row.bits.integer ? row.hardware.peak_tflops(8, true) : row.hardware.peak_tflops(8);
  if (row.bits.experts <= 5) tflops = std::max(tflops, row.hardware.peak_tflops(4));
  const double peak = tflops * 1e12 * (row.bits.experts > 8.5 ? kBestShare16 : kBestShare8);
  const double devices = row.layout.devices();
  const double arithmetic = (row.input_tokens + row.output_tokens) * 2 * row.facts.active_weights() / devices / peak;
  const double context = row.input_tokens + row.output_tokens / 2;
  const double share = row.layout.dp * (row.facts.latent ? 1 : std::min<double>(row.layout.tp, row.facts.kv_heads));
  const double read = row.output_tokens * context * row.facts.kv_elements * row.facts.full_layers * row.bits.kv / 8 /
                      share / (row.hardware.bandwidth_gbs * 1e9);
  const double taken = (row.ttft_ms + row.output_tokens * row.tpot_ms) * 1e-3;
  return peak > 0 && row.concurrency * (arithmetic + read) > taken;
}

// What of a device's memory weights and one sequence take, where that is more than there is; nothing else is counted.
std::optional<StepBytes> too_large(const SiliconRow& row) {
  if (row.choices.size() > 1) {
    for (const Recipe& recipe : row.choices) {
      if (!too_large(row.with(recipe))) return std::nullopt;
    }
  }
  const auto needed = [&](const ParallelLayout& layout, double tokens) {
    return device_bytes(row.facts, layout, row.bits, tokens);
  };
  const StepBytes decode = needed(row.layout, row.input_tokens + row.output_tokens),
                  prefill = needed(row.prefill_layout, row.input_tokens);
  for (const StepBytes& bytes : {decode, prefill}) {
    if (bytes.weights + bytes.sequence > row.hardware.memory_bytes) return bytes;
  }
  return std::nullopt;
}

class TableReader {
 public:
  TableReader(const Csv& csv, const std::string& file) : csv_(csv), reader_(csv, file) {}

  Result<SiliconRow> row(std::size_t i) {
    SiliconRow out;
    out.line = i + 2;
    WEIR_RETURN_IF_ERROR(load(i, out));
    if (out.fate != RowFate::kUsed) return out;
    const std::string system(csv_.at(i, "system")), model(csv_.at(i, "model_path"));
    if (const Hardware* hardware = hardware_of(system)) {
      out.hardware = *hardware;
    } else {
      out.fate = RowFate::kUnknownHardware;
      return out;
    }
    if (const auto& facts = facts_of_model(model)) {
      out.facts = *facts;
      out.estimated = facts->estimated;
    } else {
      out.fate = RowFate::kUnknownModel;
      return out;
    }
    out.bits = row_bits(csv_, i, out.facts);
    // Without a setting vLLM and SGLang keep KV in the type of activations, as in the runs of fixed lengths; those of
    // InferenceX ask for 8 bits, and TensorRT-LLM takes what the checkpoint says.
    if (out.fixed_lengths && out.backend != "trtllm") out.bits.kv = 16;
    WEIR_RETURN_IF_ERROR(layouts(i, out));
    if (out.fate != RowFate::kUsed) return out;
    if (const auto bytes = too_large(out)) {
      out.fate = RowFate::kTooLarge;
      if (++too_large_ <= kNamedRows)
        too_large_rows_.push_back(fmt::format(
            "line {}: {} on {} as {}: weights of {:.1f} GB and {:.1f} GB of KV a device, which has {:.1f} GB", out.line,
            out.model, out.system, out.layout_name(), bytes->weights / 1e9, bytes->sequence / 1e9,
            out.hardware.memory_bytes / 1e9));
    } else if (!out.disaggregated && impossible_rate(out)) {
      out.fate = RowFate::kImpossibleRate;
    }
    return out;
  }

  std::vector<std::string> notes() const {
    std::vector<std::string> out;
    for (const auto& [name, facts] : models_) {
      if (!facts) {
        out.push_back(fmt::format("model {}: no card and no parameter count in its name: its rows are skipped", name));
      } else if (facts->estimated) {
        out.push_back(fmt::format(
            "model {}: no card; estimated from its name: {:.1f} B parameters, {:.1f} B active", name,
            (facts->attention_weights + facts->ffn_weights + facts->head_weights + facts->expert_weights) / 1e9,
            facts->active_weights() / 1e9));
      }
    }
    for (const auto& [name, hardware] : systems_) {
      if (!hardware) out.push_back(fmt::format("system {}: not in the hardware table: its rows are skipped", name));
    }
    out.insert(out.end(), too_large_rows_.begin(), too_large_rows_.end());
    if (too_large_ > kNamedRows)
      out.push_back(fmt::format("and {} more rows that do not fit their devices' memory", too_large_ - kNamedRows));
    return out;
  }

 private:
  Status load(std::size_t i, SiliconRow& out) {
    const std::string_view source = csv_.at(i, "silicon_data_source");
    out.model = silicon_model_key(csv_.at(i, "model_path"));
    out.system = lower(csv_.at(i, "system"));
    out.backend = lower(csv_.at(i, "backend"));
    out.version = lower(csv_.at(i, "backend_version"));
    out.precision = lower(csv_.at(i, "precision"));
    out.disaggregated = lower(csv_.at(i, "mode")) == "disagg";
    out.fixed_lengths = source.find("auto-gap-analysis") != std::string_view::npos;
    WEIR_TRY(const auto ttft, reader_.number(i, "silicon_ttft_ms", kLargestNumber));
    WEIR_TRY(const auto tpot, reader_.number(i, "silicon_tpot_ms", kLargestNumber));
    out.ttft_ms = ttft.value_or(0);
    out.tpot_ms = tpot.value_or(0);
    WEIR_TRY(const auto input, reader_.number(i, "isl", kLargestNumber));
    WEIR_TRY(const auto output, reader_.number(i, "osl", kLargestNumber));
    const double mean = out.fixed_lengths ? 1 : kMeanOfRandomLengths;
    out.input_tokens = input.value_or(0) * mean;
    out.output_tokens = output.value_or(0) * mean;
    WEIR_TRY(const auto batch, reader_.number(i, "batch_size", kLargestNumber));
    WEIR_TRY(const auto decode_batch, reader_.number(i, "decode_batch_size", kLargestNumber));
    WEIR_TRY(const auto dp, reader_.number(i, "attention_dp_size", kLargestDegree));
    WEIR_TRY(const auto workers, reader_.number(i, "decode_num_workers", kLargestDegree));
    WEIR_TRY(const auto decode_dp, reader_.number(i, "decode_attention_dp_size", kLargestDegree));
    if (out.disaggregated) {
      out.concurrency = stated_concurrency(source).value_or(
          decode_batch.value_or(0) * std::max(1.0, workers.value_or(1)) * std::max(1.0, decode_dp.value_or(1)));
    } else {
      out.concurrency = batch.value_or(0) * std::max(1.0, dp.value_or(1));  // the column is of one attention group
    }
    if (!(out.ttft_ms > 0) || !(out.tpot_ms > 0)) {
      out.fate = RowFate::kNoMeasurement;
    } else if (!(out.input_tokens > 0) || !(out.output_tokens > 0) || !(out.concurrency > 0)) {
      out.fate = RowFate::kNoLoad;
    }
    return {};
  }

  Status layouts(std::size_t i, SiliconRow& out) {
    if (out.disaggregated) {
      WEIR_TRY(const Degrees decode, degrees_of(reader_, i, "decode_"));
      WEIR_TRY(const Degrees prefill, degrees_of(reader_, i, "prefill_"));
      WEIR_TRY(const auto decode_workers, reader_.number(i, "decode_num_workers", kLargestDegree));
      WEIR_TRY(const auto prefill_workers, reader_.number(i, "prefill_num_workers", kLargestDegree));
      if (!decode.tp || !prefill.tp || *decode.tp < 1 || *prefill.tp < 1) out.fate = RowFate::kNoLayout;
      out.layout = worker_layout(decode);
      out.prefill_layout = worker_layout(prefill);
      out.decode_workers = std::max(1.0, decode_workers.value_or(1));
      out.prefill_workers = std::max(1.0, prefill_workers.value_or(1));
      WEIR_TRY(RecipeQuery query, recipe_query(i, out));
      query.prefill_tp = whole(prefill.tp.value_or(1));
      query.prefill_ep = whole(prefill.ep.value_or(1));
      query.decode_tp = whole(decode.tp.value_or(1));
      decode_workers ? use_batch(query, out) : use_recipes(query, out);
      return {};
    }
    WEIR_TRY(const Degrees degrees, degrees_of(reader_, i, ""));
    if (!degrees.tp || *degrees.tp < 1 || (degrees.dp && *degrees.dp < 1)) {
      out.fate = RowFate::kNoLayout;
      return {};
    }
    out.layout = out.prefill_layout = aggregated_layout(degrees);
    const int heads = static_cast<int>(out.facts.heads);
    if (heads > 0 && heads % out.layout.tp != 0) out.fate = RowFate::kImpossibleLayout;
    return {};
  }

  // Without degrees.
  Result<RecipeQuery> recipe_query(std::size_t i, const SiliconRow& out) {
    WEIR_TRY(const auto input, reader_.number(i, "isl", kLargestNumber));
    WEIR_TRY(const auto output, reader_.number(i, "osl", kLargestNumber));
    RecipeQuery query{out.backend, out.system, out.model, out.precision};
    query.input = input.value_or(0);
    query.output = output.value_or(0);
    query.concurrency = out.concurrency;
    return query;
  }

  // Most disaggregated rows state the degrees of one worker of each role and no more.
  static void use_recipes(const RecipeQuery& query, SiliconRow& out) {
    auto found = recipes_of(query);
    if (found.empty()) {
      out.drafts = -1;
      return;
    }
    out = out.with(found.front());
    if (found.size() > 1) out.choices = std::move(found);
  }

  // Rows that state all of the layout (none of those drafted tokens) lack how many sequences decode at once.
  static void use_batch(RecipeQuery query, SiliconRow& out) {
    query.prefill_tp = out.prefill_layout.stage_devices();
    query.decode_tp = out.layout.stage_devices();
    std::optional<double> batch;
    for (const Recipe& recipe : recipes_of(query)) {
      const bool same = recipe.drafts == 0 && recipe.decode.dp == out.layout.dp &&
                        recipe.decode_workers == out.decode_workers && recipe.prefill_workers == out.prefill_workers;
      if (!same) continue;
      if (batch && *batch != recipe.most_decoding) return;
      batch = recipe.most_decoding;
    }
    out.most_decoding = batch.value_or(0);
  }

  const Hardware* hardware_of(const std::string& system) {
    const auto found = systems_.find(system);
    if (found != systems_.end()) return found->second ? &*found->second : nullptr;
    auto& place = systems_[system];
    // A name only: a row must not describe hardware of its own with "name,field=value".
    if (system.find(',') == std::string::npos) {
      if (auto hardware = find_hardware(system)) place = *std::move(hardware);
    }
    return place ? &*place : nullptr;
  }

  const std::optional<StepFacts>& facts_of_model(const std::string& model) {
    const auto found = models_.find(model);
    if (found != models_.end()) return found->second;
    return models_[model] = facts_for(model);
  }

  static constexpr std::size_t kNamedRows = 20;
  const Csv& csv_;
  Reader reader_;
  std::size_t too_large_ = 0;
  std::vector<std::string> too_large_rows_;
  std::map<std::string, std::optional<StepFacts>> models_;
  std::map<std::string, std::optional<Hardware>> systems_;
};

}  // namespace

// "deepseek-ai/DeepSeek-R1" and "nvidia/DeepSeek-R1-NVFP4" are one model in two types.
std::string silicon_model_key(std::string_view path) {
  std::string name = lower(path.substr(path.rfind('/') == std::string_view::npos ? 0 : path.rfind('/') + 1));
  for (const std::string_view suffix : {"-nvfp4", "-fp4", "-fp8", "-bf16", "-int4", "-awq", "-gptq", "-instruct"}) {
    if (name.size() > suffix.size() && name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  }
  // R1 and V3.1 are V3 with other weights of the same shapes.
  if (name.starts_with("deepseek-r1") || name == "deepseek-v3.1") return "deepseek-v3";
  return name;
}

std::string_view fate_name(RowFate fate) {
  constexpr std::array<std::string_view, kRowFates> kNames = {
      "used",
      "dropped: no TTFT or TPOT above zero",
      "dropped: no lengths or concurrency above zero",
      "dropped: unknown hardware",
      "dropped: unknown model",
      "dropped: no attention layout (a degree of 0)",
      "dropped: the tensor degree does not divide the heads",
      "dropped: weights and one sequence are more than the memory",
      "dropped: faster than arithmetic and memory allow (cached prompts)",
      "dropped: repeats a row (same inputs, TTFT and TPOT)"};
  return kNames[static_cast<std::size_t>(fate)];
}

RowKind SiliconRow::kind() const {
  if (disaggregated) return RowKind::kDisaggregated;
  return facts.dense() ? RowKind::kDense : RowKind::kMixture;
}

std::string SiliconRow::layout_name() const {
  std::string name = layout.name();
  if (disaggregated) name += fmt::format(" x{:g} | {} x{:g}", decode_workers, prefill_layout.name(), prefill_workers);
  if (drafts > 0) name += fmt::format(" drafts {:g}", drafts);
  return name;
}

SiliconRow SiliconRow::with(const Recipe& recipe) const {
  SiliconRow out = *this;
  out.layout = recipe.decode;
  out.prefill_layout = recipe.prefill;
  out.decode_workers = recipe.decode_workers;
  out.prefill_workers = recipe.prefill_workers;
  out.drafts = recipe.drafts;
  out.most_decoding = recipe.most_decoding;
  out.choices.clear();
  return out;
}

std::string SiliconRow::configuration() const {
  return fmt::format("{}|{}|{}|{:g}|{:g}|{}|{:g}|{:g}|{:g}", model, system, backend, bits.linear, bits.experts,
                     disaggregated ? "disaggregated" : layout_name(), input_tokens, output_tokens, concurrency);
}

std::string SiliconRow::measurement() const {
  return fmt::format("{}|{:.6g}|{:.6g}", configuration(), ttft_ms, tpot_ms);
}

double SiliconRow::devices() const {
  return layout.devices() * decode_workers + (disaggregated ? prefill_layout.devices() * prefill_workers : 0);
}

std::vector<const SiliconRow*> SiliconTable::used() const {
  std::vector<const SiliconRow*> out;
  for (const SiliconRow& row : rows) {
    if (row.fate == RowFate::kUsed) out.push_back(&row);
  }
  return out;
}

Result<SiliconTable> read_silicon(std::string_view text, const std::string& file) {
  WEIR_TRY(const Csv csv, Csv::parse(text, file));
  WEIR_RETURN_IF_ERROR(csv.require({"backend", "model_path", "system", "mode", "isl", "osl", "tp_size", "batch_size",
                                    "silicon_ttft_ms", "silicon_tpot_ms"}));
  if (csv.rows() > kMaxRows)
    return fail(ErrorCode::kCorruptFile, "{}: {} rows; at most {} are read", file, csv.rows(), kMaxRows);
  TableReader reader(csv, file);
  SiliconTable table;
  std::set<std::string> seen;
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    WEIR_TRY(SiliconRow row, reader.row(i));
    if (row.fate == RowFate::kUsed) {
      if (!seen.insert(row.measurement()).second) row.fate = RowFate::kRepeated;
    }
    ++table.fates[static_cast<std::size_t>(row.fate)];
    table.rows.push_back(std::move(row));
  }
  table.notes = reader.notes();
  return table;
}

}  // namespace weir::plan
