#include "plan/page/page_request.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/printable.h"

namespace weir::plan {
namespace {

using Json = nlohmann::json;

// The page sends one flat object with a few lists; more brackets than this are an attempt at the parser's stack.
constexpr std::ptrdiff_t kMostBrackets = 64;
constexpr std::size_t kMostName = 80, kMostList = 8;
constexpr int kMostPageDevices = 128;  // what one click may cost

Result<std::string> read_name(const Json& json, const char* field) {
  const auto at = json.find(field);
  if (at == json.end() || !at->is_string())
    return fail_at(field, ErrorCode::kInvalidArgument, "{} is not there or no string", field);
  const auto& text = at->get_ref<const std::string&>();
  if (text.empty() || text.size() > kMostName)
    return fail_at(field, ErrorCode::kInvalidArgument, "{} has {} bytes, not 1 to {}", field, text.size(), kMostName);
  return text;
}

// Absent and null leave `out` as it is.
template <class T>
Status read_number(const Json& json, const char* field, double least, double most, T& out) {
  const auto at = json.find(field);
  if (at == json.end() || at->is_null()) return {};
  if (!at->is_number()) return fail_at(field, ErrorCode::kInvalidArgument, "{} is no number", field);
  const double value = at->get<double>();
  if (!(value >= least && value <= most))
    return fail_at(field, ErrorCode::kInvalidArgument, "{} is {}, not {} to {}", field, value, least, most);
  out = static_cast<std::conditional_t<std::is_arithmetic_v<T>, T, double>>(value);
  return {};
}

Status read_whole(const Json& json, const char* field, double least, double most, double& out) {
  WEIR_RETURN_IF_ERROR(read_number(json, field, least, most, out));
  if (out != std::floor(out))
    return fail_at(field, ErrorCode::kInvalidArgument, "{} is {}, no whole number", field, out);
  return {};
}

Status read_flag(const Json& json, const char* field, bool& out) {
  const auto at = json.find(field);
  if (at == json.end() || at->is_null()) return {};
  if (!at->is_boolean()) return fail_at(field, ErrorCode::kInvalidArgument, "{} is neither true nor false", field);
  out = at->get<bool>();
  return {};
}

Status read_lists(const Json& json, ParallelOptions& options) {
  if (const auto at = json.find("weights"); at != json.end() && !at->is_null()) {
    if (!at->is_array() || at->size() > kMostList)
      return fail_at("weights", ErrorCode::kInvalidArgument, "weights is no list of at most {} names", kMostList);
    for (const auto& name : *at) {
      if (!name.is_string() || name.get_ref<const std::string&>().size() > kMostName)
        return fail_at("weights", ErrorCode::kInvalidArgument, "weights holds something that is no short name");
      options.weights.push_back(name.get<std::string>());
    }
  }
  if (const auto at = json.find("kv_bits"); at != json.end() && !at->is_null()) {
    if (!at->is_array() || at->size() > kMostList)
      return fail_at("kv_bits", ErrorCode::kInvalidArgument, "kv_bits is no list of at most {} numbers", kMostList);
    for (const auto& bits : *at) {
      if (!bits.is_number() || !(bits.get<double>() >= 1 && bits.get<double>() <= 32))
        return fail_at("kv_bits", ErrorCode::kInvalidArgument, "kv_bits holds something that is not 1 to 32");
      options.kv_bits.push_back(bits.get<double>());
    }
  }
  return {};
}

Status read_options(const Json& json, ParallelOptions& options) {
  double devices = options.devices;
  WEIR_RETURN_IF_ERROR(read_whole(json, "devices", 1, kMostPageDevices, devices));
  options.devices = static_cast<int>(devices);
  WEIR_RETURN_IF_ERROR(read_whole(json, "input_tokens", 1, 1e7, options.input_tokens));
  WEIR_RETURN_IF_ERROR(read_whole(json, "output_tokens", 2, 1e7, options.output_tokens));
  WEIR_RETURN_IF_ERROR(read_number(json, "cached_fraction", 0, 1, options.cached_fraction));
  WEIR_RETURN_IF_ERROR(read_number(json, "ttft_ms", 1e-3, 1e8, options.ttft_ms));
  WEIR_RETURN_IF_ERROR(read_number(json, "tpot_ms", 1e-3, 1e8, options.tpot_ms));
  WEIR_RETURN_IF_ERROR(read_number(json, "price_per_device_hour", 0, 1e6, options.price_per_device_hour));
  WEIR_RETURN_IF_ERROR(read_flag(json, "aggregated", options.aggregated));
  WEIR_RETURN_IF_ERROR(read_flag(json, "disaggregated", options.disaggregated));
  return read_lists(json, options);
}

Status read_layout(const Json& json, PageRequest& request) {
  auto& layout = request.layout;
  for (const auto& [field, degree] :
       {std::pair{"tp", &layout.tp}, std::pair{"pp", &layout.pp}, std::pair{"dp", &layout.dp},
        std::pair{"ep", &layout.ep}, std::pair{"cp", &layout.cp}}) {
    double value = *degree;
    WEIR_RETURN_IF_ERROR(read_whole(json, field, 1, kMostPageDevices, value));
    *degree = static_cast<int>(value);
  }
  double batch = 1;
  WEIR_RETURN_IF_ERROR(read_whole(json, "batch", 1, 1 << 20, batch));
  request.batch = static_cast<std::int64_t>(batch);
  return {};
}

bool same_name(const std::string& a, const std::string& b) {
  const auto lower = [](unsigned char c) { return std::tolower(c); };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) {
    return lower(static_cast<unsigned char>(x)) == lower(static_cast<unsigned char>(y));
  });
}

}  // namespace

