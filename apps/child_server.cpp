#include "apps/child_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "base/clock.h"
#include "base/printable.h"
#include "driver/driver.h"

namespace weir::apps {
namespace {

constexpr double kStartPatience_s = 600;  // large models are packed for minutes
constexpr double kStopPatience_s = 60;
constexpr auto kPoll = std::chrono::milliseconds(20);
constexpr std::size_t kShownLog = 2000;

Result<std::uint16_t> free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const bool good = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                    getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!good) return fail(ErrorCode::kInternal, "there is no free port: {}", std::strerror(error));
  return ntohs(address.sin_port);
}

std::string tail_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (text.size() > kShownLog) text.erase(0, text.size() - kShownLog);
  return printable(text, "\n");
}

// In the child, between fork and exec: only what is safe there.
[[noreturn]] void become_server(char* const* argv, int log, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv("/proc/self/exe", argv);
  _exit(127);
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& name) {
  static std::atomic<int> number{0};
  std::error_code error;
  auto folder = std::filesystem::temp_directory_path(error);
  if (error) folder = ".";
  path_ = (folder / fmt::format("weir-{}-{}-{}", getpid(), number++, name)).string();
}

TemporaryFile::~TemporaryFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

Result<std::unique_ptr<ChildServer>> ChildServer::start(std::vector<std::string> arguments) {
  std::unique_ptr<ChildServer> server(new ChildServer);
  WEIR_TRY(server->port_, free_port());
  arguments.insert(arguments.begin(), {"weir", "serve"});
  for (const std::string& more :
       {std::string("--host"), std::string("127.0.0.1"), std::string("--port"), std::to_string(server->port_)})
    arguments.push_back(more);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const TemporaryFile log("server.log");
  server->log_path_ = log.path();
  const int fd = open(log.path().c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) return fail(ErrorCode::kInternal, "cannot write {}: {}", printable(log.path()), std::strerror(errno));
  const pid_t parent = getpid();
  server->pid_ = fork();
  if (server->pid_ == 0) become_server(argv.data(), fd, parent);
  close(fd);
  if (server->pid_ < 0) return fail(ErrorCode::kInternal, "cannot start a process: {}", std::strerror(errno));
  WEIR_RETURN_IF_ERROR(server->wait_until_ready());
  return server;
}

Status ChildServer::wait_until_ready() {
  const double deadline_s = monotonic_s() + kStartPatience_s;
  while (monotonic_s() < deadline_s) {
    int status = 0;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      return fail(ErrorCode::kInvalidArgument, "the server did not start:\n{}", tail_of(log_path_));
    }
    if (driver::first_model(base_url(), "")) return {};
    std::this_thread::sleep_for(kPoll);
  }
  return fail(ErrorCode::kInternal, "the server was not ready after {:g} s:\n{}", kStartPatience_s, tail_of(log_path_));
}

ChildServer::~ChildServer() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string ChildServer::base_url() const {
  return fmt::format("http://127.0.0.1:{}", port_);
}

std::int64_t ChildServer::resident_bytes() const {
  std::ifstream in(fmt::format("/proc/{}/statm", pid_));
  std::int64_t size = 0, resident = 0;
  if (!(in >> size >> resident)) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

Status ChildServer::stop() {
  if (pid_ <= 0) return {};
  kill(pid_, SIGTERM);
  const double deadline_s = monotonic_s() + kStopPatience_s;
  int status = 0;
  while (waitpid(pid_, &status, WNOHANG) != pid_) {
    if (monotonic_s() > deadline_s) return fail(ErrorCode::kInternal, "the server did not end after SIGTERM");
    std::this_thread::sleep_for(kPoll);
  }
  pid_ = -1;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return fail(ErrorCode::kInternal, "the server ended with wait status {}", status);
  return {};
}

}  // namespace weir::apps
