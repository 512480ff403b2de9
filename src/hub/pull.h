// `weir pull`: a model from a Hugging Face Hub into the cache. Asks the Hub's API what the repository holds, chooses
// what makes up the model (hub/choose.h), and brings what is missing (hub/blob_download.h), all of it from one commit.
//
// Everything that server and network say is checked before it is used: names before they become paths, sizes and
// checksums against each other and against what came.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "hub/blob_download.h"
#include "hub/model_ref.h"

namespace weir::hub {

struct PullOptions {
  std::string endpoint = "https://huggingface.co";
  std::string token;
  std::string cache_root;
  std::string user_agent = "weir";
  double stall_s = 30;  // a transfer that brings nothing for so long is given up, and tried again
  int retries = 5;
  bool offline = false;
};

// From HF_ENDPOINT, HF_TOKEN (or the token file that `hf auth login` writes), HF_HUB_CACHE, HF_HOME,
// HF_HUB_DOWNLOAD_TIMEOUT and HF_HUB_OFFLINE.
Result<PullOptions> pull_options_from_environment();

// The path of the model in the cache: a GGUF file, or a folder.
Result<std::string> pull(const ModelRef& ref, const PullOptions& options, PullListener& listener);

// The same without asking anybody: nothing if the cache does not hold all of the model.
std::optional<std::string> find_pulled(const ModelRef& ref, const std::string& cache_root);

}  // namespace weir::hub
