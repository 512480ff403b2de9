#include "plan/vllm/run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/printable.h"
#include "plan/csv.h"
#include "plan/model_card.h"

namespace weir::plan::vllm {

namespace {

using nlohmann::json;

constexpr std::size_t kMostRequests = 100'000;
constexpr std::int64_t kMostTokens = 20'000'000;  // of all requests
constexpr double kMostSeconds = 1e7;              // from first to last
constexpr double kGib = 1024.0 * 1024 * 1024;

Result<json> parse_json(const std::string& text, const std::string& file) {
  json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return fail(ErrorCode::kCorruptFile, "{} is no JSON object", file);
  return parsed;
}

// The value at keys "a/b/c"; null where there is none.
const json& look(const json& from, const char* path) {
  static const json kNull;
  const auto pointer = json::json_pointer("/" + std::string(path));
  return from.is_structured() && from.contains(pointer) ? from[pointer] : kNull;
}

struct Field {
  const char* path = "";
  double least = 0, most = 0;
  std::optional<double> otherwise;  // where it is absent or null
};

Result<double> number(const json& from, const Field& field, const std::string& file) {
  const json& found = look(from, field.path);
  if (found.is_null() && field.otherwise) return *field.otherwise;
  const double value = found.is_number() ? found.get<double>() : std::nan("");
  if (!(value >= field.least && value <= field.most)) {
    return fail_at(field.path, ErrorCode::kCorruptFile, "{}: {} is {}; expected a number from {} to {}", file,
                   field.path, found.is_null() ? "not there" : printable(found.dump().substr(0, 60)), field.least,
                   field.most);
  }
  return value;
}

Result<int> whole(const json& from, const Field& field, const std::string& file) {
  WEIR_TRY(const double value, number(from, field, file));
  return static_cast<int>(value);
}

bool truth(const json& from, const char* path, bool otherwise) {
  const json& found = look(from, path);
  return found.is_boolean() ? found.get<bool>() : otherwise;
}

std::string word(const json& from, const char* path) {
  const json& found = look(from, path);
  return found.is_string() ? found.get<std::string>() : "";
}

// vLLM captures 1, 2, 4, then every 8 up to 256 and every 16 up to the largest: twice max_num_seqs, at most 512
// (0.19's defaults; the 4090 run's meta.json lists the same).
std::vector<int> default_graph_sizes(int max_num_seqs) {
  const int most = std::min(2 * max_num_seqs, 512);
  std::vector<int> sizes;
  for (const int size : {1, 2, 4}) {
    if (size <= most) sizes.push_back(size);
  }
  for (int size = 8; size <= most; size += size < 256 ? 8 : 16) sizes.push_back(size);
  return sizes;
}

Result<std::vector<int>> graph_sizes(const json& meta, int max_num_seqs, const std::string& file) {
  if (truth(meta, "engine_kwargs/enforce_eager", false)) return std::vector<int>{};
  const json& listed = look(meta, "resolved_config/compilation_config/cudagraph_capture_sizes");
  if (!listed.is_array()) return default_graph_sizes(max_num_seqs);
  std::vector<int> sizes;
  for (const json& size : listed) {
    if (!size.is_number_integer() || size < 1 || size > 1'000'000 || sizes.size() == 10'000) {
      return fail(ErrorCode::kCorruptFile, "{}: cudagraph_capture_sizes has {}; expected whole numbers from 1", file,
                  printable(size.dump().substr(0, 60)));
    }
    sizes.push_back(size.get<int>());
  }
  std::sort(sizes.begin(), sizes.end());
  return sizes;
}

Status read_engine(Run& run, const json& meta, const std::string& file) {
  EngineSettings& engine = run.engine;
  WEIR_TRY(engine.tp, whole(meta, {"engine_kwargs/tensor_parallel_size", 1, 1024, 1}, file));
  WEIR_TRY(engine.dp, whole(meta, {"engine_kwargs/data_parallel_size", 1, 1024, 1}, file));
  WEIR_TRY(engine.max_num_seqs, whole(meta, {"engine_kwargs/max_num_seqs", 1, 1e6, {}}, file));
  WEIR_TRY(engine.max_num_batched_tokens, whole(meta, {"engine_kwargs/max_num_batched_tokens", 1, 1e8, {}}, file));
  WEIR_TRY(engine.block_tokens, whole(meta, {"kv_cache/block_size", 1, 65536, 16}, file));
  WEIR_TRY(const double blocks, number(meta, {"kv_cache/num_gpu_blocks", 1, 4e9, 0}, file));
  engine.num_blocks = static_cast<std::int64_t>(blocks);
  engine.expert_parallel = truth(meta, "engine_kwargs/enable_expert_parallel", false);
  engine.prefix_caching = truth(meta, "kv_cache/enable_prefix_caching", true);
  engine.asynchronous = truth(meta, "resolved_config/scheduler_config/async_scheduling", true);
  WEIR_TRY(engine.graph_sizes, graph_sizes(meta, engine.max_num_seqs, file));
  WEIR_TRY(const double stages, number(meta, {"engine_kwargs/pipeline_parallel_size", 1, 1024, 1}, file));
  if (stages > 1)
    return fail(ErrorCode::kUnsupported, "{}: pipeline_parallel_size {}; only 1 can be replayed", file, stages);
  return {};
}

Status read_device(Run& run, const json& config, const std::string& file) {
  const json& instance = look(config, "nodes/0/instances/0");
  run.device.name = word(instance, "hardware");
  if (run.device.name.empty()) {
    return fail(ErrorCode::kCorruptFile, "{}: nodes/0/instances/0/hardware is not there; it names the device", file);
  }
  if (!word(instance, "pd_type").empty()) {
    return fail(ErrorCode::kUnsupported, "{}: pd_type {}; a disaggregated run cannot be replayed", file,
                printable(word(instance, "pd_type")));
  }
  WEIR_TRY(const double memory, number(instance, {"npu_mem/mem_size", 1, 1e6, {}}, file));
  WEIR_TRY(run.device.memory_share, number(instance, {"npu_mem/mem_util", 0.01, 1, 0.9}, file));
  WEIR_TRY(const double link, number(config, {"link_bw", 0.001, 1e6, {}}, file));
  WEIR_TRY(const double latency_ns, number(config, {"link_latency", 0, 1e9, {}}, file));
  run.device.memory_bytes = memory * kGib;
  run.device.link_bytes_per_s = link * 1e9;
  run.device.link_latency_s = latency_ns * 1e-9;
  return {};
}

Status read_model(Run& run, const std::string& model_file) {
  auto card = read_model_card(model_file.empty() ? run.model : model_file);
  if (!card) {
    card.error().message += "; a config.json of the model in the run's folder would do as well";
    return tl::unexpected(std::move(card).error());
  }
  const load::ModelSpec& spec = card->spec;
  ModelFacts& facts = run.facts;
  facts.layers = spec.layers;
  facts.hidden = spec.hidden;
  facts.vocab = spec.vocab;
  facts.experts = spec.experts.count;
  facts.experts_used = spec.experts.used;
  for (const load::LayerSpec& layer : spec.layer) facts.sparse_layers += layer.sparse ? 1 : 0;
  for (const CardTensor& tensor : card->tensors) {
    const double bytes = 2.0 * static_cast<double>(tensor.elements());
    facts.weight_bytes += bytes;
    if (tensor.role == TensorRole::kExperts) facts.expert_bytes += bytes;
  }
  facts.kv_bytes_per_token = 4.0 * spec.layers * spec.kv_heads * spec.head_dim;
  if (facts.experts > 0 && !run.profile.has_moe) {
    return fail(ErrorCode::kCorruptFile, "{}: {} has {} experts and the profile has no moe.csv", run.name, run.model,
                facts.experts);
  }
  if (run.engine.dp > 1 && facts.experts == 0) {
    return fail(ErrorCode::kUnsupported, "{}: data_parallel_size {} of a model without experts cannot be replayed",
                run.name, run.engine.dp);
  }
  return {};
}

Status read_requests(Run& run, const std::string& text, const std::string& file) {
  struct Row {
    Request request;
    RequestTimes times;
  };
  std::vector<Row> rows;
  std::istringstream lines(text);
  std::string line;
  std::int64_t tokens = 0;
  for (std::size_t count = 1; std::getline(lines, line); ++count) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = fmt::format("{} line {}", file, count);
    WEIR_TRY(const json parsed, parse_json(line, where));
    Row row;
    row.request.id = word(parsed, "request_id");
    WEIR_TRY(const double input, number(parsed, {"input_toks", 1, 1e7, {}}, where));
    WEIR_TRY(const double output, number(parsed, {"output_toks", 1, 1e7, {}}, where));
    row.request.input_tokens = static_cast<std::int64_t>(input);
    row.request.output_tokens = static_cast<std::int64_t>(output);
    WEIR_TRY(row.request.arrival_s, number(parsed, {"arrival_time", 0, 1e11, {}}, where));
    WEIR_TRY(row.times.queued_s, number(parsed, {"queued_ts", 0, 1e11, {}}, where));
    WEIR_TRY(row.times.first_s, number(parsed, {"first_token_ts", row.times.queued_s, 1e11, {}}, where));
    WEIR_TRY(row.times.last_s, number(parsed, {"last_token_ts", row.times.first_s, 1e11, {}}, where));
    tokens += row.request.input_tokens + row.request.output_tokens;
    if (rows.size() == kMostRequests || tokens > kMostTokens) {
      return fail(ErrorCode::kTooLarge, "{}: more than {} requests or {} tokens in all; cut the file", where,
                  kMostRequests, kMostTokens);
    }
    rows.push_back(std::move(row));
  }
  if (rows.empty()) return fail(ErrorCode::kCorruptFile, "{} has no requests", file);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Row& a, const Row& b) { return a.request.arrival_s < b.request.arrival_s; });
  const double arrival = rows.front().request.arrival_s, queued = rows.front().times.queued_s;
  if (rows.back().request.arrival_s - arrival > kMostSeconds) {
    return fail(ErrorCode::kCorruptFile, "{}: arrivals are {} s apart; at most {} can be replayed", file,
                rows.back().request.arrival_s - arrival, kMostSeconds);
  }
  for (Row& row : rows) {
    row.request.arrival_s -= arrival;
    row.times = {row.times.queued_s - queued, row.times.first_s - queued, row.times.last_s - queued};
    run.requests.push_back(std::move(row.request));
    run.measured.push_back(row.times);
  }
  return {};
}

