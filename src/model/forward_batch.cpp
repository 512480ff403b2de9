#include "model/forward_batch.h"

namespace weir::model {

void ForwardBatch::clear() {
  tokens.clear();
  positions.clear();
  known.clear();
  query_starts.assign(1, 0);
  seq_lens.clear();
  for (Group& group : groups) {
    group.tables.clear();
    group.slots.clear();
    group.table_width = 0;
  }
  state_tables.clear();
  logit_rows.clear();
}

}  // namespace weir::model
