// ServedModel: what the routes know about the model besides the engine that runs it. Immutable while serving.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "api/request_parser.h"
#include "base/ids.h"
#include "text/chat_template.h"
#include "text/parse/formats.h"
#include "text/tokenizer.h"

namespace weir::api {

// How replies to prompts of one chat template are read.
struct ReplyFormat {
  std::shared_ptr<const text::parse::OutputFormat> format;
  std::map<TokenId, std::string> marker_tokens;  // control tokens that stand in the format's markers, and their text
};

struct ServedModel {
  std::string name;  // in requests and replies; valid UTF-8
  std::int64_t created_s = 0;
  TokenId vocab_size = 0;  // rows of the embedding; the tokenizer may know more or fewer ids
  std::int64_t max_model_len = 0;
  std::size_t longest_token_bytes = 0;  // longest_token() of the tokenizer
  std::vector<TokenId> eos_ids;
  SamplingDefaults defaults;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::map<std::string, text::ChatTemplate> chat_templates;  // "" = the default one, "tool_use" for requests with tools
  std::map<std::string, ReplyFormat> reply_formats;          // by the template's name; none where replies are just text
  std::map<std::string, std::string> broken_templates;       // those that could not be read, and why
};

}  // namespace weir::api
