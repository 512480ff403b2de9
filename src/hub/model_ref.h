// ModelRef: a model of the Hugging Face Hub as people write it: owner/name[@revision][:file].
//
// What parse_model_ref lets through can stand in a path and in a URL: owner and name hold nothing but letters, digits,
// '.', '_' and '-', and no part of a revision or a file is "..".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace weir::hub {

struct ModelRef {
  std::string owner, name;
  std::string revision = "main";  // a branch, a tag or a commit
  std::string file;               // a path in the repository, or a quantisation ("Q4_K_M"); empty: weir chooses

  std::string repo() const { return owner + "/" + name; }
};

// Whether somebody may have meant a model of the Hub: what a path that does not exist is asked.
bool looks_like_model_ref(std::string_view text);

Result<ModelRef> parse_model_ref(std::string_view text);

Status check_revision(std::string_view revision);

// A path inside a repository, whoever named it: relative, without "." and "..", of printable characters.
Status check_repo_path(std::string_view path);

// A commit: 40 lower-case hexadecimal digits.
bool is_commit(std::string_view text);

}  // namespace weir::hub
