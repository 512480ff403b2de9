#include "traffic/trace.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/printable.h"
#include "traffic/fields.h"

namespace weir::traffic {

namespace {

constexpr std::size_t kMostLineBytes = 4 << 20;
constexpr std::size_t kMostIds = std::size_t{1} << 30;
constexpr double kMostSeconds = 1e10;

struct Row {
  double at_s = 0;
  std::int64_t prompt_tokens = -1, output_tokens = -1;
  std::vector<std::uint64_t> ids;
};

// One line of Mooncake's JSON, without building it: fields that are not known are passed over.
class RowReader final : public nlohmann::json::json_sax_t {
 public:
  explicit RowReader(Row& row) : row_(row) {}
  const std::string& problem() const { return problem_; }

  bool null() override { return other("null"); }
  bool boolean(bool) override { return other("true or false"); }
  bool number_integer(number_integer_t value) override {
    return take(static_cast<double>(value), value >= 0, static_cast<std::uint64_t>(value));
  }
  bool number_unsigned(number_unsigned_t value) override { return take(static_cast<double>(value), true, value); }
  bool number_float(number_float_t value, const string_t&) override { return take(value, false, 0); }
  bool string(string_t&) override { return other("a text"); }
  bool binary(binary_t&) override { return other("bytes"); }
  bool start_object(std::size_t) override { return ++depth_ == 1 || other("an object"); }
  bool key(string_t& name) override {
    if (depth_ == 1) field_ = name;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    in_ids_ = depth_ == 2 && field_ == "hash_ids";
    return depth_ > 1 ? (in_ids_ || other("a list")) : fail_with("the line is a list, not an object");
  }
  bool end_array() override {
    --depth_;
    in_ids_ = false;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return fail_with(fmt::format("it is no JSON from byte {} on", position));
  }

 private:
  bool fail_with(std::string why) {
    problem_ = std::move(why);
    return false;
  }
  bool known() const {
    return field_ == "timestamp" || field_ == "input_length" || field_ == "output_length" || field_ == "hash_ids";
  }
  bool other(std::string_view what) {
    if (depth_ == 0) return fail_with("it is no JSON object");
    if (!known()) return true;
    return fail_with(
        fmt::format("'{}' is {}, not {}", field_, what, field_ == "hash_ids" ? "a list of whole numbers" : "a number"));
  }
  bool take(double value, bool whole, std::uint64_t exact) {
    if (depth_ == 0) return fail_with("it is no JSON object");
    if (!known()) return true;
    if (field_ == "hash_ids") {
      if (!in_ids_ || !whole)
        return fail_with(fmt::format("'hash_ids' holds {}; a list of whole numbers from 0 on is expected", value));
      row_.ids.push_back(exact);
      return true;
    }
    if (field_ == "timestamp") {
      if (!(value >= 0 && value <= kMostSeconds * 1e3))
        return fail_with(fmt::format("'timestamp' is {} ms; 0 to {} is possible", value, kMostSeconds * 1e3));
      row_.at_s = value / 1e3;
      has_time_ = true;
      return true;
    }
    if (!whole || value > static_cast<double>(kMostTokens)) {
      return fail_with(fmt::format("'{}' is {}; a whole number of 0 to {} is expected", field_, value, kMostTokens));
    }
    (field_ == "input_length" ? row_.prompt_tokens : row_.output_tokens) = static_cast<std::int64_t>(exact);
    return true;
  }

 public:
  bool has_time_ = false;