Result<PageRequest> read_page_request(std::string_view body) {
  if (std::count_if(body.begin(), body.end(), [](char c) { return c == '[' || c == '{'; }) > kMostBrackets)
    return fail(ErrorCode::kInvalidArgument, "the body has more than {} brackets", kMostBrackets);
  const Json json = Json::parse(body, nullptr, false);
  if (!json.is_object()) return fail(ErrorCode::kInvalidArgument, "the body is no JSON object");

  static constexpr std::array kFields = {"model",
                                         "hardware",
                                         "devices",
                                         "input_tokens",
                                         "output_tokens",
                                         "cached_fraction",
                                         "ttft_ms",
                                         "tpot_ms",
                                         "price_per_device_hour",
                                         "aggregated",
                                         "disaggregated",
                                         "weights",
                                         "kv_bits",
                                         "tp",
                                         "pp",
                                         "dp",
                                         "ep",
                                         "cp",
                                         "batch"};
  for (const auto& [key, value] : json.items()) {
    if (std::find(kFields.begin(), kFields.end(), key) == kFields.end())
      return fail(ErrorCode::kInvalidArgument, "there is no field '{}'", printable(key.substr(0, kMostName)));
  }
  PageRequest request;
  WEIR_RETURN_IF_ERROR(read_options(json, request.options));
  WEIR_RETURN_IF_ERROR(read_layout(json, request));

  // Only names of the tables: what the command line takes may also be a path.
  WEIR_TRY(const std::string model, read_name(json, "model"));
  const auto models = known_models();
  const auto known =
      std::find_if(models.begin(), models.end(), [&](const auto& name) { return same_name(name, model); });
  if (known == models.end())
    return fail_at("model", ErrorCode::kNotFound, "'{}' is none of the {} known models", printable(model),
                   models.size());
  WEIR_TRY(request.card, read_model_card(*known));

  WEIR_TRY(const std::string device, read_name(json, "hardware"));
  // By any name that the command line takes, but nothing described by hand.
  auto hardware = find_hardware(device);
  if (!hardware || device.find(',') != std::string::npos)
    return fail_at("hardware", ErrorCode::kNotFound, "'{}' is none of the {} known devices", printable(device),
                   known_hardware().size());
  request.hardware = *std::move(hardware);
  return request;
}

}  // namespace weir::plan
