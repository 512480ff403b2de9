// CLI::Range lets "nan" pass: it is neither below nor above anything.
#pragma once

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>

namespace weir::apps {

inline CLI::Validator number_range(double least, double most) {
  const std::string range = fmt::format("[{:g} - {:g}]", least, most);
  return CLI::Validator(
      [=](std::string& text) {
        double value = 0;
        if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return std::string();
        return fmt::format("'{}' is no number of {:g} to {:g}", text.substr(0, 80), least, most);
      },
      "FLOAT in " + range);
}

}  // namespace weir::apps