 private:
  Row& row_;
  std::string field_, problem_;
  int depth_ = 0;
  bool in_ids_ = false;
};

// What is wrong with the line, or empty.
std::string read_json_row(const std::string& line, Row& row) {
  RowReader reader(row);
  if (!nlohmann::json::sax_parse(line, &reader)) return reader.problem();
  if (!reader.has_time_) return "the field 'timestamp' is missing";
  if (row.prompt_tokens < 0) return "the field 'input_length' is missing";
  if (row.output_tokens < 0) return "the field 'output_length' is missing";
  return {};
}

// "2023-11-16 18:17:03.9799600" in seconds of an unnamed calendar day 0 (Gregorian), or plain seconds.
std::optional<double> read_time(std::string_view text) {
  if (const auto seconds = number_in(text, 0, kMostSeconds)) return seconds;
  if (text.size() < 19 || text.size() > 40 || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':') {
    return std::nullopt;
  }
  const auto year = number<int>(text.substr(0, 4)), month = number<int>(text.substr(5, 2)),
             day = number<int>(text.substr(8, 2));
  const auto hour = number<int>(text.substr(11, 2)), minute = number<int>(text.substr(14, 2));
  std::string_view rest = text.substr(17);
  if (const auto zone = rest.find_first_of("+Zz"); zone != std::string_view::npos) rest = rest.substr(0, zone);
  const auto second = number_in(rest, 0, 61);
  if (!year || !month || !day || !hour || !minute || !second || *year < 1 || *month < 1 || *month > 12 || *day < 1 ||
      *day > 31 || *hour < 0 || *hour > 23 || *minute < 0 || *minute > 59) {
    return std::nullopt;
  }
  // Years begin in March, so that a leap day is the last of its year.
  const int m = *month + (*month < 3 ? 9 : -3), y = *year - (*month < 3 ? 1 : 0);
  const int days = 365 * y + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + *day - 1;
  return 86400.0 * days + 3600.0 * *hour + 60.0 * *minute + *second;
}

struct Columns {
  int time = -1, prompt = -1, output = -1;
  std::string time_name, prompt_name, output_name;

