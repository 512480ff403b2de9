#include "text/tokenizer.h"

#include "text/detokenizer.h"

namespace weir::text {

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  bool first = true;
  for (const TokenId id : ids) {
    if (skip_special && is_control(id)) continue;
    bytes += first ? first_token_bytes(id, skip_special) : token_bytes(id, skip_special);
    first = false;
  }
  return sanitise_utf8(bytes);
}

}  // namespace weir::text
