#include "hub/model_ref.h"

#include <algorithm>

#include "base/printable.h"

namespace weir::hub {
namespace {

constexpr std::size_t kMaxRepoName = 96;  // the Hub's own limit, of owner and name each
constexpr std::size_t kMaxRevision = 250;
constexpr std::size_t kMaxPath = 1024;
constexpr std::size_t kMaxComponent = 255;  // of a file name on Linux

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_repo_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxRepoName) return false;
  if (!is_alphanumeric(name.front()) && name.front() != '_') return false;
  // "--" separates owner and name in the cache.
  return name.find("--") == name.npos && name.find("..") == name.npos && name.back() != '.' && name.back() != '-' &&
         std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || c == '.' || c == '_' || c == '-'; });
}

// The three parts, unchecked. Only the first ':' and the first '@' before it separate: files may hold both.
struct Parts {
  std::string_view repo, revision, file;
  bool has_revision = false, has_file = false;
};

Parts split(std::string_view text) {
  Parts parts;
  const auto colon = text.find(':');
  if (colon != text.npos) {
    parts.has_file = true;
    parts.file = text.substr(colon + 1);
    text = text.substr(0, colon);
  }
  const auto at = text.find('@');
  if (at != text.npos) {
    parts.has_revision = true;
    parts.revision = text.substr(at + 1);
    text = text.substr(0, at);
  }
  parts.repo = text;
  return parts;
}

// Why `path` cannot stand below a folder of ours; empty if it can.
std::string path_fault(std::string_view path, std::size_t max_bytes) {
  if (path.empty()) return "it is empty";
  if (path.size() > max_bytes) return fmt::format("it has {} bytes; at most {} are allowed", path.size(), max_bytes);
  if (printable(path) != path) return "it holds control characters or is no UTF-8";
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    const auto part = path.substr(begin, end - begin);
    if (part.empty()) return begin == 0 ? "it begins with a slash" : "it has an empty part between slashes";
    if (part == "." || part == "..") return fmt::format("it holds '{}'", part);
    if (part.size() > kMaxComponent) return fmt::format("a part of it has {} bytes", part.size());
    begin = end + 1;
  }
  return {};
}

}  // namespace

bool looks_like_model_ref(std::string_view text) {
  const Parts parts = split(text);
  const auto slash = parts.repo.find('/');
  // A missing GGUF file is a wrong path, not a repository of that name.
  return slash != parts.repo.npos && is_repo_name(parts.repo.substr(0, slash)) &&
         is_repo_name(parts.repo.substr(slash + 1)) && !parts.repo.ends_with(".gguf");
}

Result<ModelRef> parse_model_ref(std::string_view text) {
  const Parts parts = split(text);
  const auto slash = parts.repo.find('/');
  if (slash == parts.repo.npos || !is_repo_name(parts.repo.substr(0, slash)) ||
      !is_repo_name(parts.repo.substr(slash + 1))) {
    return fail(ErrorCode::kInvalidArgument,
                "'{}' names no model of the Hub: owner/name[@revision][:file] is expected, where owner and name are "
                "letters, digits, '.', '_' and '-', at most {} each",
                text, kMaxRepoName);
  }
  ModelRef ref;
  ref.owner = parts.repo.substr(0, slash);
  ref.name = parts.repo.substr(slash + 1);
  if (parts.has_revision) {
    WEIR_RETURN_IF_ERROR(check_revision(parts.revision));
    ref.revision = parts.revision;
  }
  if (parts.has_file) {
    WEIR_RETURN_IF_ERROR(check_repo_path(parts.file));
    ref.file = parts.file;
  }
  return ref;
}

Status check_revision(std::string_view revision) {
  const std::string fault = path_fault(revision, kMaxRevision);
  if (fault.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "the revision '{}' cannot be one: {}", revision, fault);
}

Status check_repo_path(std::string_view path) {
  const std::string fault = path_fault(path, kMaxPath);
  if (fault.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "'{}' cannot be a file of a repository: {}", path, fault);
}

bool is_commit(std::string_view text) {
  return text.size() == 40 &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace weir::hub
