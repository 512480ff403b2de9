#include "text/tokenizer.h"

#include <algorithm>

#include "text/detokenizer.h"

namespace weir::text {

std::string Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string bytes;
  bool first = true;
  std::size_t tail = 0;
  for (const TokenId id : ids) {
    if (skip_special && is_control(id)) continue;
    bytes += first ? first_token_bytes(id, skip_special) : token_bytes(id, skip_special);
    first = false;
    tail = tail_bytes(id);
  }
  bytes.resize(bytes.size() - std::min(tail, bytes.size()));
  return sanitise_utf8(bytes);
}

}  // namespace weir::text
