#include "apps/pull_command.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "apps/commands.h"
#include "apps/model_loading.h"
#include "base/clock.h"
#include "base/printable.h"
#include "hub/pull.h"

namespace weir::apps {
namespace {

constexpr double kRedraw_s = 0.1, kLine_s = 10;
constexpr std::int64_t kAnnounced = 10'000'000;    // bytes; smaller files are there at once
constexpr int kBarWidth = 10, kFiguresWidth = 52;  // columns of the bar and of what stands beside it

std::string amount(std::int64_t bytes) {
  return human_bytes(static_cast<double>(bytes));
}

// Progress on standard error: a bar that moves on a terminal, a line now and then elsewhere.
class Progress : public hub::PullListener {
 public:
  void note(const std::string& text) override {
    clear();
    fmt::print(stderr, "{}\n", printable(text));
  }

  void file_begins(const std::string& path, std::int64_t bytes, std::int64_t have) override {
    path_ = printable(path);
    bytes_ = bytes;
    have_ = at_start_ = have;
    start_s_ = drawn_s_ = monotonic_s();
    if (terminal_) return draw();
    if (bytes >= kAnnounced || have > 0)
      fmt::print(stderr, "{}: {}{}\n", path_, amount(bytes), have > 0 ? ", of which " + amount(have) + " is here" : "");
  }

  void file_advances(std::int64_t have) override {
    if (have < have_) at_start_ = have;  // begun anew
    have_ = have;
    const double now_s = monotonic_s();
    if (now_s - drawn_s_ < (terminal_ ? kRedraw_s : kLine_s)) return;
    drawn_s_ = now_s;
    if (terminal_) return draw();
    fmt::print(stderr, "{}: {}\n", path_, figures());
  }

  void file_ends() override {
    clear();
    fmt::print(stderr, "{}: {} in {:.1f} s\n", path_, amount(bytes_), monotonic_s() - start_s_);
  }

 private:
  std::string figures() const {
    const double elapsed_s = std::max(monotonic_s() - start_s_, 1e-3);
    const double rate = static_cast<double>(have_ - at_start_) / elapsed_s;
    std::string text = fmt::format("{:3.0f} %  {} of {}", percent(), amount(have_), amount(bytes_));
    if (rate <= 0) return text;
    const auto left_s = static_cast<std::int64_t>(static_cast<double>(bytes_ - have_) / rate);
    return text + fmt::format("  {}/s  {}:{:02} left", human_bytes(rate), left_s / 60, left_s % 60);
  }

  double percent() const { return bytes_ == 0 ? 100 : 100 * static_cast<double>(have_) / static_cast<double>(bytes_); }

  void draw() const {
    winsize size = {};
    const int columns = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    const auto name_columns = static_cast<std::size_t>(std::clamp(columns - kBarWidth - kFiguresWidth, 12, 60));
    const std::string name =
        path_.size() <= name_columns ? path_ : "..." + path_.substr(path_.size() - name_columns + 3);
    const auto filled = static_cast<std::size_t>(percent() / 100 * kBarWidth);
    std::string line = fmt::format("{} [{}{}] {}", name, std::string(filled, '='),
                                   std::string(static_cast<std::size_t>(kBarWidth) - filled, ' '), figures());
    if (line.size() >= static_cast<std::size_t>(columns)) line.resize(static_cast<std::size_t>(columns - 1));
    fmt::print(stderr, "\r\x1b[K{}", line);
  }

  void clear() const {
    if (terminal_) fmt::print(stderr, "\r\x1b[K");
  }

  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  std::string path_;
  std::int64_t bytes_ = 0, have_ = 0, at_start_ = 0;
  double start_s_ = 0, drawn_s_ = 0;
};

Result<std::string> pull_now(const hub::ModelRef& ref, hub::PullOptions options) {
  ::signal(SIGPIPE, SIG_IGN);  // a connection that the other side closed is an error like any other
  options.user_agent = "weir/" WEIR_VERSION;
  Progress progress;
  return hub::pull(ref, options, progress);
}

Result<std::string> run_pull(const PullCommandOptions& options) {
  WEIR_TRY(auto ref, hub::parse_model_ref(options.model));
  WEIR_TRY(auto pull_options, hub::pull_options_from_environment());
  if (!options.revision.empty()) {
    WEIR_RETURN_IF_ERROR(hub::check_revision(options.revision));
    ref.revision = options.revision;
  }
  if (!options.token.empty()) pull_options.token = options.token;
  if (!options.cache_dir.empty()) pull_options.cache_root = options.cache_dir;
  if (options.retries) pull_options.retries = *options.retries;
  return pull_now(ref, pull_options);
}

}  // namespace

int pull(const PullCommandOptions& options) {
  const auto path = run_pull(options);
  if (!path) return fail_with(path.error());
  fmt::print("{}\n", *path);
  return 0;
}

Result<LocalModel> local_model(const std::string& model, bool may_pull) {
  std::error_code error;
  if (std::filesystem::exists(model, error)) return LocalModel{.path = model};
  if (!hub::looks_like_model_ref(model)) {
    return fail(
        ErrorCode::kNotFound,
        "there is no file or folder '{}'; MODEL is a .gguf file, a Hugging Face folder, or owner/name[:file] of "
        "the Hugging Face Hub",
        model);
  }
  WEIR_TRY(const auto ref, hub::parse_model_ref(model));
  WEIR_TRY(const auto options, hub::pull_options_from_environment());
  if (auto path = hub::find_pulled(ref, options.cache_root))
    return LocalModel{.path = std::move(*path), .repo = ref.repo()};
  if (!may_pull)
    return fail(ErrorCode::kNotFound,
                "there is no file or folder '{}', nor is it in the Hub's cache in {}; `weir pull` gets it", model,
                options.cache_root);
  fmt::print(stderr, "weir: there is no file or folder '{}': pulling it from {} into {}\n", printable(model),
             printable(options.endpoint), printable(options.cache_root));
  WEIR_TRY(auto path, pull_now(ref, options));
  return LocalModel{.path = std::move(path), .repo = ref.repo()};
}

}  // namespace weir::apps
