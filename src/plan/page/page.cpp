#include "plan/page/page.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "plan/data.h"
#include "plan/memory.h"
#include "plan/page/page_request.h"
#include "plan/roofline.h"
#include "plan/size_report.h"

namespace weir::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kJsonType = "application/json";

// Of the types that parse_weight_types() knows, one of each kind.
constexpr std::array kOfferedWeights = {"bf16", "fp8", "int8", "nvfp4", "mxfp4", "int4", "q8_0", "q4_k_m"};

PageAnswer json_answer(int status, const Json& json) {
  return {status, kJsonType, json.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

PageAnswer refusal(const Error& error) {
  const int status = error.code == ErrorCode::kNotFound ? 404 : error.code == ErrorCode::kTooLarge ? 413 : 400;
  return json_answer(status, {{"error", {{"message", error.message}, {"field", error.param}}}});
}

// What the form offers.
PageAnswer known() {
  Json json;
  json["models"] = known_models();
  json["weights"] = kOfferedWeights;
  json["hardware"] = Json::array();
  for (const auto& device : known_hardware()) {
    json["hardware"].push_back({{"name", device.name},
                                {"kind", device.kind},
                                {"memory_bytes", device.memory_bytes},
                                {"bandwidth_gbs", device.bandwidth_gbs},
                                {"bf16_tflops", device.bf16_tflops},
                                {"fp8_tflops", device.fp8_tflops},
                                {"link_gbs", device.link_gbs},
                                {"price_per_hour", device.price_per_hour}});
  }
  return json_answer(200, json);
}

Result<Json> parallel(const PageRequest& request) {
  WEIR_TRY(auto plan, plan_parallel(request.card, request.hardware, request.options));
  plan.report.json["text"] = plan.report.text;
  return std::move(plan.report.json);
}

// The deployment of the request, for the questions about one.
Result<SubjectQuery> subject_of(const PageRequest& request) {
  SubjectQuery subject{.model = request.card.name, .hardware = request.hardware.name, .layout = request.layout};
  const auto& weights = request.options.weights;
  // As the model's own files have them, the name of the type need not be one of the table.
  if (!weights.empty() && weights.front() != request.card.types.name) subject.weights = weights.front();
  const double bits = request.options.kv_bits.empty() ? 16 : request.options.kv_bits.front();
  if (bits != 16 && bits != 8)
    return fail_at("kv_bits", ErrorCode::kInvalidArgument, "kv_bits is {}, not 8 or 16", bits);
  subject.kv = bits == 8 ? "fp8" : "bf16";
  WEIR_RETURN_IF_ERROR(check_layout(request.card, request.layout));
  return subject;
}

std::int64_t mean_context(const PageRequest& request) {
  return std::llround(request.options.input_tokens + request.options.output_tokens / 2);
}

Result<Json> roofline_of(const PageRequest& request) {
  WEIR_TRY(auto subject, subject_of(request));
  WEIR_TRY(auto found, roofline({.subject = std::move(subject),
                                 .batch = request.batch,
                                 .context = mean_context(request),
                                 .prompt = std::llround(request.options.input_tokens),
                                 .cached = request.options.cached_fraction}));
  Json json = std::move(found.report.json);
  json["text"] = found.report.text;
  json["roofs"] = Json::array();
  for (const double bits : {16.0, 8.0, 4.0}) {
    const double peak = request.hardware.peak_tflops(bits);
    if (json["roofs"].empty() || json["roofs"].back()["tflops"] < peak)
      json["roofs"].push_back({{"bits", bits}, {"tflops", peak}});
  }
  return json;
}

Result<Json> size(const PageRequest& request) {
  WEIR_TRY(auto subject, subject_of(request));
  const double context = request.options.input_tokens + request.options.output_tokens;
  WEIR_TRY(auto report,
           size_report({.subject = std::move(subject), .layout_given = true, .context = std::llround(context)}));
  report.json["text"] = report.text;
  return std::move(report.json);
}

struct Question {
  std::string_view path;
  Result<Json> (*answer)(const PageRequest&);
};
constexpr std::array kQuestions = {Question{"/api/parallel", &parallel}, Question{"/api/roofline", &roofline_of},
                                   Question{"/api/size", &size}};

struct File {
  std::string_view path, name, type;
};
constexpr std::array kFiles = {File{"/", "plan.html", "text/html; charset=utf-8"},
                               File{"/plan.js", "plan.js", "text/javascript; charset=utf-8"},
                               File{"/plan.css", "plan.css", "text/css; charset=utf-8"}};

PageAnswer wrong_method(std::string_view expected) {
  return json_answer(405, {{"error", {{"message", fmt::format("this takes {}", expected)}, {"field", "method"}}}});
}

}  // namespace

PageAnswer answer_page(std::string_view method, std::string_view path, std::string_view body) {
  for (const auto& file : kFiles) {
    if (path == file.path)
      return method == "GET" ? PageAnswer{200, file.type, std::string(data_file(file.name))} : wrong_method("GET");
  }
  if (path == "/api/known") return method == "GET" ? known() : wrong_method("GET");
  for (const auto& question : kQuestions) {
    if (path != question.path) continue;
    if (method != "POST") return wrong_method("POST");
    if (body.size() > kMostPageBody) {
      return refusal(
          {ErrorCode::kTooLarge, fmt::format("the body has {} bytes, at most {}", body.size(), kMostPageBody), {}});
    }
    const auto request = read_page_request(body);
    if (!request) return refusal(request.error());
    const auto answer = question.answer(*request);
    return answer ? json_answer(200, *answer) : refusal(answer.error());
  }
  return refusal({ErrorCode::kNotFound, "there is no such page", {}});
}

}  // namespace weir::plan
