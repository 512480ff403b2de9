// ChildServer: this same program as `weir serve` in a process of its own, for commands that measure it as its users
// meet it. It ends with the object, and with the parent however that ends.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::apps {

class ChildServer {
 public:
  // `arguments`: of `serve`, the model first; --host and --port are added. Returns when requests are answered.
  static Result<std::unique_ptr<ChildServer>> start(std::vector<std::string> arguments);
  ~ChildServer();
  ChildServer(const ChildServer&) = delete;
  ChildServer& operator=(const ChildServer&) = delete;

  std::string base_url() const;
  // Resident set now; 0 if it cannot be read.
  std::int64_t resident_bytes() const;
  // SIGTERM, and the end of the process; what it logs to files is there afterwards. Fails if it did not end well.
  Status stop();

 private:
  ChildServer() = default;
  Status wait_until_ready();

  pid_t pid_ = -1;
  std::uint16_t port_ = 0;
  std::string log_path_;  // what the server said
};

// A file of this process in the folder for temporary files; removed with the object.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& name);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace weir::apps
