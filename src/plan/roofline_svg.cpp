#include <algorithm>
#include <cmath>

#include "plan/markup.h"
#include "plan/roofline.h"

namespace weir::plan {
namespace {

// The picture, in its own units.
constexpr double kWidth = 900, kHeight = 560, kLeft = 80, kRight = 250, kTop = 50, kBottom = 60;
constexpr double kLeastIntensity = 0.1, kMostIntensity = 1e5;

class Plot {
 public:
  Plot(const Hardware& hardware) : hardware_(hardware) {
    const double peak = std::max(
        {hardware.peak_tflops(16), hardware.peak_tflops(8), hardware.peak_tflops(8, true), hardware.peak_tflops(4)});
    most_tflops_ = std::pow(10, std::ceil(std::log10(peak * 1.01)));
    least_tflops_ = most_tflops_ / 1e5;
  }

  double x(double intensity) const {
    const double at = std::log10(std::clamp(intensity, kLeastIntensity, kMostIntensity) / kLeastIntensity) /
                      std::log10(kMostIntensity / kLeastIntensity);
    return kLeft + at * (kWidth - kLeft - kRight);
  }
  double y(double tflops) const {
    const double at = std::log10(std::clamp(tflops, least_tflops_, most_tflops_) / least_tflops_) /
                      std::log10(most_tflops_ / least_tflops_);
    return kHeight - kBottom - at * (kHeight - kTop - kBottom);
  }

  std::string axes() const {
    std::string svg;
    for (double value = kLeastIntensity; value <= kMostIntensity * 1.001; value *= 10) {
      svg += fmt::format(
          "<line x1='{0:.1f}' x2='{0:.1f}' y1='{1}' y2='{2}' class='grid'/><text x='{0:.1f}' y='{3}' "
          "text-anchor='middle'>{4:g}</text>\n",
          x(value), kTop, kHeight - kBottom, kHeight - kBottom + 18, value);
    }
    for (double value = least_tflops_; value <= most_tflops_ * 1.001; value *= 10) {
      svg += fmt::format(
          "<line x1='{0}' x2='{1}' y1='{2:.1f}' y2='{2:.1f}' class='grid'/><text x='{3}' y='{4:.1f}' "
          "text-anchor='end'>{5:g}</text>\n",
          kLeft, kWidth - kRight, y(value), kLeft - 8, y(value) + 4, value);
    }
    svg += fmt::format("<text x='{}' y='{}' text-anchor='middle'>operations per byte</text>\n",
                       (kLeft + kWidth - kRight) / 2, kHeight - 18);
    svg += fmt::format("<text transform='translate(22 {}) rotate(-90)' text-anchor='middle'>TFLOP/s</text>\n",
                       (kTop + kHeight - kBottom) / 2);
    return svg;
  }

  std::string roof(double bits, bool integer) const {
    const double peak = hardware_.peak_tflops(bits, integer), slope = hardware_.bandwidth_gbs / 1000;
    const double start = std::max(kLeastIntensity, least_tflops_ / slope), ridge = peak / slope;
    return fmt::format(
        "<polyline points='{:.1f},{:.1f} {:.1f},{:.1f} {:.1f},{:.1f}' class='roof'/><text x='{:.1f}' y='{:.1f}' "
        "text-anchor='end'>{:g} bits{}: {:g} TFLOP/s, ridge {:.0f}</text>\n",
        x(start), y(start * slope), x(ridge), y(peak), x(kMostIntensity), y(peak), x(kMostIntensity) - 4, y(peak) + 15,
        bits, integer ? " (integers)" : "", peak, ridge);
  }

  std::string point(const Operator& one, const char* kind, int number) const {
    const double tflops = std::min(hardware_.peak_tflops(one.compute_bits, one.integer),
                                   one.intensity() * hardware_.bandwidth_gbs / 1000);
    return fmt::format(
        "<circle cx='{0:.1f}' cy='{1:.1f}' r='6' class='{2}'><title>{3}: {4:.1f} operations per byte</title></circle>"
        "<text x='{0:.1f}' y='{5:.1f}' text-anchor='middle' class='number'>{6}</text>\n",
        x(one.intensity()), y(tflops), kind, escape_markup(one.name), one.intensity(), y(tflops) - 9, number);
  }

 private:
  const Hardware& hardware_;
  double least_tflops_ = 0, most_tflops_ = 0;
};

}  // namespace

std::string roofline_svg(const std::string& title, const Hardware& hardware, const std::vector<Operator>& decode,
                         const std::vector<Operator>& prefill) {
  const Plot plot(hardware);
  std::string svg;
  svg += plot.axes();
  double last_peak = 0;
  for (const double bits : {16.0, 8.0, 4.0}) {
    const bool integer = std::ranges::any_of(decode, &Operator::integer) && bits == 8;
    if (hardware.peak_tflops(bits, integer) <= last_peak) continue;
    last_peak = hardware.peak_tflops(bits, integer);
    svg += plot.roof(bits, integer);
  }
  int number = 0;
  double line = kTop + 10;
  const auto add = [&](const std::vector<Operator>& operators, const char* kind, const char* name) {
    svg += fmt::format("<text x='{}' y='{}' font-weight='bold'>{}</text>\n", kWidth - kRight + 15, line, name);
    line += 16;
    for (const Operator& one : operators) {
      if (one.flops <= 0 || one.bytes() <= 0) continue;
      // Dense and sparse layers have operators alike: one point for all.
      const bool again = std::any_of(operators.data(), &one, [&](const Operator& earlier) {
        return earlier.name == one.name && earlier.intensity() == one.intensity();
      });
      if (again) continue;
      svg += plot.point(one, kind, ++number);
      svg += fmt::format("<circle cx='{}' cy='{}' r='5' class='{}'/><text x='{}' y='{}'>{} {} ({:.1f})</text>\n",
                         kWidth - kRight + 20, line - 4, kind, kWidth - kRight + 30, line, number,
                         escape_markup(one.name), one.intensity());
      line += 15;
    }
    line += 8;
  };
  add(decode, "decode", "decoding");
  add(prefill, "prefill", "prefill");
  const std::string frame = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {} {}' font-family='sans-serif' font-size='12'>\n"
      "<style>.grid{{stroke:#ddd}}.roof{{fill:none;stroke:#333;stroke-width:2}}.decode{{fill:#c0392b}}"
      ".prefill{{fill:#2471a3}}.number{{font-size:10px}}</style>\n"
      "<rect width='100%' height='100%' fill='white'/><text x='{}' y='28' font-size='16'>{}</text>\n",
      kWidth, std::max(kHeight, line), kLeft, escape_markup(title));
  return frame + svg + "</svg>\n";
}

}  // namespace weir::plan
