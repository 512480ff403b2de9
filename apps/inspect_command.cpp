#include <fmt/core.h>

#include "api/tokenizer_assets.h"
#include "apps/commands.h"
#include "apps/pull_command.h"
#include "base/printable.h"
#include "engine/kv_sizing.h"
#include "load/inspect.h"
#include "load/model_files.h"
#include "text/chat_template.h"

namespace weir::apps {
namespace {

std::string token_text(const text::Tokenizer& tokenizer, const char* name, std::optional<TokenId> id) {
  return id ? fmt::format(", {} {} ({})", name, *id, tokenizer.token_text(*id)) : "";
}

std::string tokenizer_text(const std::string& path) {
  const auto tokenizer = api::load_tokenizer_file(path);
  if (!tokenizer) return "cannot be used: " + tokenizer.error().message;
  const text::Tokenizer& t = **tokenizer;
  std::string text =
      fmt::format("{} tokens{}{}", t.vocab_size(), token_text(t, "BOS", t.bos()), token_text(t, "EOS", t.eos()));
  const auto around = t.encode("", {.add_special = true});
  text +=
      around.empty() ? ", puts nothing around a text" : fmt::format(", puts {} around a text", fmt::join(around, " "));
  return text;
}

// What load/ does not know: the tokenizer, and whether the chat templates can be used.
std::vector<std::pair<std::string, std::string>> text_facts(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> facts = {{"tokenizer", tokenizer_text(path)}};
  const auto model = load::open_model(path);
  if (!model) return facts;
  for (const auto& [name, source] : model->chat_templates) {
    const auto parsed = text::ChatTemplate::parse(source);
    facts.emplace_back(name.empty() ? "template" : "template " + name,
                       parsed ? fmt::format("{} bytes", source.size()) : "cannot be used: " + parsed.error().message);
  }
  return facts;
}

}  // namespace

int inspect(const InspectCommandOptions& options) {
  const auto local = local_model(options.model, /*may_pull=*/false);
  if (!local) return fail_with(local.error());
  load::InspectOptions wanted = {.format = options.json ? load::InspectFormat::kJson : load::InspectFormat::kText,
                                 .all_tensors = options.all_tensors,
                                 .context = options.context,
                                 .sequences = options.batch,
                                 .more = text_facts(local->path)};
  const auto text = load::describe_model(local->path, wanted, engine::kv_cost);
  if (!text) return fail_with(text.error());
  fmt::print("{}", *text);
  return 0;
}

int fail_with(const Error& error) {
  fmt::print(stderr, "weir: {}\n", printable(error.message));
  return error.code == ErrorCode::kInternal ? 1 : 2;
}

}  // namespace weir::apps
