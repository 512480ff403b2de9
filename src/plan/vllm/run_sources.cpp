// Where runs come from: folders, and the files in the program.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/check.h"
#include "plan/csv.h"
#include "plan/data.h"
#include "plan/vllm/run.h"

namespace weir::plan::vllm {

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kMostBytes = 64u << 20;
constexpr std::size_t kMostRuns = 1000;

Result<std::string> read_file(const fs::path& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) return fail(ErrorCode::kNotFound, "{}: {}", path.string(), error.message());
  if (size > kMostBytes) {
    return fail(ErrorCode::kTooLarge, "{} has {} bytes; at most {} are read", path.string(), size, kMostBytes);
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  if (file.gcount() != static_cast<std::streamsize>(size)) {
    return fail(ErrorCode::kNotFound, "{}: {} of {} bytes could be read", path.string(), file.gcount(), size);
  }
  return text;
}

Result<std::string> read_if_there(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return std::string();
  return read_file(path);
}

// profile_tp<N> of the run's N, else the only profile_* there is.
Result<fs::path> profile_folder(const fs::path& run, const std::string& meta) {
  const auto parsed = nlohmann::json::parse(meta, nullptr, false);
  int tp = 1;
  if (parsed.is_object()) {
    const auto pointer = nlohmann::json::json_pointer("/engine_kwargs/tensor_parallel_size");
    if (parsed.contains(pointer) && parsed[pointer].is_number_integer()) tp = parsed[pointer].get<int>();
  }
  const fs::path wanted = run / ("profile_tp" + std::to_string(tp));
  std::error_code error;
  if (fs::is_directory(wanted, error)) return wanted;
  return fail(ErrorCode::kNotFound,
              "{} is not there: the kernel profile (dense.csv, per_sequence.csv, attention.csv) of one of {} devices "
              "that share a layer",
              wanted.string(), tp);
}

Result<Run> read_run(const fs::path& folder) {
  RunFiles files;
  files.name = folder.filename().empty() ? folder.parent_path().filename().string() : folder.filename().string();
  WEIR_TRY(files.meta, read_file(folder / "meta.json"));
  WEIR_TRY(files.sim_config, read_file(folder / "sim_config.json"));
  WEIR_TRY(files.requests, read_file(folder / "requests.jsonl"));
  WEIR_TRY(files.summary, read_if_there(folder / "llmservingsim_summary.txt"));
  std::error_code error;
  if (fs::is_regular_file(folder / "config.json", error)) files.model_file = (folder / "config.json").string();
  WEIR_TRY(const fs::path profile, profile_folder(folder, files.meta));
  files.profile.folder = profile.string();
  WEIR_TRY(files.profile.dense, read_file(profile / "dense.csv"));
  WEIR_TRY(files.profile.per_sequence, read_file(profile / "per_sequence.csv"));
  WEIR_TRY(files.profile.attention, read_file(profile / "attention.csv"));
  WEIR_TRY(files.profile.moe, read_if_there(profile / "moe.csv"));
  return parse_run(files);
}

// The built-in tables hold all runs, by number; attention with a column for each kv_decode. They become the files that
// a folder would have, so that there is one reader.
void add_layers(const Csv& csv, const std::string& run, ProfileFiles& files) {
  files.dense = "layer,tokens,time_us\n";
  files.per_sequence = "layer,sequences,time_us\n";
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    if (csv.at(i, "run") != run) continue;
    const auto rows = csv.at(i, "rows"), time = csv.at(i, "time_us");
    if (csv.at(i, "table") == "moe") {
      if (files.moe.empty()) files.moe = "tokens,activated_experts,time_us\n";
      files.moe += fmt::format("{},{},{}\n", rows, csv.at(i, "activated_experts"), time);
    } else {
      (csv.at(i, "table") == "dense" ? files.dense : files.per_sequence) +=
          fmt::format("{},{},{}\n", csv.at(i, "layer"), rows, time);
    }
  }
}

void add_attention(const Csv& csv, const std::string& run, ProfileFiles& files) {
  files.attention = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n";
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    if (csv.at(i, "run") != run) continue;
    const std::string begin =
        fmt::format("{},{},{},", csv.at(i, "prefill_chunk"), csv.at(i, "kv_prefill"), csv.at(i, "n_decode"));
    for (const std::string& column : csv.columns()) {
      if (column.find_first_not_of("0123456789") != std::string::npos) continue;
      const auto time = csv.at(i, column);
      if (!time.empty()) files.attention += fmt::format("{}{},{}\n", begin, column, time);
    }
  }
}

std::string requests_of(const Csv& csv, const std::string& run) {
  std::string lines;
  for (std::size_t i = 0; i < csv.rows(); ++i) {
    if (csv.at(i, "run") != run) continue;
    lines += fmt::format(
        R"({{"request_id":"{}","arrival_time":{},"input_toks":{},"output_toks":{},"queued_ts":{},"first_token_ts":{},"last_token_ts":{}}})"
        "\n",
        csv.at(i, "request_id"), csv.at(i, "arrival_s"), csv.at(i, "input_toks"), csv.at(i, "output_toks"),
        csv.at(i, "queued_s"), csv.at(i, "first_token_s"), csv.at(i, "last_token_s"));
  }
  return lines;
}

}  // namespace

Result<std::vector<Run>> known_runs() {
  WEIR_TRY(const Csv layers, Csv::parse(data_file("vllm_layers.csv"), "vllm_layers.csv"));
  WEIR_TRY(const Csv attention, Csv::parse(data_file("vllm_attention.csv"), "vllm_attention.csv"));
  WEIR_TRY(const Csv requests, Csv::parse(data_file("vllm_requests.csv"), "vllm_requests.csv"));
  const auto listed = nlohmann::json::parse(data_file("vllm_runs.json"), nullptr, false);
  CHECK(listed.is_array(), "vllm_runs.json is no array");
  std::vector<Run> runs;
  for (const auto& one : listed) {
    const std::string number = std::to_string(runs.size());
    RunFiles files;
    files.name = one.value("name", "");
    files.meta = one["meta"].dump();
    files.sim_config = one["sim_config"].dump();
    files.summary = one.value("summary", "");
    files.requests = requests_of(requests, number);
    files.profile.folder = files.name;
    add_layers(layers, number, files.profile);
    add_attention(attention, number, files.profile);
    WEIR_TRY(Run run, parse_run(files));
    runs.push_back(std::move(run));
  }
  return runs;
}

Result<std::vector<Run>> read_runs(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return fail_at("data", ErrorCode::kNotFound, "{} is no folder; --data takes one of a run or of several", folder);
  }
  std::vector<fs::path> found;
  if (fs::exists(fs::path(folder) / "meta.json", error)) {
    found.push_back(folder);
  } else {
    for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      if (fs::exists(it->path() / "meta.json", error) && found.size() < kMostRuns) found.push_back(it->path());
    }
  }
  std::sort(found.begin(), found.end());
  if (found.empty()) {
    return fail_at(
        "data", ErrorCode::kNotFound,
        "neither {} nor a folder in it has a meta.json; a run has meta.json, sim_config.json, requests.jsonl "
        "and profile_tp<N>/",
        folder);
  }
  std::vector<Run> runs;
  for (const fs::path& path : found) {
    WEIR_TRY(Run run, read_run(path));
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace weir::plan::vllm
