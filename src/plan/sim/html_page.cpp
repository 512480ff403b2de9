// The page of a simulation, one HTML file with SVG in it that loads nothing, and its pictures alone.
#include <algorithm>
#include <cmath>

#include "plan/markup.h"
#include "plan/sim/sim_report.h"

namespace weir::plan::sim {

namespace {

constexpr double kWidth = 720, kHeight = 260, kLeft = 64, kRight = 12, kTop = 14, kBottom = 36;
constexpr std::size_t kMostPoints = 600;  // of a line: more than a screen shows

struct Line {
  std::string name, colour;
  std::vector<std::pair<double, double>> points;
};

// 1, 2 or 5 times a power of ten: five to ten of them span the range.
double tick_of(double span) {
  if (!(span > 0)) return 1;
  const double power = std::pow(10, std::floor(std::log10(span / 5)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (span / (factor * power) <= 8) return factor * power;
  }
  return 10 * power;
}

struct Plot {
  std::string title, x_name, y_name;
  bool log_x = false;
  std::vector<Line> lines;

  double left = 0, right = 1, top = 1;

  double x(double value) const {
    const double at = log_x ? std::log10(value) : value;
    return kLeft + (at - left) / std::max(right - left, 1e-300) * (kWidth - kLeft - kRight);
  }
  double y(double value) const { return kTop + (1 - value / top) * (kHeight - kTop - kBottom); }

  void fit() {
    double low = HUGE_VAL, high = -HUGE_VAL, most = 0;
    for (const Line& line : lines) {
      for (const auto& [px, py] : line.points) {
        low = std::min(low, px);
        high = std::max(high, px);
        most = std::max(most, py);
      }
    }
    if (low > high) low = 0, high = 1;
    left = log_x ? std::floor(std::log10(low)) : low;
    right = log_x ? std::max(std::ceil(std::log10(high)), left + 1) : std::max(high, low + 1e-9);
    top = most > 0 ? most * 1.05 : 1;
  }

  std::string figure() {
    return fmt::format("<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\">{}</svg></figure>\n",
                       escape_markup(title), kWidth, kHeight, drawing());
  }

  // What is inside of the picture.
  std::string drawing() {
    fit();
    std::string out;
    const double bottom = kHeight - kBottom;
    const auto vertical = [&](double px, const std::string& label) {
      out += fmt::format(
          "<path class=\"grid\" d=\"M{0:.1f} {1}V{2}\"/><text x=\"{0:.1f}\" y=\"{3}\" "
          "text-anchor=\"middle\">{4}</text>",
          px, kTop, bottom, bottom + 15, label);
    };
    if (log_x) {
      for (double power = left; power <= right; ++power)
        vertical(x(std::pow(10, power)), fmt::format("{:g}", std::pow(10, power)));
    } else {
      const double tick = tick_of(right - left);
      for (double at = std::ceil(left / tick) * tick; at <= right; at += tick) vertical(x(at), fmt::format("{:g}", at));
    }
    const double tick = tick_of(top);
    for (int i = 0; i * tick <= top; ++i) {
      out += fmt::format(
          "<path class=\"grid\" d=\"M{} {:.1f}H{}\"/><text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:g}</text>",
          kLeft, y(i * tick), kWidth - kRight, kLeft - 6, y(i * tick) + 4, i * tick);
    }
    double legend = kLeft + 10;
    for (const Line& line : lines) {
      std::string path;
      for (const auto& [px, py] : line.points)
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(px), y(py));
      out += fmt::format("<path class=\"line\" stroke=\"{}\" d=\"{}\"/>", line.colour, path);
      out += fmt::format("<text x=\"{:.0f}\" y=\"{}\" style=\"fill:{}\">{}</text>", legend, kTop + 12, line.colour,
                         escape_markup(line.name));
      legend += 14 + 8 * static_cast<double>(line.name.size());
    }
    out += fmt::format("<text x=\"{:.0f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", (kLeft + kWidth) / 2,
                       kHeight - 4, escape_markup(x_name));
    out += fmt::format("<text transform=\"translate(13 {:.0f}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
                       kHeight / 2, escape_markup(y_name));
    return out;
  }
};

// Share of values up to x, in ms.
Line cumulative(std::string name, std::string colour, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  Line line{std::move(name), std::move(colour), {}};
  const std::size_t step = std::max<std::size_t>(1, values.size() / kMostPoints);
  for (std::size_t i = 0; i < values.size(); i += step) {
    line.points.emplace_back(std::max(values[i] * 1e3, 1e-3),
                             100.0 * static_cast<double>(i + 1) / static_cast<double>(values.size()));
  }
  if (!values.empty()) line.points.emplace_back(std::max(values.back() * 1e3, 1e-3), 100.0);
  return line;
}

std::vector<double> of_requests(const SimResult& result, double (RequestResult::*what)() const, bool replies) {
  std::vector<double> values;
  for (const RequestResult& request : result.requests) {
    if (!request.refused && (!replies || request.output_tokens > 1)) values.push_back((request.*what)());
  }
  return values;
}

Plot latency_plot(const SimResult& result) {
  Plot plot{"Latency: share of requests within", "ms", "%", true, {}};
  plot.lines.push_back(cumulative("TTFT", "#1f6fb2", of_requests(result, &RequestResult::ttft_s, false)));
  plot.lines.push_back(cumulative("TPOT", "#c2571a", of_requests(result, &RequestResult::tpot_s, true)));
  plot.lines.push_back(cumulative("E2E", "#3d8a3d", of_requests(result, &RequestResult::e2e_s, false)));
  std::erase_if(plot.lines, [](const Line& line) { return line.points.empty(); });
  return plot;
}

// Requests sent and not done, and those without a first token, over time.
Plot system_plot(const SimResult& result) {
  std::vector<std::pair<double, std::pair<int, int>>> changes;
  double end_s = 0;
  for (const RequestResult& request : result.requests) {
    if (request.refused) continue;
    changes.push_back({request.sent_s, {1, 1}});
    changes.push_back({request.first_s, {0, -1}});
    changes.push_back({request.last_s, {-1, 0}});
    end_s = std::max(end_s, request.last_s);
  }
  std::sort(changes.begin(), changes.end());
  Line all{"in the system", "#1f6fb2", {}}, waiting{"without a first token", "#c2571a", {}};
  int here = 0, without = 0;
  std::size_t next = 0;
  for (std::size_t i = 0; i <= kMostPoints; ++i) {
    const double at_s = end_s * static_cast<double>(i) / static_cast<double>(kMostPoints);
    for (; next < changes.size() && changes[next].first <= at_s; ++next) {
      here += changes[next].second.first;
      without += changes[next].second.second;
    }
    all.points.emplace_back(at_s, here);
    waiting.points.emplace_back(at_s, without);
  }
  return {"Requests over time", "s", "requests", false, {all, waiting}};
}

// TTFT of those sent in each hundredth of the time.
Plot ttft_plot(const SimResult& result) {
  constexpr std::size_t kSlots = 100;
  double last_s = 1e-9;
  for (const RequestResult& request : result.requests) last_s = std::max(last_s, request.sent_s);
  std::vector<std::vector<double>> slots(kSlots);
  for (const RequestResult& request : result.requests) {
    if (request.refused) continue;
    const auto slot = static_cast<std::size_t>(std::max(0.0, request.sent_s) / last_s * kSlots);
    slots[std::min(slot, kSlots - 1)].push_back(request.ttft_s());
  }
  Line median{"median", "#1f6fb2", {}}, worst{"greatest", "#c2571a", {}};
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (slots[i].empty()) continue;
    const Statistic s = statistic_of(slots[i]);
    const double at_s = last_s * (static_cast<double>(i) + 0.5) / kSlots;
    median.points.emplace_back(at_s, s.p50 * 1e3);
    worst.points.emplace_back(at_s, s.most * 1e3);
  }
  return {"TTFT by the time of sending", "s", "ms", false, {median, worst}};
}

std::string instances_table(const SimResult& result) {
  std::string out =
      "<table><tr><th>instance<th>steps<th>tokens computed<th>busy %<th>KV peak %<th>prefix hits %<th>preemptions</tr>";
  for (std::size_t i = 0; i < result.instances.size(); ++i) {
    const InstanceResult& r = result.instances[i];
    const double queried = static_cast<double>(r.prefix_queries_tokens);
    out += fmt::format("<tr><td>{}<td>{}<td>{}<td>{:.1f}<td>{:.1f}<td>{:.1f}<td>{}</tr>", i, r.steps, r.tokens,
                       result.end_s > 0 ? 100 * r.busy_s / result.end_s : 0, 100 * r.kv_peak,
                       queried > 0 ? 100 * static_cast<double>(r.prefix_hits_tokens) / queried : 0, r.preemptions);
  }
  return out + "</table>\n";
}

}  // namespace

