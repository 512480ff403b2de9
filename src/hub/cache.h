// Cache: the folder in which programs keep what they got from the Hub, in the layout that Hugging Face describes ("Hub
// Local Cache", huggingface.co/docs/hub/local-cache), so that what one program pulled another one finds:
//
//   models--OWNER--NAME/blobs/ID                  contents, named by their checksum (hub/digest.h)
//   models--OWNER--NAME/blobs/ID.incomplete       as far as they have come
//   models--OWNER--NAME/refs/REVISION             the commit that a branch or tag stood for when it was pulled
//   models--OWNER--NAME/snapshots/COMMIT/PATH     relative symbolic links to blobs
//   .locks/models--OWNER--NAME/ID.lock            held (flock) by who downloads the blob
//
// Paths, ids and commits must have been checked (hub/model_ref.h, hub/digest.h). Anything appears at its place
// complete: written beside and renamed.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "hub/model_ref.h"

namespace weir::hub {

// Held until destroyed.
class FileLock {
 public:
  // `waiting` is called once if somebody else holds it.
  static Result<FileLock> take(const std::string& path, const std::function<void()>& waiting);
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;
  ~FileLock();

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  int fd_;
};

class Cache {
 public:
  explicit Cache(std::string root) : root_(std::move(root)) {}

  // $HF_HUB_CACHE, or hub/ in $HF_HOME, or in ~/.cache/huggingface ($XDG_CACHE_HOME/huggingface).
  static Result<std::string> default_root();

  const std::string& root() const { return root_; }
  std::string blob(const ModelRef& ref, const std::string& id) const;
  std::string incomplete(const ModelRef& ref, const std::string& id) const { return blob(ref, id) + ".incomplete"; }
  std::string lock(const ModelRef& ref, const std::string& id) const;
  std::string snapshot(const ModelRef& ref, const std::string& commit) const;

  // The folders for blobs and locks, and the tag that tells backup programs to leave the cache out.
  Status prepare(const ModelRef& ref) const;
  // The commit that ref.revision is or stood for when it was pulled.
  std::optional<std::string> commit_of(const ModelRef& ref) const;
  Status remember_commit(const ModelRef& ref, const std::string& commit) const;
  // Makes PATH of the snapshot lead to the blob.
  Status link(const ModelRef& ref, const std::string& commit, const std::string& path, const std::string& id) const;
  // Files of the snapshot whose contents are there; sorted.
  std::vector<std::string> files(const ModelRef& ref, const std::string& commit) const;

 private:
  std::string repo(const ModelRef& ref) const;
  std::string root_;
};

// $HF_HOME or where it is by default; empty if there is no home.
std::string hub_home();

// What the environment says, with a leading ~ and $NAME resolved; empty if it says nothing.
std::string path_from_environment(const char* name);

}  // namespace weir::hub
