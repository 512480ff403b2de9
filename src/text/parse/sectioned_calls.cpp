#include "text/parse/sectioned_calls.h"

namespace weir::text::parse {

Task<bool> SectionedCalls::read(Calls& calls, int open) const {
  Source& in = calls.in;
  bool any = false;
  if (open >= 0 && open == bare_open_) {
    any = co_await one(calls);
    if (!any) co_return false;
  }
  while (true) {
    const bool goes_on = co_await skip_space(in);
    if (!goes_on) break;
    const int step = co_await marker_ahead(in, steps_);
    if (step < 0 || (step > 0 && !any)) break;
    in.drop(steps_.texts()[static_cast<std::size_t>(step)].size());
    if (step > 0) {
      in.settle();
      break;
    }
    const bool ok = co_await one(calls);
    if (!ok) co_return false;
    any = true;
  }
  co_return any;
}

}  // namespace weir::text::parse
