// Comma-separated values with quotes (RFC 4180), as the planner's data and the files it is given have them.
//
// Hostile input: at most kMaxCsvColumns columns; a row with another number of them than the header is an error with its
// line. Columns are asked for by name, so that their order is the file's own affair.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::plan {

constexpr std::size_t kMaxCsvColumns = 1000, kMaxCsvRows = 10'000'000;

class Csv {
 public:
  // `file` is named in errors.
  static Result<Csv> parse(std::string_view text, const std::string& file);

  std::size_t rows() const { return rows_.size(); }
  const std::vector<std::string>& columns() const { return columns_; }
  bool has(std::string_view column) const;
  Status require(const std::vector<std::string>& columns) const;  // kCorruptFile naming all that are missing
  // Empty where the file has no such column.
  std::string_view at(std::size_t row, std::string_view column) const;
  // `otherwise` where it is empty; kCorruptFile with line and column where it is no finite number.
  Result<double> number(std::size_t row, std::string_view column, double otherwise) const;

 private:
  std::string file_;
  std::vector<std::string> columns_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::vector<std::vector<std::string>> rows_;
};

// The whole text must be one finite number.
Result<double> parse_number(std::string_view text, std::string_view what);

}  // namespace weir::plan
