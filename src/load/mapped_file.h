// MappedFile: a whole file, read-only, in this process's address space.
//
// A mapping of a file that somebody truncates ends in SIGBUS on the next touch. The first open() installs a handler for
// that signal: when the faulting address lies in one of our mappings it prints which file shrank and exits with status
// 2; any other SIGBUS keeps its default action. Threads: everything but open/close is const and may be called from
// several.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace weir::load {

class MappedFile {
 public:
  // kNotFound when there is no such file or it cannot be read, kCorruptFile when it is empty or no regular file.
  static Result<std::unique_ptr<MappedFile>> open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // The pages wholly inside `range` may leave this process's memory; they come back from the file when touched again. A
  // range outside the mapping is ignored.
  void release(std::span<const std::byte> range) const;

 private:
  struct Watch;  // what the signal handler knows of a mapping
  MappedFile(std::string path, std::span<const std::byte> bytes);

  std::string path_;
  std::span<const std::byte> bytes_;
  Watch* watch_ = nullptr;
};

}  // namespace weir::load
