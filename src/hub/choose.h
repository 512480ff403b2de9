// Which files of a repository make up the model somebody asked for. Pure: works on names only, of a listing as well as
// of what the cache holds.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weir::hub {

struct Choice {
  std::vector<std::string> files;
  // The file that is the model (for a split GGUF its first part); empty: the folder is.
  std::string main;
  // A safetensors index among `files`: the shards it names belong to the model too.
  std::string index;
  std::string note;  // what was chosen where nobody said it; empty: there was no choice
};

// `paths`: sorted. `wanted`: a path, a file name that only one folder has, or a quantisation ("Q4_K_M", in any case);
// empty: the safetensors, else the only GGUF file, else the one in Q4_K_M. `repo` is for messages, which list what
// there is.
Result<Choice> choose_files(const std::vector<std::string>& paths, std::string_view wanted, const std::string& repo);

}  // namespace weir::hub
