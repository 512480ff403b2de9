#include "plan/calibrated_step.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace weir::plan {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "weir step model 1";
constexpr std::size_t kMaxFileBytes = 1 << 20, kMaxKnots = 256, kMaxName = 1000;
constexpr double kMaxSeconds = 1e6;  // of one step or coefficient: no machine is that slow

tl::unexpected<Error> bad(const std::string& field, const std::string& why) {
  return fail_at(field, ErrorCode::kCorruptFile, "step model: {}: {}", field, why);
}

Result<double> number(const Json& object, const char* key, double most = kMaxSeconds) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_number()) return bad(key, "a number is expected here");
  const auto value = it->get<double>();
  if (!(value >= 0 && value <= most)) return bad(key, fmt::format("{:g} is not within 0 to {:g}", value, most));
  return value;
}

Result<PiecewiseLinear> points(const Json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || !it->is_array()) return bad(key, "a list of [x, seconds] is expected here");
  if (it->size() > kMaxKnots) return bad(key, fmt::format("{} points; at most {}", it->size(), kMaxKnots));
  PiecewiseLinear out;
  for (const Json& point : *it) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number() || !point[1].is_number())
      return bad(key, "a point is not [x, seconds]");
    const auto x = point[0].get<double>(), y = point[1].get<double>();
    if (!(x >= 0 && x <= 1e9) || !(y >= 0 && y <= kMaxSeconds))
      return bad(key, fmt::format("the point [{:g}, {:g}] is out of range", x, y));
    if (!out.at.empty() && x <= out.at.back())
      return bad(key, fmt::format("x must ascend; {:g} follows {:g}", x, out.at.back()));
    out.at.push_back(x);
    out.value.push_back(y);
  }
  return out;
}

Json points_json(const PiecewiseLinear& f) {
  Json out = Json::array();
  for (std::size_t i = 0; i < f.at.size(); ++i) out.push_back({f.at[i], f.value[i]});
  return out;
}

Result<std::string> name_of(const Json& json, const char* key) {
  const auto it = json.find(key);
  if (it == json.end()) return std::string();
  if (!it->is_string() || it->get_ref<const std::string&>().size() > kMaxName)
    return bad(key, "a short text is expected");
  return printable(it->get<std::string>());
}

}  // namespace

double PiecewiseLinear::operator()(double x) const {
  if (at.empty()) return 0;
  if (at.size() == 1) return value.front();
  const auto above = std::upper_bound(at.begin() + 1, at.end() - 1, x);
  const auto i = static_cast<std::size_t>(above - at.begin());
  const double slope = (value[i] - value[i - 1]) / (at[i] - at[i - 1]);
  return std::max(0.0, value[i - 1] + slope * (x - at[i - 1]));
}

double CalibratedStep::step_s(const StepShape& shape) const {
  const auto& c = coefficients_;
  const double seconds = c.rows_s(static_cast<double>(shape.tokens)) + c.samples_s(static_cast<double>(shape.samples)) +
                         c.sequence_s * static_cast<double>(shape.sequences) +
                         c.prefill_pair_s * (shape.attended - shape.decode_attended) +
                         c.decode_pair_s * shape.decode_attended;
  return slowdown_ * seconds;
}

Result<CalibratedStep> CalibratedStep::read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxFileBytes + 1, '\0');
  if (!in) return fail_at("step-model", ErrorCode::kNotFound, "cannot read the step model {}", printable(path));
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxFileBytes)
    return fail_at("step-model", ErrorCode::kTooLarge, "{}: a step model has at most {} bytes", printable(path),
                   kMaxFileBytes);
  // Depth is what recursion in the parser costs; a model has three levels.
  const Json json = Json::parse(text, [](int depth, Json::parse_event_t, Json&) { return depth <= 8; }, false);
  auto model = from_json(json);
  if (!model) model.error().message = fmt::format("{}: {}", printable(path), model.error().message);
  return model;
}

Result<CalibratedStep> CalibratedStep::from_json(const Json& json) {
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat) {
    return bad("format",
               fmt::format("'{}' is expected here; `weir plan calibrate MODEL --out FILE` writes such files", kFormat));
  }
  if (!json.contains("step") || !json["step"].is_object()) return bad("step", "an object is expected here");
  const Json& step = json["step"];
  CalibratedStep out;
  WEIR_TRY(out.coefficients_.rows_s, points(step, "rows_s"));
  if (out.coefficients_.rows_s.at.empty()) return bad("rows_s", "it has no points");
  WEIR_TRY(out.coefficients_.samples_s, points(step, "samples_s"));
  WEIR_TRY(out.coefficients_.sequence_s, number(step, "sequence_s"));
  WEIR_TRY(out.coefficients_.prefill_pair_s, number(step, "prefill_pair_s"));
  WEIR_TRY(out.coefficients_.decode_pair_s, number(step, "decode_pair_s"));
  if (json.contains("overheads")) {
    const Json& overheads = json["overheads"];
    if (!overheads.is_object()) return bad("overheads", "an object is expected here");
    WEIR_TRY(out.overheads.request_s, number(overheads, "request_s"));
    WEIR_TRY(out.overheads.prompt_token_s, number(overheads, "prompt_token_s"));
    WEIR_TRY(out.overheads.output_s, number(overheads, "output_s"));
  }
  WEIR_TRY(out.model, name_of(json, "model"));
  WEIR_TRY(out.machine, name_of(json, "machine"));
  if (json.contains("max_rows")) {
    WEIR_TRY(const double rows, number(json, "max_rows", 1e9));
    out.max_rows = static_cast<std::int64_t>(rows);
  }
  if (json.contains("reference_s")) {
    WEIR_TRY(out.reference_s, number(json, "reference_s"));
  }
  if (json.contains("resident_bytes")) {
    WEIR_TRY(out.resident_bytes, number(json, "resident_bytes", 1e15));
  }
  return out;
}

nlohmann::ordered_json CalibratedStep::to_json() const {
  nlohmann::ordered_json out;
  out["format"] = kFormat;
  out["model"] = model;
  out["machine"] = machine;
  out["max_rows"] = max_rows;
  out["step"]["rows_s"] = points_json(coefficients_.rows_s);
  out["step"]["samples_s"] = points_json(coefficients_.samples_s);
  out["step"]["sequence_s"] = coefficients_.sequence_s;
  out["step"]["prefill_pair_s"] = coefficients_.prefill_pair_s;
  out["step"]["decode_pair_s"] = coefficients_.decode_pair_s;
  out["overheads"] = {{"request_s", overheads.request_s},
                      {"prompt_token_s", overheads.prompt_token_s},
                      {"output_s", overheads.output_s}};
  out["reference_s"] = reference_s;
  out["resident_bytes"] = resident_bytes;
  out["fit"] = {{"steps", quality.steps},
                {"dropped", quality.dropped},
                {"median_error", quality.median_error},
                {"p90_error", quality.p90_error},
                {"mean_bias", quality.mean_bias}};
  return out;
}

}  // namespace weir::plan
