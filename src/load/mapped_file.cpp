#include "load/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace weir::load {

// Entries are never freed, only reused, so that the handler can walk the list without a lock.
struct MappedFile::Watch {
  std::atomic<std::uintptr_t> begin = 0;  // 0: free
  std::atomic<std::uintptr_t> end = 0;
  char message[512] = {};
  Watch* next = nullptr;

  static inline std::atomic<Watch*> head = nullptr;
  static inline std::mutex mutex;  // writers only

  static Watch* add(const std::string& path, std::span<const std::byte> bytes);
  static void on_sigbus(int signal, siginfo_t* info, void* context);
  static void install();
};

MappedFile::Watch* MappedFile::Watch::add(const std::string& path, std::span<const std::byte> bytes) {
  const std::lock_guard lock(mutex);
  static const bool installed = (install(), true);
  static_cast<void>(installed);
  Watch* entry = head.load();
  while (entry != nullptr && entry->begin.load() != 0) entry = entry->next;
  if (entry == nullptr) {
    entry = new Watch;
    entry->next = head.load();
    head.store(entry);
  }
  // The end of a long path says more than its beginning.
  const std::string_view tail = std::string_view(path).substr(path.size() > 300 ? path.size() - 300 : 0);
  const auto text = fmt::format(
      "weir: {} became shorter than the {} bytes it had when it was opened, while its weights were in use. Do not "
      "overwrite a model "
      "file that is being served: write a new file and rename it.\n",
      tail, bytes.size());
  std::strncpy(entry->message, text.c_str(), sizeof(entry->message) - 1);
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  entry->end.store(begin + bytes.size());
  entry->begin.store(begin);
  return entry;
}

void MappedFile::Watch::on_sigbus(int signal, siginfo_t* info, void*) {
  // A signal that somebody sent has no address.
  const auto address = info->si_code > 0 ? reinterpret_cast<std::uintptr_t>(info->si_addr) : 0;
  for (const Watch* entry = head.load(); entry != nullptr; entry = entry->next) {
    if (const auto begin = entry->begin.load(); begin == 0 || address < begin || address >= entry->end.load()) continue;
    const ssize_t written = write(STDERR_FILENO, entry->message, std::strlen(entry->message));
    static_cast<void>(written);
    _exit(2);
  }
  // Not ours: the default action, as soon as this handler has returned.
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
  raise(signal);
}

void MappedFile::Watch::install() {
  struct sigaction action = {};
  action.sa_sigaction = on_sigbus;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

Result<std::unique_ptr<MappedFile>> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail(ErrorCode::kNotFound, "{}: cannot be opened: {}", path, std::strerror(errno));
  struct stat status = {};
  const bool known = fstat(fd, &status) == 0;
  if (!known || !S_ISREG(status.st_mode) || status.st_size <= 0) {
    close(fd);
    if (known && S_ISREG(status.st_mode)) return fail(ErrorCode::kCorruptFile, "{}: the file is empty", path);
    return fail(ErrorCode::kCorruptFile, "{}: not a regular file", path);
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  close(fd);
  if (address == MAP_FAILED) {
    return fail(ErrorCode::kInternal, "{}: cannot map {} bytes: {}", path, size, std::strerror(error));
  }
  return std::unique_ptr<MappedFile>(new MappedFile(path, {static_cast<const std::byte*>(address), size}));
}

MappedFile::MappedFile(std::string path, std::span<const std::byte> bytes)
    : path_(std::move(path)), bytes_(bytes), watch_(Watch::add(path_, bytes)) {}

MappedFile::~MappedFile() {
  {
    const std::lock_guard lock(Watch::mutex);
    watch_->begin.store(0);
  }
  munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::release(std::span<const std::byte> range) const {
  static const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto file_begin = reinterpret_cast<std::uintptr_t>(bytes_.data());
  const auto file_end = file_begin + bytes_.size();
  const auto range_begin = reinterpret_cast<std::uintptr_t>(range.data());
  if (range_begin < file_begin || range_begin > file_end || range.size() > file_end - range_begin) return;
  const auto begin = (range_begin + page - 1) / page * page;
  const auto end = (range_begin + range.size()) / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

}  // namespace weir::load
