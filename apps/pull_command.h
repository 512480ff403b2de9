// Models of the Hub on the command line: `weir pull`, and owner/name where a command takes a model.
#pragma once

#include <string>

#include "apps/options.h"
#include "base/result.h"

namespace weir::apps {

int pull(const PullCommandOptions& options);

// Where `model` lies: itself if there is such a file or folder; else, if it names a model of the Hub, in the Hub's
// cache, after it has been pulled if need be (which says so on standard error) and `may_pull`.
struct LocalModel {
  std::string path;
  std::string repo;  // "owner/name" if it is of the Hub
};
Result<LocalModel> local_model(const std::string& model, bool may_pull = true);

}  // namespace weir::apps
