#include "apps/tokenize_command.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api/json_writer.h"
#include "api/tokenizer_assets.h"
#include "apps/commands.h"
#include "text/detokenizer.h"

namespace weir::apps {
namespace {

using nlohmann::json;
using Answer = Result<std::string>;

constexpr int kExitBadFile = 2;

Result<bool> flag(const json& request, const char* name) {
  const auto found = request.find(name);
  if (found == request.end()) return false;
  if (!found->is_boolean()) return fail(ErrorCode::kInvalidArgument, "\"{}\" is not true or false", name);
  return found->get<bool>();
}

Answer tokenize(const text::Tokenizer& tokenizer, const json& request) {
  const auto text = request.find("text");
  if (text == request.end() || !text->is_string())
    return fail(ErrorCode::kInvalidArgument, "there is no string \"text\"");
  text::EncodeOptions options;
  WEIR_TRY(options.add_special, flag(request, "add_special"));
  WEIR_TRY(options.parse_special, flag(request, "parse_special"));
  std::string out;
  api::JsonWriter writer(out);
  writer.begin_object().key("ids").begin_array();
  for (const TokenId id : tokenizer.encode(text->get_ref<const std::string&>(), options)) writer.integer(id);
  writer.end_array().end_object();
  return out;
}

Answer detokenize(const text::Tokenizer& tokenizer, const json& request) {
  const auto list = request.find("ids");
  if (list == request.end() || !list->is_array()) return fail(ErrorCode::kInvalidArgument, "there is no list \"ids\"");
  WEIR_TRY(const bool skip_special, flag(request, "skip_special"));
  std::vector<TokenId> ids;
  for (const json& id : *list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= static_cast<std::uint64_t>(tokenizer.vocab_size())) {
      return fail(ErrorCode::kInvalidArgument, "ids[{}] is {}; ids are 0 to {}", ids.size(),
                  id.dump(-1, ' ', true, json::error_handler_t::replace), tokenizer.vocab_size() - 1);
    }
    ids.push_back(id.get<TokenId>());
  }
  std::string out;
  api::JsonWriter writer(out);
  writer.begin_object().key("text").string(tokenizer.decode(ids, skip_special)).end_object();
  return out;
}

Answer answer_line(const text::Tokenizer& tokenizer, const std::string& line,
                   Answer (*answer)(const text::Tokenizer&, const json&)) {
  try {
    const json request = json::parse(line);
    if (!request.is_object()) return fail(ErrorCode::kInvalidArgument, "the line is not a JSON object");
    return answer(tokenizer, request);
  } catch (const json::exception& e) {
    return fail(ErrorCode::kInvalidArgument, "the line is not JSON: {}", e.what());
  }
}

int run_filter(const std::string& path, Answer (*answer)(const text::Tokenizer&, const json&)) {
  const auto tokenizer = api::load_tokenizer_file(path);
  if (!tokenizer) {
    fail_with(tokenizer.error());
    return kExitBadFile;
  }
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    Answer out = answer_line(**tokenizer, line, answer);
    if (!out) {
      std::string report;
      api::JsonWriter(report).begin_object().key("error").string(text::sanitise_utf8(out.error().message)).end_object();
      out = std::move(report);
    }
    *out += '\n';
    std::fwrite(out->data(), 1, out->size(), stdout);
    if (std::fflush(stdout) != 0) break;  // nobody reads any more
  }
  return 0;
}

}  // namespace

int tokenize_filter(const std::string& path) {
  return run_filter(path, tokenize);
}
int detokenize_filter(const std::string& path) {
  return run_filter(path, detokenize);
}

}  // namespace weir::apps
