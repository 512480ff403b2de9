#include <fmt/core.h>

#include "apps/commands.h"
#include "base/printable.h"
#include "engine/kv_sizing.h"
#include "load/inspect.h"

namespace weir::apps {

int inspect(const std::string& model, bool json) {
  const auto text =
      load::describe_model(model, json ? load::InspectFormat::kJson : load::InspectFormat::kText, engine::kv_cost);
  if (!text) return fail_with(text.error());
  fmt::print("{}", *text);
  return 0;
}

int fail_with(const Error& error) {
  fmt::print(stderr, "weir: {}\n", printable(error.message));
  return error.code == ErrorCode::kInternal ? 1 : 2;
}

}  // namespace weir::apps
