// ForwardBatch: one step's work for the model, flat. Sequence s owns the rows [query_starts[s], query_starts[s+1]).
#pragma once

#include <cstdint>
#include <vector>

#include "base/ids.h"

namespace weir::model {

struct ForwardBatch {
  std::vector<TokenId> tokens;             // [rows]
  std::vector<std::int32_t> positions;     // [rows]: place in the sequence
  std::vector<std::int32_t> known;         // [rows]: tokens of the row's sequence that are known by now
  std::vector<std::int32_t> query_starts;  // [sequences + 1]
  std::vector<std::int32_t> seq_lens;      // [sequences]: tokens in the cache once this step has written its own

  struct Group {  // one per KV group of the layout
    std::vector<std::int32_t>
        tables;  // [sequences * table_width]: physical block of each logical one, -1 = out of the window
    std::int64_t table_width = 0;
    std::vector<std::int64_t> slots;  // [rows]: block * block_tokens + offset
  };
  std::vector<Group> groups;

  std::vector<std::int32_t> state_tables;  // [sequences * state_width]: blocks of recurrent state
  std::int64_t state_width = 0;

  std::vector<std::int32_t> logit_rows;  // rows whose logits somebody will ask for, ascending

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.size()); }
  void clear();
};

}  // namespace weir::model
