// `weir run` (one prompt, one reply) and `weir chat` (a conversation) in a terminal.
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <string>

#include "apps/commands.h"
#include "apps/local_session.h"
#include "base/log.h"
#include "base/printable.h"

namespace weir::apps {
namespace {

constexpr std::size_t kQuotedBytes = 80;  // of a line that is no command

std::atomic<bool> g_stop{false};
std::atomic<bool> g_replying{false};

// While a reply is being written Ctrl-C ends the reply, otherwise the program.
void on_interrupt(int) {
  if (g_replying && !g_stop) {
    g_stop = true;
  } else {
    _exit(130);
  }
}

void watch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

void print_now(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// On a terminal what a model writes is text only: escape sequences of its own would act there; and its reasoning is
// dim. Into a file or a pipe the text goes as it is, without the reasoning.
class ReplyPrinter {
 public:
  void print(const api::ReplyPart& part) {
    if (!terminal_) return print_now(part.text);
    if (!part.reasoning.empty()) {
      print_now("\x1b[2m" + printable(part.reasoning, "\n\t") + "\x1b[0m");
      reasoned_ = true;
    }
    if (part.text.empty()) return;
    if (std::exchange(reasoned_, false)) print_now("\n\n");
    print_now(printable(part.text, "\n\t"));
  }

 private:
  const bool terminal_ = isatty(STDOUT_FILENO) != 0;
  bool reasoned_ = false;  // and has written no answer since
};

void print_stats(const ReplyStats& stats) {
  const double decode_s = stats.total_s - stats.first_token_s;
  const std::string rate =
      stats.output_tokens > 1 && decode_s > 0
          ? fmt::format(", {:.1f} tokens/s", static_cast<double>(stats.output_tokens - 1) / decode_s)
          : "";
  fmt::print(stderr, "[{} prompt tokens ({} cached), {} reply tokens, first after {:.0f} ms{}]\n", stats.prompt_tokens,
             stats.cached_tokens, stats.output_tokens, stats.first_token_s * 1e3, rate);
}

Result<ReplyStats> reply_interruptibly(LocalSession& session, api::GenerationRequest request,
                                       const api::ChatInput* chat) {
  g_stop = false;
  g_replying = true;
  ReplyPrinter printer;
  auto stats =
      session.reply(std::move(request), chat, [&](const api::ReplyPart& part) { printer.print(part); }, g_stop);
  g_replying = false;
  print_now("\n");
  return stats;
}

api::ChatInput new_chat(const std::string& system) {
  api::ChatInput chat;
  chat.kwargs["add_generation_prompt"] = true;
  if (!system.empty()) chat.messages.push_back({{"role", "system"}, {"content", system}});
  return chat;
}

void print_chat_help() {
  fmt::print(stderr,
             "Write a message and press Enter. Ctrl-C stops a reply.\n"
             "/clear begins a new conversation, /system TEXT sets the system prompt and begins anew, /exit (or Ctrl-D) "
             "ends, /help says this again. A message that begins with / needs a space before it.\n");
}

// A line that begins with a slash. Returns false when the conversation is over.
bool take_command(const std::string& line, std::string& system, api::ChatInput& chat) {
  const auto word_end = line.find_first_of(" \t");
  const std::string word = line.substr(0, word_end);
  const auto rest_at = word_end == std::string::npos ? word_end : line.find_first_not_of(" \t", word_end);
  const std::string rest = rest_at == std::string::npos ? "" : line.substr(rest_at);
  if (word == "/system") {
    system = rest;
    chat = new_chat(system);
  } else if (word == "/clear" && rest.empty()) {
    chat = new_chat(system);
  } else if (word == "/help" && rest.empty()) {
    print_chat_help();
  } else if ((word == "/exit" || word == "/quit") && rest.empty()) {
    return false;
  } else {
    fmt::print(stderr, "weir: there is no command '{}'\n", printable(line.substr(0, kQuotedBytes)));
    print_chat_help();
  }
  return true;
}

// Why a message got no reply.
void report_failure(Error error, const LocalSession& session, const std::string& system, const api::ChatInput& chat) {
  const std::size_t alone = system.empty() ? 1 : 2;
  if (error.code == ErrorCode::kContextLengthExceeded && chat.messages.size() > alone) {
    // It is not this message that is too long, as the error for a single one says.
    error.message = fmt::format("the conversation has filled the context of {} tokens; /clear begins a new one ({})",
                                session.model().max_model_len, error.message);
  }
  fail_with(error);
}

// One line of input. Returns false when the conversation is over.
bool take_line(LocalSession& session, const RunOptions& options, const std::string& line, std::string& system,
               api::ChatInput& chat) {
  if (line.empty()) return true;
  if (line.front() == '/') return take_command(line, system, chat);
  chat.messages.push_back({{"role", "user"}, {"content", line}});
  auto request = to_request(options.sampling, session.model());
  if (request) {
    request->chat = true;
    request->add_special_tokens = false;
  }
  const auto stats =
      request.and_then([&](api::GenerationRequest& r) { return reply_interruptibly(session, std::move(r), &chat); });
  if (!stats) {
    report_failure(stats.error(), session, system, chat);
    chat.messages.erase(chat.messages.size() - 1);  // as if it had not been asked
    return true;
  }
  chat.messages.push_back({{"role", "assistant"}, {"content", stats->text}});
  if (!stats->reasoning.empty()) chat.messages.back()["reasoning_content"] = stats->reasoning;
  print_stats(*stats);
  return true;
}

}  // namespace

int run(const RunOptions& options) {
  if (const auto status = init_log("warning"); !status) return fail_with(status.error());
  auto session = LocalSession::open(options.model);
  if (!session) return fail_with(session.error());
  auto request = to_request(options.sampling, (*session)->model());
  if (!request) return fail_with(request.error());
  watch_interrupts();
  api::ChatInput chat = new_chat(options.system);
  const bool as_chat = !options.raw && !(*session)->model().chat_templates.empty();
  if (as_chat) {
    request->chat = true;
    request->add_special_tokens = false;
    chat.messages.push_back({{"role", "user"}, {"content", options.prompt}});
  } else {
    request->prompts.push_back(options.prompt);
  }
  const auto stats = reply_interruptibly(**session, std::move(*request), as_chat ? &chat : nullptr);
  if (!stats) return fail_with(stats.error());
  print_stats(*stats);
  session->reset();
  shutdown_log();
  return 0;
}

int chat(const RunOptions& options) {
  if (const auto status = init_log("warning"); !status) return fail_with(status.error());
  auto session = LocalSession::open(options.model);
  if (!session) return fail_with(session.error());
  const auto& model = (*session)->model();
  if (model.chat_templates.empty()) {
    return fail_with({ErrorCode::kInvalidArgument,
                      "this model has no chat template; give one with --chat-template FILE, or use `weir run --raw`",
                      {}});
  }
  if (const auto request = to_request(options.sampling, model); !request) return fail_with(request.error());
  watch_interrupts();
  std::string system = options.system;
  api::ChatInput conversation = new_chat(system);
  const bool terminal = isatty(STDIN_FILENO) != 0;
  if (terminal) {
    fmt::print(stderr, "{}, context of {} tokens\n", printable(model.name), model.max_model_len);
    print_chat_help();
  }
  std::string line;
  while (true) {
    if (terminal) print_now("> ");
    if (!std::getline(std::cin, line)) break;
    if (!take_line(**session, options, line, system, conversation)) break;
  }
  if (terminal && std::cin.eof()) print_now("\n");
  session->reset();
  shutdown_log();
  return 0;
}

}  // namespace weir::apps
