// A search's result for people and for programs.
#include <algorithm>
#include <map>

#include "base/printable.h"
#include "plan/search/parallel_plan.h"

namespace weir::plan {
namespace {

using Json = nlohmann::ordered_json;

// "2 x TP1 -> 1 x TP4" for prompts and decoding apart, "4 x TP2" for both together.
std::string deployment_name(const Deployment& deployment) {
  const auto pool = [](const Pool& p) { return fmt::format("{} x {}", p.instances, p.layout.name()); };
  return deployment.disaggregated ? pool(deployment.prefill) + " -> " + pool(deployment.serving)
                                  : pool(deployment.serving);
}

Json layout_json(const ParallelLayout& layout) {
  return {{"tp", layout.tp}, {"pp", layout.pp}, {"dp", layout.dp},
          {"ep", layout.ep}, {"cp", layout.cp}, {"devices", layout.devices()}};
}

Json memory_json(const DeviceBytes& memory) {
  return {{"usable_bytes", memory.usable}, {"weights_bytes", memory.weights}, {"workspace_bytes", memory.workspace}};
}

Json point_json(const SearchPoint& point) {
  Json json;
  const auto& deployment = point.deployment;
  json["deployment"] = deployment_name(deployment);
  json["disaggregated"] = deployment.disaggregated;
  if (deployment.disaggregated)
    json["prefill"] = {{"instances", deployment.prefill.instances}, {"layout", layout_json(deployment.prefill.layout)}};
  json[deployment.disaggregated ? "decode" : "serving"] = {{"instances", deployment.serving.instances},
                                                           {"layout", layout_json(deployment.serving.layout)}};
  json["devices"] = deployment.devices();
  json["weights"] = point.precision.weights.name;
  json["kv_bits"] = point.precision.kv_bits;
  json["batch"] = point.batch;
  json["batch_tokens"] = point.batch_tokens;
  json["block_size"] = point.block_size;
  json["tokens_per_s_user"] = point.user_tokens_s;
  json["tokens_per_s_device"] = point.device_tokens_s;
  json["requests_per_s"] = point.requests_s;
  json["ttft_ms"] = point.ttft_ms;
  json["tpot_ms"] = point.tpot_ms;
  if (point.cost_output > 0) {
    json["cost_per_million_output"] = point.cost_output;
    json["cost_per_million_tokens"] = point.cost_all;
  }
  json["binds"] = resource_name(point.binds);
  json["batch_limited_by"] = point.limit == BatchLimit::kNothing ? Json(nullptr) : Json(batch_limit_name(point.limit));
  json["step_ms"] = {{"memory", point.parts.memory_s * 1e3},
                     {"compute", point.parts.compute_s * 1e3},
                     {"links", point.parts.links_s * 1e3},
                     {"fixed", point.parts.fixed_s * 1e3}};
  json["device_memory"] = memory_json(point.memory);
  json["device_memory"]["kv_bytes"] = point.kv_bytes;
  return json;
}

std::string row(const SearchPoint& point) {
  const std::string binds =
      fmt::format("{}{}{}", resource_name(point.binds), point.limit == BatchLimit::kNothing ? "" : ", then ",
                  batch_limit_name(point.limit));
  const std::string cost = point.cost_output > 0 ? fmt::format("{:.3f}", point.cost_output) : "-";
  return fmt::format("{:>9.1f} {:>10.1f} {:>8.2f} {:>9.1f} {:>9} {:>6} {:>6} {:>5}  {:<28} {:<18} {}\n",
                     point.user_tokens_s, point.device_tokens_s, point.tpot_ms, point.ttft_ms, cost, point.batch,
                     point.batch_tokens, point.block_size, deployment_name(point.deployment), point.precision.name(),
                     binds);
}

constexpr const char* kHeading =
    "   tok/s/     tok/s/     TPOT      TTFT    $ / M          max\n"
    "     user     device       ms        ms   output  batch tokens block  deployment                   precision   "
    "       bound by, batch limited by\n";

// `count` of the points, spread evenly over the logarithm of the rate per user, both ends among them.
std::vector<const SearchPoint*> spread(const std::vector<SearchPoint>& points, int count) {
  std::vector<const SearchPoint*> chosen;
  const auto wanted = static_cast<std::size_t>(std::max(count, 2));
  if (points.size() <= wanted) {
    for (const auto& point : points) chosen.push_back(&point);
    return chosen;
  }
  const double first = std::log(points.front().user_tokens_s), last = std::log(points.back().user_tokens_s);
  std::size_t next = 0;
  for (std::size_t i = 0; i < wanted; ++i) {
    const double at = first + (last - first) * static_cast<double>(i) / static_cast<double>(wanted - 1);
    while (next + 1 < points.size() && std::log(points[next].user_tokens_s) > at + 1e-12) ++next;
    if (chosen.empty() || chosen.back() != &points[next]) chosen.push_back(&points[next]);
  }
  return chosen;
}

// By term the layout that is nearest to fitting, and how many there are.
std::string refusals_text(const std::vector<Refusal>& refusals) {
  std::map<std::string, std::pair<const Refusal*, int>> by_term;
  for (const auto& refusal : refusals) {
    auto& [nearest, count] = by_term[refusal.term];
    ++count;
    if (!nearest || refusal.need * nearest->have < nearest->need * refusal.have) nearest = &refusal;
  }
  std::string text;
  for (const auto& [term, entry] : by_term) {
    const auto& [nearest, count] = entry;
    text += fmt::format("  {:<9} {:>5} refused, nearest {} ({}): {}\n", term, count, nearest->layout.name(),
                        nearest->precision.name(), nearest->text);
  }
  return text;
}

std::string objectives_text(const SearchRequest& request) {
  std::string text;
  if (request.ttft_ms) text += fmt::format(", TTFT <= {} ms", *request.ttft_ms);
  if (request.tpot_ms) text += fmt::format(", TPOT <= {} ms", *request.tpot_ms);
  return text;
}

}  // namespace

Report search_report(const SearchTitle& title, const SearchRequest& request, const SearchResult& result, int top) {
  Report report;
  const auto& workload = request.workload;
  report.text = fmt::format(
      "{} on up to {} x {}: {:.0f} tokens in ({:.0f} % cached), {:.0f} out{}\n{} layouts under {} "
      "precisions; {} states worked out, {} more ruled out by bounds\nstep times: {}\n\n",
      printable(title.model), request.max_devices, printable(title.hardware), workload.input_tokens,
      workload.cached_fraction * 100, workload.output_tokens, objectives_text(request), request.layouts.size(),
      request.precisions.size(), result.evaluated, result.pruned, title.step_times);
  const auto shown = spread(result.front, top);
  report.text += fmt::format("Pareto front, {} of {} points:\n{}", shown.size(), result.front.size(), kHeading);
  for (const auto* point : shown) report.text += row(*point);
  report.text += fmt::format("\nBest of each layout, {} of {}:\n{}", std::min<std::size_t>(top, result.best.size()),
                             result.best.size(), kHeading);
  for (std::size_t i = 0; i < result.best.size() && i < static_cast<std::size_t>(top); ++i)
    report.text += row(result.best[i]);
  if (request.price_per_device_hour <= 0)
    report.text += "\nNo costs: say what a device costs an hour (--price); the hardware table has no prices.\n";
  if (!result.refusals.empty()) report.text += "\nRuled out:\n" + refusals_text(result.refusals);

  Json& json = report.json;
  json["model"] = printable(title.model);
  json["hardware"] = printable(title.hardware);
  json["step_times"] = title.step_times;
  json["max_devices"] = request.max_devices;
  json["workload"] = {{"input_tokens", workload.input_tokens},
                      {"output_tokens", workload.output_tokens},
                      {"cached_fraction", workload.cached_fraction}};
  json["ttft_ms"] = request.ttft_ms ? Json(*request.ttft_ms) : Json(nullptr);
  json["tpot_ms"] = request.tpot_ms ? Json(*request.tpot_ms) : Json(nullptr);
  json["price_per_device_hour"] = request.price_per_device_hour;
  json["evaluated"] = result.evaluated;
  json["pruned"] = result.pruned;
  json["front"] = Json::array();
  for (const auto& point : result.front) json["front"].push_back(point_json(point));
  json["best"] = Json::array();
  for (const auto& point : result.best) json["best"].push_back(point_json(point));
  json["refusals"] = Json::array();
  for (const auto& refusal : result.refusals) {
    json["refusals"].push_back({{"layout", refusal.layout.name()},
                                {"precision", refusal.precision.name()},
                                {"term", refusal.term},
                                {"need", refusal.need},
                                {"have", refusal.have},
                                {"text", refusal.text}});
  }
  return report;
}

}  // namespace weir::plan
