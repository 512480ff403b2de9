#include "hub/cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

namespace weir::hub {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxSnapshotFiles = 100'000;

std::string environment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? "" : value;
}

Status make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return fail(ErrorCode::kInvalidArgument, "{}: the folder cannot be made: {}", path, error.message());
  return {};
}

// A name beside `path` that no other process uses.
std::string beside(const std::string& path) {
  return fmt::format("{}.{}.tmp", path, ::getpid());
}

Status move_into_place(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(from.c_str());
  return fail(ErrorCode::kInvalidArgument, "{}: cannot be written: {}", to, std::strerror(error));
}

Status write_small(const std::string& path, const std::string& text) {
  const std::string scratch = beside(path);
  std::ofstream out(scratch, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) {
    ::unlink(scratch.c_str());
    return fail(ErrorCode::kInvalidArgument, "{}: cannot be written", path);
  }
  return move_into_place(scratch, path);
}

// The standard of bford.info/cachedir.
constexpr const char* kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder holds what can be downloaded again from a Hugging Face Hub.\n";

}  // namespace

Result<FileLock> FileLock::take(const std::string& path, const std::function<void()>& waiting) {
  bool said = false;
  while (true) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
    if (fd < 0)
      return fail(ErrorCode::kInvalidArgument, "{}: the lock file cannot be made: {}", path, std::strerror(errno));
    FileLock lock(fd);
    while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK && errno != EINTR) return lock;  // no locks on this file system: do without
      if (!said && waiting) waiting();
      said = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    // Who held it may have removed it: then others lock another file of that name.
    struct stat ours = {}, named = {};
    if (::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
        ours.st_dev == named.st_dev) {
      return lock;
    }
  }
}

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

std::string path_from_environment(const char* name) {
  std::string path = environment(name);
  if (path == "~" || path.starts_with("~/")) path = environment("HOME") + path.substr(1);
  // As other programs do that share the variables: $NAME and ${NAME}, once.
  std::string out;
  for (std::size_t i = 0; i < path.size();) {
    const bool braced = path.compare(i, 2, "${") == 0;
    const std::size_t begin = i + (braced ? 2 : 1);
    std::size_t end = begin;
    while (path[i] == '$' && end < path.size() &&
           (std::isalnum(static_cast<unsigned char>(path[end])) || path[end] == '_'))
      ++end;
    if (path[i] != '$' || end == begin || (braced && (end == path.size() || path[end] != '}'))) {
      out += path[i++];
      continue;
    }
    out += environment(path.substr(begin, end - begin));
    i = end + (braced ? 1 : 0);
  }
  return out;
}

std::string hub_home() {
  if (const std::string home = path_from_environment("HF_HOME"); !home.empty()) return home;
  if (const std::string xdg = path_from_environment("XDG_CACHE_HOME"); !xdg.empty()) return xdg + "/huggingface";
  const std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/huggingface";
}

Result<std::string> Cache::default_root() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (std::string root = path_from_environment(name); !root.empty()) return root;
  }
  const std::string home = hub_home();
  if (home.empty())
    return fail(ErrorCode::kInvalidArgument, "there is no $HOME to keep models in; set HF_HOME or HF_HUB_CACHE");
  return home + "/hub";
}

std::string Cache::repo(const ModelRef& ref) const {
  return root_ + "/models--" + ref.owner + "--" + ref.name;
}
std::string Cache::blob(const ModelRef& ref, const std::string& id) const {
  return repo(ref) + "/blobs/" + id;
}
std::string Cache::lock(const ModelRef& ref, const std::string& id) const {
  return root_ + "/.locks/models--" + ref.owner + "--" + ref.name + "/" + id + ".lock";
}
std::string Cache::snapshot(const ModelRef& ref, const std::string& commit) const {
  return repo(ref) + "/snapshots/" + commit;
}

Status Cache::prepare(const ModelRef& ref) const {
  WEIR_RETURN_IF_ERROR(make_folder(repo(ref) + "/blobs"));
  WEIR_RETURN_IF_ERROR(make_folder(root_ + "/.locks/models--" + ref.owner + "--" + ref.name));
  const std::string tag = root_ + "/CACHEDIR.TAG";
  if (std::error_code error; !fs::exists(tag, error)) return write_small(tag, kCacheTag);
  return {};
}

std::optional<std::string> Cache::commit_of(const ModelRef& ref) const {
  if (is_commit(ref.revision)) return ref.revision;
  std::ifstream in(repo(ref) + "/refs/" + ref.revision, std::ios::binary);
  std::string commit(40, '\0');
  if (!in.read(commit.data(), 40) || !is_commit(commit)) return std::nullopt;
  return commit;
}

Status Cache::remember_commit(const ModelRef& ref, const std::string& commit) const {
  if (ref.revision == commit || commit_of(ref) == commit) return {};
  const std::string path = repo(ref) + "/refs/" + ref.revision;
  WEIR_RETURN_IF_ERROR(make_folder(fs::path(path).parent_path()));
  return write_small(path, commit);
}

Status Cache::link(const ModelRef& ref, const std::string& commit, const std::string& path,
                   const std::string& id) const {
  const std::string place = snapshot(ref, commit) + "/" + path;
  std::string target = "../../";
  for (const char c : path) {
    if (c == '/') target += "../";
  }
  target += "blobs/" + id;
  std::error_code error;
  if (fs::read_symlink(place, error) == target && !error) return {};
  WEIR_RETURN_IF_ERROR(make_folder(fs::path(place).parent_path()));
  const std::string scratch = beside(place);
  ::unlink(scratch.c_str());
  if (::symlink(target.c_str(), scratch.c_str()) != 0)
    return fail(ErrorCode::kInvalidArgument, "{}: the link cannot be made: {}", place, std::strerror(errno));
  return move_into_place(scratch, place);
}

std::vector<std::string> Cache::files(const ModelRef& ref, const std::string& commit) const {
  const fs::path folder = snapshot(ref, commit);
  std::vector<std::string> found;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code missing;
    if (fs::is_regular_file(it->path(), missing)) found.push_back(it->path().lexically_relative(folder).string());
    if (found.size() > kMaxSnapshotFiles) break;
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace weir::hub
