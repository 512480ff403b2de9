#include "text/detokenizer.h"

#include <algorithm>

namespace weir::text {
namespace {

constexpr std::string_view kReplacement = "\uFFFD";
constexpr std::size_t kMaxCharBytes = 4;

// What stands at the start of some bytes, by Unicode's table 3-7 of well-formed byte sequences.
struct Part {
  std::size_t size;                            // of the character or of the maximal ill-formed part; > 0
  enum { kChar, kIllFormed, kCutShort } kind;  // cut short: more bytes could complete it
};

Part first_part(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {1, Part::kChar};
  if (lead < 0xC2 || lead > 0xF4) return {1, Part::kIllFormed};
  const std::size_t wanted = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned low = 0x80, high = 0xBF;  // of the second byte
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < wanted; ++i) {
    if (i == bytes.size()) return {i, Part::kCutShort};
    if (byte(i) < low || byte(i) > high) return {i, Part::kIllFormed};
    low = 0x80;
    high = 0xBF;
  }
  return {wanted, Part::kChar};
}

// Bytes at the end that could be the beginning of a character.
std::size_t cut_short_at_end(std::string_view bytes) {
  for (std::size_t size = 1; size < kMaxCharBytes && size <= bytes.size(); ++size) {
    const std::string_view tail = bytes.substr(bytes.size() - size);
    const Part part = first_part(tail);
    if (part.kind == Part::kCutShort && part.size == size) return size;
  }
  return 0;
}

}  // namespace

std::string sanitise_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  while (!bytes.empty()) {
    const Part part = first_part(bytes);
    out += part.kind == Part::kChar ? bytes.substr(0, part.size) : kReplacement;
    bytes.remove_prefix(part.size);
  }
  return out;
}

Detokenizer::Detokenizer(const Tokenizer& tokenizer, std::span<const TokenId> prompt, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {
  const auto shown = [&](TokenId id) { return !(skip_special && tokenizer.is_control(id)); };
  at_start_ = std::none_of(prompt.begin(), prompt.end(), shown);
  std::string tail;
  for (std::size_t i = prompt.size(); i > 0 && tail.size() < kMaxCharBytes; --i) {
    tail.insert(0, tokenizer.token_bytes(prompt[i - 1], skip_special));
  }
  pending_ = tail.substr(tail.size() - cut_short_at_end(tail));
  if (!at_start_) {  // what the prompt's last token keeps back belongs in front of the reply
    const auto last = std::find_if(prompt.rbegin(), prompt.rend(), shown);
    const std::string_view bytes = tokenizer.token_bytes(*last, skip_special);
    tail_ = bytes.substr(bytes.size() - std::min(tokenizer.tail_bytes(*last), bytes.size()));
  }
  prompt_bytes_ = pending_.size();
}

std::string Detokenizer::push(TokenId id) {
  if (skip_special_ && tokenizer_->is_control(id)) return {};
  const std::string_view added =
      at_start_ ? tokenizer_->first_token_bytes(id, skip_special_) : tokenizer_->token_bytes(id, skip_special_);
  at_start_ = false;
  const std::size_t tail = std::min(tokenizer_->tail_bytes(id), added.size());
  pending_ += tail_;
  pending_ += added.substr(0, added.size() - tail);
  tail_ = added.substr(added.size() - tail);
  std::string out;
  std::string_view left = pending_;
  while (!left.empty()) {
    const Part part = first_part(left);
    if (part.kind == Part::kCutShort) break;
    // The prompt shows its own replacement character for what it left unfinished.
    const bool of_prompt = part.kind == Part::kIllFormed && part.size <= prompt_bytes_;
    if (!of_prompt) out += part.kind == Part::kChar ? left.substr(0, part.size) : kReplacement;
    prompt_bytes_ -= std::min(prompt_bytes_, part.size);
    left.remove_prefix(part.size);
  }
  pending_.erase(0, pending_.size() - left.size());
  return out;
}

std::string Detokenizer::finish() {
  const bool own = pending_.size() > prompt_bytes_;
  pending_.clear();
  prompt_bytes_ = 0;
  return own ? std::string(kReplacement) : std::string();
}

}  // namespace weir::text
