#include "apps/model_loading.h"

#include <malloc.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "api/prompt_builder.h"
#include "api/tokenizer_assets.h"
#include "apps/pull_command.h"
#include "kv/prefix_index.h"
#include "text/detokenizer.h"

namespace weir::apps {
namespace {

std::string file_name(const std::string& model) {
  std::filesystem::path path(model);
  if (!path.has_filename()) path = path.parent_path();
  if (path.filename() == "." || path.filename() == "..") {
    std::error_code error;
    path = std::filesystem::canonical(path, error);
  }
  std::string name = path.extension() == ".gguf" ? path.stem().string() : path.filename().string();
  if (name.empty()) name = "model";
  return text::sanitise_utf8(name);
}

Result<std::string> read_file(const std::string& path) {
  // A template is some kilobytes; this keeps a wrong path from filling the memory.
  constexpr std::uintmax_t kMaxBytes = 4 << 20;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return fail(ErrorCode::kNotFound, "cannot read '{}': {}", path, error.message());
  if (size > kMaxBytes)
    return fail(ErrorCode::kInvalidArgument, "'{}' has {} bytes; a chat template has at most {}", path, size,
                kMaxBytes);
  std::ifstream in(path, std::ios::binary);
  std::string content{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (!in) return fail(ErrorCode::kNotFound, "cannot read '{}'", path);
  return content;
}

// Finds out from a template how replies to it are to be read.
Status add_reply_format(const ModelOptions& options, const std::string& name, const std::string& source,
                        api::ServedModel& served) {
  WEIR_TRY(auto format, text::parse::choose_format(source, options.reasoning_parser, options.tool_call_parser));
  if (!format.plain()) served.reply_formats.emplace(name, api::make_reply_format(*served.tokenizer, std::move(format)));
  return {};
}

Status load_templates(const ModelOptions& options, const load::ModelFiles& files, api::ServedModel& served) {
  WEIR_RETURN_IF_ERROR(text::parse::choose_format("", options.reasoning_parser, options.tool_call_parser));
  if (!options.chat_template.empty()) {
    WEIR_TRY(auto source, read_file(options.chat_template));
    WEIR_RETURN_IF_ERROR(add_reply_format(options, "", source, served));
    auto parsed = text::ChatTemplate::parse(std::move(source));
    if (!parsed)
      return fail(ErrorCode::kInvalidArgument, "--chat-template {}: {}", options.chat_template, parsed.error().message);
    served.chat_templates.emplace("", std::move(*parsed));
    return {};
  }
  for (const auto& [name, source] : files.chat_templates) {
    auto parsed = text::ChatTemplate::parse(source);
    if (parsed) {
      served.chat_templates.emplace(name, std::move(*parsed));
      WEIR_RETURN_IF_ERROR(add_reply_format(options, name, source, served));
    } else {
      // The model can still complete text, so this is no reason to refuse it.
      spdlog::warn("{}: the chat template{} cannot be used: {}", options.model, name.empty() ? "" : " '" + name + "'",
                   parsed.error().message);
      served.broken_templates.emplace(name, parsed.error().message);
    }
  }
  return {};
}

std::vector<TokenId> end_tokens(const load::ModelFiles& files, const text::Tokenizer& tokenizer) {
  std::vector<TokenId> ids = files.generation.eos_ids;
  for (const TokenId id : tokenizer.end_of_generation_ids()) ids.push_back(id);
  std::erase_if(ids, [&](TokenId id) { return id < 0 || id >= files.spec.vocab; });
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

Result<LoadedModel> load_checked(const ModelOptions& options, const std::string& served_name, engine::OutputSink sink) {
  WEIR_TRY(auto files, load::open_model(options.model, {.exact = options.engine.exact_compute}));
  LoadedModel out;
  out.served = std::make_unique<api::ServedModel>();
  auto& served = *out.served;
  WEIR_TRY(served.tokenizer, api::load_tokenizer(files));
  WEIR_RETURN_IF_ERROR(load_templates(options, files, served));
  served.eos_ids = end_tokens(files, *served.tokenizer);
  if (files.gguf != nullptr) files.gguf->forget_vocabulary();
  files.tokenizer_json = {};
  WEIR_TRY(out.engine, engine::Engine::create(options.engine, files, std::move(sink)));
  malloc_trim(0);  // what reading the files took goes back to the system, not only to the heap

  served.name = served_name.empty() ? file_name(options.model) : text::sanitise_utf8(served_name);
  served.created_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  served.vocab_size = files.spec.vocab;
  served.max_model_len = out.engine->info().max_model_len;
  const auto& generation = files.generation;
  served.defaults = {generation.temperature, generation.top_p, generation.repetition_penalty, generation.top_k};
  out.name = files.spec.name;
  out.format = files.format;
  out.family = files.spec.family;
  out.quantisation = files.spec.quantisation;
  out.context_length = files.spec.context_length;
  const auto& info = out.engine->info();
  out.kv_tokens = engine::tokens_held(engine::layout_for(files.spec, tensor::DType::kF32, info.block_size),
                                      info.num_kv_blocks, info.max_model_len);
  out.file_bytes = files.file_bytes;
  return out;
}

}  // namespace

Result<LoadedModel> load_model(const ModelOptions& options, const std::string& served_name, engine::OutputSink sink) {
  if (!options.speculative_config.empty()) {
    return fail(ErrorCode::kUnsupported,
                "--speculative-config: speculative decoding is not supported yet; leave it out");
  }
  WEIR_RETURN_IF_ERROR(kv::parse_prefix_index(options.engine.prefix_index));  // before a model is read in vain
  WEIR_TRY(const auto local, local_model(options.model));
  ModelOptions here = options;
  here.model = local.path;
  // A snapshot's folder is called by its commit.
  const bool snapshot = !local.repo.empty() && std::filesystem::is_directory(local.path);
  auto loaded = load_checked(here, served_name.empty() && snapshot ? local.repo : served_name, std::move(sink));
  if (loaded && snapshot) loaded->name = local.repo;
  if (!loaded && loaded.error().message.find(here.model) == std::string::npos) {
    loaded.error().message = fmt::format("{}: {}", here.model, loaded.error().message);
  }
  return loaded;
}

std::string human_bytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 1000 && unit + 1 < std::size(kUnits)) {
    bytes /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", static_cast<std::int64_t>(bytes))
                   : fmt::format("{:.{}f} {}", bytes,
                                 bytes < 10    ? 2
                                 : bytes < 100 ? 1
                                               : 0,
                                 kUnits[unit]);
}

}  // namespace weir::apps
