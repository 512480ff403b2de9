// read_trace(): traces of others, so nothing in them is trusted.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/printable.h"
#include "driver/fields.h"
#include "driver/workload.h"

namespace weir::driver {
namespace {

constexpr std::size_t kMaxLine = 1 << 20;
constexpr std::int64_t kMaxTokens = 1 << 24;
constexpr double kMaxSeconds = 1e9;

tl::unexpected<Error> bad_row(const std::string& path, std::size_t line, const std::string& why) {
  return fail_at("trace", ErrorCode::kCorruptFile, "--trace {}, line {}: {}", printable(path), line, why);
}

std::string check_tokens(std::int64_t prompt, std::int64_t output) {
  if (prompt < 1 || prompt > kMaxTokens)
    return fmt::format("the prompt has {} tokens; 1 to {} are possible", prompt, kMaxTokens);
  if (output < 0 || output > kMaxTokens)
    return fmt::format("the reply has {} tokens; 0 to {} are possible", output, kMaxTokens);
  return {};
}

// Empty: fine.
std::string read_json_row(const std::string& line, TraceRow& row) {
  const auto json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return "it is no JSON object";
  for (const char* key : {"timestamp", "input_length", "output_length"}) {
    const auto it = json.find(key);
    if (it == json.end() || !it->is_number()) return fmt::format("the number '{}' is missing", key);
    const auto value = it->get<double>();
    if (!(value >= 0 && value <= 1e12)) return fmt::format("'{}' is {}; 0 to 1e12 is possible", key, value);
  }
  row.at_s = json["timestamp"].get<double>() / 1e3;
  row.prompt_tokens = static_cast<std::int64_t>(json["input_length"].get<double>());
  row.output_tokens = static_cast<std::int64_t>(json["output_length"].get<double>());
  const auto ids = json.find("hash_ids");
  if (ids == json.end()) return {};
  if (!ids->is_array()) return "'hash_ids' is no list";
  for (const auto& id : *ids) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() > (std::int64_t{1} << 40))
      return "'hash_ids' holds something else than numbers of 0 to 2^40";
    row.hash_ids.push_back(id.get<std::int64_t>());
  }
  return {};
}

// "2023-11-16 18:17:03.9799600" or seconds.
bool read_time(std::string_view text, double& seconds) {
  const auto whole = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (whole.ec == std::errc() && whole.ptr == text.data() + text.size())
    return seconds >= 0 && seconds <= kMaxSeconds * 1e3;
  constexpr std::size_t kStarts[] = {0, 5, 8, 11, 14, 17};
  if (text.size() < 19 || text.size() > 40) return false;
  double part[6];
  for (std::size_t i = 0; i < 6; ++i) {
    const std::string_view field = i == 5 ? text.substr(kStarts[i]) : text.substr(kStarts[i], i == 0 ? 4 : 2);
    const auto parsed = std::from_chars(field.data(), field.data() + field.size(), part[i]);
    if (parsed.ec != std::errc() || !(part[i] >= 0 && part[i] < 1e4)) return false;
  }
  // Days since 0000-03-01 in the Gregorian calendar.
  const double month = part[1] + (part[1] < 3 ? 9 : -3), year = part[0] - (part[1] < 3 ? 1 : 0);
  const double days = 365 * year + std::floor(year / 4) - std::floor(year / 100) + std::floor(year / 400) +
                      std::floor((153 * month + 2) / 5) + part[2];
  seconds = days * 86400 + part[3] * 3600 + part[4] * 60 + part[5];
  return true;
}

struct Columns {
  int time = -1, prompt = -1, output = -1;
  bool read(std::string_view header) {
    int at = 0;
    for (const std::string_view name : split_fields(header, ',')) {
      if (name == "TIMESTAMP") time = at;
      if (name == "ContextTokens") prompt = at;
      if (name == "GeneratedTokens") output = at;
      ++at;
    }
    return time >= 0 && prompt >= 0 && output >= 0;
  }
};

std::string read_csv_row(const std::string& line, const Columns& columns, TraceRow& row) {
  const auto fields = split_fields(line, ',');
  const auto size = static_cast<int>(fields.size());
  if (std::max({columns.time, columns.prompt, columns.output}) >= size)
    return fmt::format("it has {} fields, fewer than the first line names", size);
  const auto field = [&](int at) { return fields[static_cast<std::size_t>(at)]; };
  if (!read_time(field(columns.time), row.at_s)) return "TIMESTAMP is no time";
  const auto tokens = [](std::string_view text, std::int64_t& value) {
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
  };
  if (!tokens(field(columns.prompt), row.prompt_tokens)) return "ContextTokens is no whole number";
  if (!tokens(field(columns.output), row.output_tokens)) return "GeneratedTokens is no whole number";
  return {};
}

}  // namespace

Result<std::vector<TraceRow>> read_trace(const std::string& path, std::size_t limit) {
  std::ifstream in(path);
  if (!in) return fail_at("trace", ErrorCode::kNotFound, "--trace {}: cannot read it", printable(path));
  std::vector<TraceRow> rows;
  Columns columns;
  std::string line;
  std::size_t number = 0;
  bool table = false;
  while (rows.size() < limit && std::getline(in, line)) {
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    if (line.size() > kMaxLine)
      return bad_row(path, number, fmt::format("it has {} bytes; at most {}", line.size(), kMaxLine));
    if (number == 1 && line.front() != '{') {
      table = true;
      if (!columns.read(line))
        return bad_row(path, number,
                       "expected JSON objects with timestamp, input_length and output_length, or a table with the "
                       "columns TIMESTAMP, ContextTokens and GeneratedTokens");
      continue;
    }
    TraceRow row;
    std::string why = table ? read_csv_row(line, columns, row) : read_json_row(line, row);
    if (why.empty()) why = check_tokens(row.prompt_tokens, row.output_tokens);
    if (!why.empty()) return bad_row(path, number, why);
    row.output_tokens = std::max<std::int64_t>(row.output_tokens, 1);
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const TraceRow& a, const TraceRow& b) { return a.at_s < b.at_s; });
  if (rows.empty()) return fail_at("trace", ErrorCode::kCorruptFile, "--trace {}: it has no rows", printable(path));
  const double start_s = rows.front().at_s;
  for (TraceRow& row : rows) row.at_s -= start_s;
  return rows;
}

}  // namespace weir::driver