  static std::optional<Columns> of(std::string_view header) {
    Columns columns;
    int at = 0;
    for (const std::string_view name : split_fields(header, ',')) {
      if (name == "TIMESTAMP") columns.time = at, columns.time_name = name;
      if (name == "ContextTokens" || name == "num_prefill_tokens") columns.prompt = at, columns.prompt_name = name;
      if (name == "GeneratedTokens" || name == "num_decode_tokens") columns.output = at, columns.output_name = name;
      ++at;
    }
    if (columns.prompt < 0 || columns.output < 0) return std::nullopt;
    return columns;
  }
};

std::string read_table_row(std::string_view line, const Columns& columns, Row& row) {
  const auto fields = split_fields(line, ',');
  const int most = std::max({columns.time, columns.prompt, columns.output});
  if (most >= static_cast<int>(fields.size()))
    return fmt::format("it has {} fields, the first line names {} or more", fields.size(), most + 1);
  const auto tokens = [&](int at, const std::string& name, std::int64_t& value) -> std::string {
    const std::string_view text = fields[static_cast<std::size_t>(at)];
    const auto whole = number<std::int64_t>(text);
    const auto decimal = number_in(text, 0, static_cast<double>(kMostTokens));
    if (!decimal || *decimal != std::floor(*decimal)) {
      return fmt::format("{} is '{}'; a whole number of 0 to {} is expected", name, printable(text), kMostTokens);
    }
    value = whole.value_or(static_cast<std::int64_t>(*decimal));
    return {};
  };
  if (columns.time >= 0) {
    const std::string_view text = fields[static_cast<std::size_t>(columns.time)];
    const auto at_s = read_time(text);
    if (!at_s)
      return fmt::format("TIMESTAMP is '{}'; YYYY-MM-DD HH:MM:SS.FFF or seconds are expected", printable(text));
    row.at_s = *at_s;
  }
  std::string why = tokens(columns.prompt, columns.prompt_name, row.prompt_tokens);
  return why.empty() ? tokens(columns.output, columns.output_name, row.output_tokens) : why;
}

std::string check_row(const Row& row, std::int64_t id_tokens) {
  if (row.prompt_tokens < 1) return "the prompt has 0 tokens; at least 1 is needed";
  if (row.prompt_tokens + row.output_tokens > kMostTokens) {
    return fmt::format("prompt and reply have {} tokens; at most {} can be simulated",
                       row.prompt_tokens + row.output_tokens, kMostTokens);
  }
  const auto wanted = (row.prompt_tokens + id_tokens - 1) / id_tokens;
  if (!row.ids.empty() && static_cast<std::int64_t>(row.ids.size()) > wanted) {
    return fmt::format("'hash_ids' has {} ids for {} tokens; one stands for {}, so {} are possible", row.ids.size(),
                       row.prompt_tokens, id_tokens, wanted);
  }
  return {};
}

// The tick of a clock coarser than a second: most requests share their time with the one before, and the times
// that differ do so by whole ticks, give or take the millisecond that rounding moves them.
double find_tick(const std::vector<TraceRow>& rows) {
  constexpr double kRounding_s = 0.0025;
  std::vector<double> gaps;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const double gap_s = rows[i].at_s - rows[i - 1].at_s;
    if (gap_s > kRounding_s) gaps.push_back(gap_s);
  }
  if (gaps.empty() || gaps.size() * 2 > rows.size()) return 0;
  std::vector<double> sorted = gaps;
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  const double tick_s = std::round(*middle * 100) / 100;
  if (tick_s < 1) return 0;
  const auto whole = std::count_if(gaps.begin(), gaps.end(), [&](double gap_s) {
    return gap_s > tick_s / 2 && std::abs(gap_s - tick_s * std::round(gap_s / tick_s)) <= kRounding_s;
  });
  return static_cast<double>(whole) >= 0.98 * static_cast<double>(gaps.size()) ? tick_s : 0;
}

// False at the end. Of a line that is longer than the buffer, which may have no end at all, what fits.
bool next_line(std::istream& in, std::vector<char>& buffer, std::string& line) {
  in.getline(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  auto read = static_cast<std::size_t>(in.gcount());
  const bool cut = in.fail() && !in.bad() && read + 1 == buffer.size();
  if (in.fail() && !cut) return false;
  if (!cut && !in.eof()) --read;  // the line's end, counted but not kept
  line.assign(buffer.data(), read);
  return true;
}

}  // namespace

Result<Trace> read_trace(const std::string& path, std::size_t limit) {
  std::ifstream in(path);
  if (!in) return fail_at("trace", ErrorCode::kNotFound, "--trace {}: cannot read it", printable(path));
  return parse_trace(in, path, limit);
}

Result<Trace> parse_trace(std::istream& in, const std::string& path, std::size_t limit) {
  Trace trace;
  trace.path = path;
  std::optional<Columns> columns;
  std::string line;
  const auto wrong = [&](std::size_t number, const std::string& why) {
    return fail_at("trace", ErrorCode::kCorruptFile, "--trace {}, line {}: {}", printable(path), number, why);
  };
  std::vector<char> buffer(kMostLineBytes + 2);
  for (std::size_t number = 1; trace.rows.size() < limit && next_line(in, buffer, line); ++number) {
    if (line.size() > kMostLineBytes) return wrong(number, fmt::format("it has more than {} bytes", kMostLineBytes));
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (number == 1 && line.starts_with("\xEF\xBB\xBF")) line.erase(0, 3);
    if (line.empty()) continue;
    if (number == 1 && line.front() != '{') {
      columns = Columns::of(line);
      if (!columns) {
        return wrong(number,
                     "expected JSON objects with timestamp, input_length and output_length, or the names of columns, "
                     "among them ContextTokens and GeneratedTokens or num_prefill_tokens and num_decode_tokens");
      }
      trace.has_times = columns->time >= 0;
      continue;
    }
    Row row;
    std::string why = columns ? read_table_row(line, *columns, row) : read_json_row(line, row);
    if (why.empty()) why = check_row(row, trace.id_tokens);
    if (why.empty() && trace.ids.size() + row.ids.size() > kMostIds) why = "there are too many ids";
    if (!why.empty()) return wrong(number, why);
    trace.rows.push_back({row.at_s, row.prompt_tokens, row.output_tokens, static_cast<std::uint32_t>(trace.ids.size()),
                          static_cast<std::uint32_t>(row.ids.size())});
    trace.ids.insert(trace.ids.end(), row.ids.begin(), row.ids.end());
  }
  if (in.bad()) return fail_at("trace", ErrorCode::kNotFound, "--trace {}: cannot read it", printable(path));
  if (trace.rows.empty())
    return fail_at("trace", ErrorCode::kCorruptFile, "--trace {}: it has no requests", printable(path));
  std::stable_sort(trace.rows.begin(), trace.rows.end(),
                   [](const TraceRow& a, const TraceRow& b) { return a.at_s < b.at_s; });
  if (trace.has_times) trace.tick_s = find_tick(trace.rows);
  const double start_s = trace.rows.front().at_s;
  for (TraceRow& row : trace.rows) row.at_s -= start_s;
  return trace;
}

}  // namespace weir::traffic
