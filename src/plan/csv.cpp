#include "plan/csv.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

namespace weir::plan {
namespace {

// One line's fields from `at`, which moves behind it.
Result<std::vector<std::string>> read_row(std::string_view text, std::size_t& at, const std::string& file,
                                          std::size_t line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c != '"') {
        fields.back() += c;
      } else if (at + 1 < text.size() && text[at + 1] == '"') {
        fields.back() += text[++at];
      } else {
        quoted = false;
      }
    } else if (c == '"' && fields.back().empty()) {
      quoted = true;
    } else if (c == ',') {
      if (fields.size() == kMaxCsvColumns)
        return fail(ErrorCode::kCorruptFile, "{}, row {}: more than {} columns", file, line, kMaxCsvColumns);
      fields.emplace_back();
    } else if (c == '\n') {
      ++at;
      break;
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  if (quoted) return fail(ErrorCode::kCorruptFile, "{}, row {}: a quote without its end", file, line);
  return fields;
}

}  // namespace

Result<Csv> Csv::parse(std::string_view text, const std::string& file) {
  Csv csv;
  csv.file_ = file;
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::size_t at = 0;
  WEIR_TRY(csv.columns_, read_row(text, at, file, 1));
  for (std::size_t i = 0; i < csv.columns_.size(); ++i) csv.index_.try_emplace(csv.columns_[i], i);
  for (std::size_t line = 2; at < text.size(); ++line) {
    WEIR_TRY(auto row, read_row(text, at, file, line));
    if (row.size() == 1 && row[0].empty()) continue;
    if (row.size() != csv.columns_.size()) {
      return fail(ErrorCode::kCorruptFile, "{}, row {}: {} fields, where the header has {}", file, line, row.size(),
                  csv.columns_.size());
    }
    if (csv.rows_.size() == kMaxCsvRows) return fail(ErrorCode::kTooLarge, "{}: more than {} rows", file, kMaxCsvRows);
    csv.rows_.push_back(std::move(row));
  }
  return csv;
}

bool Csv::has(std::string_view column) const {
  return index_.contains(column);
}

Status Csv::require(const std::vector<std::string>& columns) const {
  std::vector<std::string> missing;
  for (const std::string& column : columns) {
    if (!has(column)) missing.push_back(column);
  }
  if (missing.empty()) return {};
  return fail(ErrorCode::kCorruptFile, "{}: no column {}; the header needs {}", file_, fmt::join(missing, ", "),
              fmt::join(columns, ", "));
}

std::string_view Csv::at(std::size_t row, std::string_view column) const {
  const auto found = index_.find(column);
  return found == index_.end() ? std::string_view() : std::string_view(rows_[row][found->second]);
}

Result<double> Csv::number(std::size_t row, std::string_view column, double otherwise) const {
  const std::string_view text = at(row, column);
  if (text.empty()) return otherwise;
  return parse_number(text, fmt::format("{}, row {}, {}", file_, row + 2, column));
}

Result<double> parse_number(std::string_view text, std::string_view what) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return fail(ErrorCode::kCorruptFile, "{}: \"{}\" is no finite number", what, std::string(text.substr(0, 60)));
  }
  return value;
}

}  // namespace weir::plan
