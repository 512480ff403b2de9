#include "text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <utility>

#include "text/tokenizer/unicode.h"

namespace weir::text {
namespace {

constexpr std::size_t kMaxPatternBytes = 64 * 1024;  // the longest in use has about 4 KB
constexpr std::uint32_t kMatchLimit = 10'000'000;    // backtracking steps of one match: some 50 ms
constexpr std::uint32_t kHeapLimitKib = 64 * 1024;   // backtracking memory of one match
constexpr std::size_t kJitStackBytes = 1024 * 1024;

template <class T, void (*kFree)(T*)>
struct Deleter {
  void operator()(T* p) const { kFree(p); }
};
using Code = std::unique_ptr<pcre2_code, Deleter<pcre2_code, pcre2_code_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data, pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context, pcre2_match_context_free>>;
using CompileContext =
    std::unique_ptr<pcre2_compile_context, Deleter<pcre2_compile_context, pcre2_compile_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Deleter<pcre2_jit_stack, pcre2_jit_stack_free>>;

}  // namespace

struct Regex::Impl {
  Code code;
};

Regex::Regex(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(const std::string& pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return fail(ErrorCode::kUnsupported, "a regular expression of the tokenizer has {} bytes; weir allows {}",
                pattern.size(), kMaxPatternBytes);
  }
  const CompileContext context(pcre2_compile_context_create(nullptr));
  pcre2_set_parens_nest_limit(context.get(), 64);
  int code = 0;
  PCRE2_SIZE offset = 0;
  // No \C: it could split a character. No look-behind scans or callouts are needed, so nothing else is switched on.
  Code compiled(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context.get()));
  if (!compiled) {
    PCRE2_UCHAR message[256] = {};
    pcre2_get_error_message(code, message, sizeof(message));
    return fail(ErrorCode::kUnsupported, "the tokenizer's regular expression \"{}\" does not compile: {} at byte {}",
                valid_utf8(pattern) ? pattern : "(not UTF-8)", reinterpret_cast<const char*>(message), offset);
  }
  pcre2_jit_compile(compiled.get(), PCRE2_JIT_COMPLETE);  // without it matching is only slower
  return Regex(std::make_unique<Impl>(Impl{std::move(compiled)}));
}

namespace {

// Matches inside text[begin, end), which is UTF-8. Returns false once a limit is hit.
bool find_in_valid(const pcre2_code* code, std::string_view text, Span range, pcre2_match_data* data,
                   pcre2_match_context* context, std::vector<Span>& out) {
  const std::string_view part = text.substr(range.begin, range.end - range.begin);
  std::size_t at = 0;
  while (at < part.size()) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(part.data());
    int count = pcre2_match(code, subject, part.size(), at, PCRE2_NO_UTF_CHECK, data, context);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
      count = pcre2_match(code, subject, part.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context);
    }
    if (count == PCRE2_ERROR_NOMATCH) return true;
    if (count < 0) return false;
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(data);
    if (found[1] > found[0] && found[0] >= at) {
      out.push_back({range.begin + found[0], range.begin + found[1]});
      at = found[1];
    } else {
      // An empty match (or one that \K moved back): go on behind the next character.
      const std::size_t next = found[1] > at ? found[1] : at;
      if (next >= part.size()) return true;
      at = next + char_at(part, next).size;
    }
  }
  return true;
}

}  // namespace

void Regex::find_all(std::string_view text, std::vector<Span>& out) const {
  const MatchData data(pcre2_match_data_create(1, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  const JitStack stack(pcre2_jit_stack_create(32 * 1024, kJitStackBytes, nullptr));
  pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
  // PCRE2 wants UTF-8; bytes that are not are skipped, and no match spans them.
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size();) {
    const bool at_end = at == text.size();
    const Char c = at_end ? Char{} : char_at(text, at);
    if (!at_end && c.code != kInvalidChar) {
      at += c.size;
      continue;
    }
    if (at > begin && !find_in_valid(impl_->code.get(), text, {begin, at}, data.get(), context.get(), out)) return;
    begin = ++at;
  }
}

}  // namespace weir::text
