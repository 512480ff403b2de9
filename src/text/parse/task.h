// Task<T>: a coroutine that a parser's grammar is written as.
//
// A grammar reads top to bottom, like a recursive descent parser over a whole text, and waits inside `co_await`
// wherever the next byte has not come yet. Nothing it does can depend on where the text was cut, because it has no way
// to see that.
//
// A task starts when it is called and runs until it needs a byte; whoever awaits it goes on at once if it is done by
// then. So long runs of short tasks do not deepen the stack. Not thread-safe. Grammars throw nothing.
//
// GCC 12 miscompiles a loop with `co_await` in its condition that is left by co_return, and a conditional expression
// with `co_await` whose value has a destructor. So both are avoided: `const auto x = co_await f();` on a line of its
// own.
#pragma once

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace weir::text::parse {

// A task's last act: whoever awaits it goes on.
struct GoOn {
  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> done) const noexcept {
    const auto waiting = done.promise().waiting;
    if (waiting) waiting.resume();
  }
  void await_resume() const noexcept {}
};

template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::optional<T> value;
    std::coroutine_handle<> waiting;  // who awaits this task, if it did not finish at once

    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    GoOn final_suspend() noexcept { return {}; }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { std::terminate(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  Task& operator=(Task&&) = delete;
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return handle_.done(); }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { handle_.promise().waiting = waiting; }
  T await_resume() { return std::move(*handle_.promise().value); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}

  std::coroutine_handle<promise_type> handle_;
};

}  // namespace weir::text::parse