// Lines "TTFT Mean   7097.2   6815.7   -4.0%".
std::map<std::string, double> published_errors(const std::string& summary) {
  std::map<std::string, double> errors;
  std::istringstream lines(summary);
  std::string line;
  while (errors.size() < 100 && std::getline(lines, line)) {
    std::istringstream words(line);
    std::string metric, part, measured, predicted, error;
    if (!(words >> metric >> part >> measured >> predicted >> error) || error.size() < 2 || error.back() != '%')
      continue;
    error.pop_back();
    if (error.front() == '+') error.erase(0, 1);
    if (const auto value = parse_number(error, "summary")) errors[metric + " " + part] = *value;
  }
  return errors;
}

}  // namespace

Result<Run> parse_run(const RunFiles& files) {
  Run run;
  run.name = files.name;
  const std::string meta_file = files.name + "/meta.json", config_file = files.name + "/sim_config.json";
  WEIR_TRY(const json meta, parse_json(files.meta, meta_file));
  WEIR_TRY(const json config, parse_json(files.sim_config, config_file));
  run.model = word(meta, "model");
  if (run.model.empty()) return fail(ErrorCode::kCorruptFile, "{}: model is not there", meta_file);
  WEIR_RETURN_IF_ERROR(read_engine(run, meta, meta_file));
  WEIR_RETURN_IF_ERROR(read_device(run, config, config_file));
  ProfileFiles profile = files.profile;
  profile.experts_split = run.engine.expert_parallel ? run.engine.tp * run.engine.dp : 1;
  WEIR_TRY(run.profile, read_profile(profile));
  WEIR_RETURN_IF_ERROR(read_model(run, files.model_file));
  WEIR_RETURN_IF_ERROR(read_requests(run, files.requests, files.name + "/requests.jsonl"));
  run.identity = run.device.name + "|" + run.model + "|" + word(meta, "started_at");
  run.published_errors = published_errors(files.summary);
  return run;
}

Result<std::int64_t> kv_blocks(const Run& run) {
  if (run.engine.num_blocks > 0) return run.engine.num_blocks;
  const ModelFacts& facts = run.facts;
  const int shards = run.engine.tp;
  const int expert_shards = run.engine.expert_parallel ? run.engine.tp * run.engine.dp : run.engine.tp;
  const double weights = (facts.weight_bytes - facts.expert_bytes) / shards + facts.expert_bytes / expert_shards;
  const double left = run.device.memory_bytes * run.device.memory_share - weights;
  const double block_bytes = facts.kv_bytes_per_token * run.engine.block_tokens / shards;
  const double blocks = std::floor(left / block_bytes);
  if (!(blocks >= 2)) {
    return fail(
        ErrorCode::kInvalidArgument,
        "{}: the weights take {:.1f} GB of a device, mem_util {} of its {:.1f} GB are {:.1f} GB: no KV block is left",
        run.name, weights * 1e-9, run.device.memory_share, run.device.memory_bytes * 1e-9,
        run.device.memory_bytes * run.device.memory_share * 1e-9);
  }
  return static_cast<std::int64_t>(std::min(blocks, 4e9));
}

}  // namespace weir::plan::vllm
