#include "text/tokenizer/pipeline.h"

#include <algorithm>
#include <utility>

namespace weir::text {
namespace {

// Names under which chat and base models end a reply. The angle-bracket spellings are taken from any matched token,
// because older files type them as user-defined; the plain ones also occur as markup (</s>), so only as control tokens.
constexpr std::string_view kEndNames[] = {"<|im_end|>",
                                          "<end_of_turn>",
                                          "<turn|>",
                                          "<|eot_id|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|calls|>",
                                          "<|flush|>",
                                          "<|eom_id|>",
                                          "<|eom|>",
                                          "<|endoftext|>",
                                          "<|end_of_text|>",
                                          "<|endofprompt|>",
                                          "<end_of_utterance>",
                                          "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
                                          "<|END_OF_TURN_TOKEN|>",
                                          "<|eot|>"};
constexpr std::string_view kPlainEndNames[] = {"</s>", "<eos>", "<EOT>", "[EOS]"};

class Pipeline : public Tokenizer {
 public:
  explicit Pipeline(PipelineParts parts) : parts_(std::move(parts)), tokens_(*parts_.tokens), ends_(find_ends()) {}

  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const override;

  std::string_view token_bytes(TokenId id, bool skip_special) const override {
    if (skip_special && is_control(id)) return {};
    return tokens_.bytes[id];
  }
  std::string_view first_token_bytes(TokenId id, bool skip_special) const override {
    if (tokens_.first_bytes.size() > 0) return skip_special && is_control(id) ? "" : tokens_.first_bytes[id];
    std::string_view bytes = token_bytes(id, skip_special);
    if (parts_.strip_first_space && !is_control(id) && bytes.starts_with(' ')) bytes.remove_prefix(1);
    return bytes;
  }
  std::size_t tail_bytes(TokenId id) const override {
    const auto i = static_cast<std::size_t>(id);
    return id >= 0 && i < tokens_.tails.size() ? tokens_.tails[i] : 0;
  }
  TokenId vocab_size() const override { return static_cast<TokenId>(tokens_.texts.size()); }
  bool is_control(TokenId id) const override { return has(id, kFlagControl); }
  std::optional<TokenId> bos() const override { return parts_.special.bos; }
  std::optional<TokenId> eos() const override { return parts_.special.eos; }
  std::string_view token_text(TokenId id) const override { return tokens_.texts[id]; }
  std::optional<TokenId> id_of(std::string_view text) const override {
    const TokenId id = tokens_.ids.find(tokens_.texts, text);
    return id >= 0 ? std::optional(id) : std::nullopt;
  }
  std::vector<TokenId> end_of_generation_ids() const override { return ends_; }

 private:
  bool has(TokenId id, TokenFlag flag) const {
    return tokens_.texts.contains(id) && (tokens_.flags[static_cast<std::size_t>(id)] & flag) != 0;
  }
  std::vector<TokenId> find_ends() const;
  void encode_stretch(std::string_view text, std::size_t offset, const EncodeOptions& options, EncodeSpace& space,
                      std::vector<TokenId>& out) const;

  PipelineParts parts_;
  const TokenSet& tokens_;
  std::vector<TokenId> ends_;
};

std::vector<TokenId> Pipeline::find_ends() const {
  std::vector<TokenId> ends;
  const auto add = [&](std::optional<TokenId> id) {
    if (id && std::find(ends.begin(), ends.end(), *id) == ends.end()) ends.push_back(*id);
  };
  for (const auto id : {parts_.special.eos, parts_.special.eot, parts_.special.eom}) add(id);
  const auto named = [&](std::string_view name, TokenFlag kind) {
    const auto id = id_of(name);
    return id && has(*id, kind) ? id : std::nullopt;
  };
  // Where replies are sequences of messages, some of these close a message and not the reply: <|end|> in gpt-oss's and
  // Solar Open's formats, <|eom|> in Muse Glimmer's.
  const auto all = [&](std::initializer_list<std::string_view> names) {
    return std::all_of(names.begin(), names.end(), [&](auto name) { return named(name, kFlagMatched).has_value(); });
  };
  const bool end_of_message = all({"<|return|>", "<|call|>"}) || all({"<|flush|>", "<|calls|>"});
  const bool eom_of_message = all({"<|eom|>", "<|eot|>", "<|start|>", "<|message|>"});
  for (const auto name : kEndNames) {
    if ((end_of_message && name == "<|end|>") || (eom_of_message && name == "<|eom|>")) continue;
    add(named(name, kFlagMatched));
  }
  for (const auto name : kPlainEndNames) add(named(name, kFlagControl));
  std::sort(ends.begin(), ends.end());
  return ends;
}

std::vector<TokenId> Pipeline::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> out;
  out.reserve(text.size() / 3 + 8);
  EncodeSpace space;
  if (options.add_special) out = parts_.before;
  AddedTokens::Search search(parts_.raw_added, text, {options.parse_special, options.literal});
  std::size_t at = 0;
  while (const auto match = search.next()) {
    encode_stretch(text.substr(at, match->begin - at), at, options, space, out);
    out.push_back(match->id);
    at = match->end;
  }
  encode_stretch(text.substr(at), at, options, space, out);
  if (options.add_special) out.insert(out.end(), parts_.after.begin(), parts_.after.end());
  return out;
}

// Ranges of the whole text -> ranges of the part [offset, offset + size). Those behind a normalizer that changed the
// text cannot be traced; then any range in the part forbids control tokens in all of it.
std::vector<ByteRange> ranges_within(std::span<const ByteRange> ranges, std::size_t offset, std::size_t size) {
  std::vector<ByteRange> within;
  auto range = std::lower_bound(ranges.begin(), ranges.end(), offset,
                                [](const ByteRange& r, std::size_t at) { return r.end <= at; });
  for (; range != ranges.end() && range->begin < offset + size; ++range) {
    within.push_back({std::max(range->begin, offset) - offset, std::min(range->end, offset + size) - offset});
  }
  return within;
}

void Pipeline::encode_stretch(std::string_view text, std::size_t offset, const EncodeOptions& options,
                              EncodeSpace& space, std::vector<TokenId>& out) const {
  if (text.empty()) return;
  std::string buffer;
  const std::string_view normal = parts_.normalizer.apply(text, buffer);
  const auto encode_words = [&](std::string_view part, bool begins_text) {
    parts_.pre_tokenizer.split(part, {begins_text},
                               [&](std::string_view word) { parts_.model->encode(word, space, out); });
  };
  if (parts_.normalized_added.empty()) return encode_words(normal, offset == 0);

  ControlRule rule{options.parse_special, {}};
  std::vector<ByteRange> literal;
  if (options.parse_special && !options.literal.empty()) {
    literal = ranges_within(options.literal, offset, text.size());
    if (normal == text) {
      rule.forbidden = literal;
    } else {
      rule.allowed = literal.empty();
    }
  }
  AddedTokens::Search search(parts_.normalized_added, normal, rule);
  std::size_t at = 0;
  while (const auto match = search.next()) {
    encode_words(normal.substr(at, match->begin - at), offset == 0 && at == 0);
    out.push_back(match->id);
    at = match->end;
  }
  encode_words(normal.substr(at), offset == 0 && at == 0);
}

}  // namespace

std::unique_ptr<Tokenizer> make_pipeline(PipelineParts parts) {
  return std::make_unique<Pipeline>(std::move(parts));
}

}  // namespace weir::text