std::string html_page(const Report& report, const SimResult& result, const Workload& workload) {
  std::string page =
      "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>weir plan sim</title><style>"
      "body{font:15px/1.45 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 "
      "1rem;color:#222;background:#fff}"
      "pre{background:#f5f5f2;padding:1rem;overflow-x:auto;font-size:13px}figure{display:inline-block;width:36rem;max-"
      "width:100%;margin:0 1rem 1rem 0}"
      "figcaption{font-weight:600}svg{width:100%}svg text{font-size:11px;fill:#555}.grid{stroke:#e2e2de;fill:none}"
      ".line{fill:none;stroke-width:1.6}table{border-collapse:collapse}th,td{padding:.2rem "
      ".7rem;text-align:right;border-bottom:1px solid #ddd}"
      "</style>\n";
  page += fmt::format("<h1>{}</h1>\n<pre>{}</pre>\n", escape_markup(workload.name), escape_markup(report.text));
  page += latency_plot(result).figure() + system_plot(result).figure() + ttft_plot(result).figure();
  page += "<h2>Instances</h2>\n" + instances_table(result);
  page += fmt::format("<h2>Figures</h2>\n<pre>{}</pre>\n</html>\n", escape_markup(report.json.dump(2)));
  return page;
}

std::string svg_picture(const SimResult& result, const Workload& workload) {
  constexpr double kTitle = 26, kEach = kTitle + kHeight;
  std::string body;
  double at = kTitle;
  for (Plot plot : {latency_plot(result), system_plot(result), ttft_plot(result)}) {
    body += fmt::format("<g transform=\"translate(0 {:.0f})\"><text x=\"{}\" y=\"{}\" class=\"title\">{}</text>", at,
                        kLeft, kTitle - 8, escape_markup(plot.title));
    body += fmt::format("<g transform=\"translate(0 {:.0f})\">{}</g></g>\n", kTitle, plot.drawing());
    at += kEach;
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1:.0f}\" width=\"{0}\" height=\"{1:.0f}\" "
      "role=\"img\">"
      "<style>text{{font:11px sans-serif;fill:#555}}.title{{font-weight:bold;fill:#222}}"
      ".grid{{stroke:#e2e2de;fill:none}}.line{{fill:none;stroke-width:1.6}}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
      "<text x=\"{2}\" y=\"{3}\" class=\"title\">{4}</text>\n{5}</svg>\n",
      kWidth, at + 4, kLeft, kTitle - 8, escape_markup(workload.name), body);
}

}  // namespace weir::plan::sim
