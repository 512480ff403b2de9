// The Pareto front as SVG: tokens per second per device over tokens per second per user, both logarithmic.
#include <algorithm>
#include <cmath>

#include "plan/markup.h"
#include "plan/search/parallel_plan.h"

namespace weir::plan {
namespace {

constexpr double kWidth = 800, kHeight = 500, kLeft = 80, kRight = 20, kTop = 50, kBottom = 60;

struct Axis {
  double low, high;  // values at both ends
  double from, to;   // pixels
  double at(double value) const {
    return from + (to - from) * (std::log(value) - std::log(low)) / (std::log(high) - std::log(low));
  }
};

// 1, 2 and 5 times powers of ten.
std::vector<double> ticks(double low, double high) {
  std::vector<double> values;
  for (double power = std::pow(10, std::floor(std::log10(low))); power <= high && values.size() < 60; power *= 10) {
    for (const double step : {1.0, 2.0, 5.0}) {
      if (step * power >= low && step * power <= high) values.push_back(step * power);
    }
  }
  return values;
}

std::string text(double x, double y, const char* anchor, const std::string& content) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_markup(content));
}

std::string line(double x1, double y1, double x2, double y2) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ccd3d5\"/>\n", x1, y1, x2,
                     y2);
}

}  // namespace

std::string front_svg(const SearchTitle& title, const SearchResult& result) {
  const auto& front = result.front;
  if (front.empty()) return {};
  const Axis x{front.back().user_tokens_s / 1.2, front.front().user_tokens_s * 1.2, kLeft, kWidth - kRight};
  const Axis y{front.front().device_tokens_s / 1.2, front.back().device_tokens_s * 1.2, kHeight - kBottom, kTop};
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#1b2426\">\n<rect width=\"100%\" height=\"100%\" "
      "fill=\"#ffffff\"/>\n",
      kWidth, kHeight);
  svg += text(kLeft, 24, "start", fmt::format("{} on {}: Pareto front", title.model, title.hardware));
  for (const double value : ticks(x.low, x.high)) {
    svg += line(x.at(value), y.from, x.at(value), y.to);
    svg += text(x.at(value), y.from + 18, "middle", fmt::format("{:g}", value));
  }
  for (const double value : ticks(y.low, y.high)) {
    svg += line(x.from, y.at(value), x.to, y.at(value));
    svg += text(x.from - 6, y.at(value) + 4, "end", fmt::format("{:g}", value));
  }
  svg += text((x.from + x.to) / 2, kHeight - 14, "middle", "tokens per second per user");
  svg += fmt::format("<g transform=\"rotate(-90 16 {:.1f})\">", kHeight / 2) +
         text(16, kHeight / 2, "middle", "tokens per second per device") + "</g>\n";
  std::string path;
  for (const auto& point : front)
    path += fmt::format("{:.1f},{:.1f} ", x.at(point.user_tokens_s), y.at(point.device_tokens_s));
  svg += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"#0b6e6e\" stroke-width=\"1.5\"/>\n", path);
  for (const auto& point : front) {
    svg += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" fill=\"{}\"><title>{}</title></circle>\n",
        x.at(point.user_tokens_s), y.at(point.device_tokens_s), point.deployment.disaggregated ? "#b45309" : "#0b6e6e",
        escape_markup(fmt::format("{}, {}, batch {}: TPOT {:.2f} ms", point.deployment.serving.layout.name(),
                                  point.precision.name(), point.batch, point.tpot_ms)));
  }
  svg += fmt::format("<circle cx=\"{0}\" cy=\"36\" r=\"3.5\" fill=\"#0b6e6e\"/>\n", kLeft + 4) +
         text(kLeft + 14, 40, "start", "prompts and decoding together") +
         fmt::format("<circle cx=\"{0}\" cy=\"36\" r=\"3.5\" fill=\"#b45309\"/>\n", kLeft + 214) +
         text(kLeft + 224, 40, "start", "apart");
  return svg + "</svg>\n";
}

}  // namespace weir::plan
