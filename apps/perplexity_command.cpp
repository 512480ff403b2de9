// `weir perplexity`: how well a model foretells a text, and how far its probabilities are from another's: another file,
// the same one computed exactly, or what llama-perplexity saved.
//
// The text is cut as llama-perplexity cuts it: chunks of --context tokens, of which the second half is scored; where
// the tokenizer begins a text with a BOS, each chunk's first token is replaced by it. With --stride the windows
// overlap and every token is scored once, with as much context as there is (the way of the Hugging Face documentation).
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "apps/commands.h"
#include "apps/logit_meeting.h"
#include "apps/logits_file.h"
#include "apps/model_loading.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "sample/divergence.h"

namespace weir::apps {
namespace {

using sample::Estimate;

constexpr std::size_t kMaxTextBytes = std::size_t{1} << 30;
constexpr std::size_t kWaitingOutputs = 1 << 10;

// A piece of the text that one sequence is made of.
struct Window {
  std::int64_t begin = 0, end = 0;  // of the text's tokens
  std::int64_t scored = 0;          // from this token of the text on
};

struct Text {
  std::vector<TokenId> tokens;
  std::optional<TokenId> bos;  // set: chunks begin with it
};

Result<std::string> read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text;
  std::vector<char> buffer(1 << 20);
  while (in.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), in.gcount() > 0) {
    text.append(buffer.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > kMaxTextBytes)
      return fail(ErrorCode::kTooLarge, "--text {}: larger than {} bytes", path, kMaxTextBytes);
  }
  if (text.empty()) return fail(ErrorCode::kNotFound, "--text {}: it cannot be read, or is empty", path);
  return text;
}

Text tokenized(const text::Tokenizer& tokenizer, const std::string& text) {
  Text out;
  const auto around = tokenizer.encode("", {.add_special = true});
  if (!around.empty() && tokenizer.bos() == around.front()) out.bos = around.front();
  if (out.bos) out.tokens.push_back(*out.bos);
  // Without what stands at the end of a text: it does not end here.
  const auto ids = tokenizer.encode(text, {});
  out.tokens.insert(out.tokens.end(), ids.begin(), ids.end());
  return out;
}

std::vector<Window> chunks_of(std::int64_t tokens, std::int64_t context) {
  std::vector<Window> windows;
  for (std::int64_t begin = 0; begin + context <= tokens; begin += context)
    windows.push_back({begin, begin + context, begin + context / 2 + 1});
  return windows;
}

std::vector<Window> strides_of(std::int64_t tokens, std::int64_t context, std::int64_t stride) {
  std::vector<Window> windows;
  for (std::int64_t begin = 0, scored = 0; scored < tokens; begin += stride) {
    const std::int64_t end = std::min(begin + context, tokens);
    windows.push_back({begin, end, std::max(scored, begin + 1)});
    scored = end;
  }
  return windows;
}

Result<std::vector<Window>> windows_of(const Text& text, std::int64_t context, const PerplexityOptions& options) {
  const auto tokens = static_cast<std::int64_t>(text.tokens.size());
  auto windows = options.stride > 0 ? strides_of(tokens, context, options.stride) : chunks_of(tokens, context);
  std::erase_if(windows, [](const Window& window) { return window.scored >= window.end; });
  if (windows.empty())
    return fail_at("text", ErrorCode::kInvalidArgument,
                   "--text {}: it has {} tokens, and --context {} needs at least as many; give a longer text or a "
                   "smaller --context",
                   options.text, tokens, context);
  if (options.chunks > 0 && static_cast<std::size_t>(options.chunks) < windows.size())
    windows.resize(static_cast<std::size_t>(options.chunks));
  return windows;
}

struct Results {
  std::vector<double> surprise, base_surprise, kl, reverse_kl;  // of each scored token
  std::vector<std::uint8_t> same_best;
  std::size_t windows = 0;
  std::int64_t context = 0;
};

// The models that are asked, and what they answer.
class Measurement {
 public:
  explicit Measurement(const PerplexityOptions& options) : options_(options), outputs_(kWaitingOutputs) {}
  ~Measurement() { outputs_.close(); }

  Status load() {
    std::string text;
    if (options_.against_logits.empty()) {
      WEIR_TRY(text, read_text(options_.text));
    } else {
      WEIR_TRY(file_, LogitsFile::open(options_.against_logits));
      context_ = file_->context();
    }
    two_ = !options_.against.empty() || !options_.against_compute.empty();
    WEIR_RETURN_IF_ERROR(load_side(0, options_.model));
    if (two_) WEIR_RETURN_IF_ERROR(load_side(1, against()));
    text_ = tokenized(*sides_[0].served->tokenizer, text);
    if (two_) WEIR_RETURN_IF_ERROR(check_same_tokens(text));
    if (file_) WEIR_RETURN_IF_ERROR(take_tokens_of_file());
    WEIR_TRY(windows_, windows_of(text_, context_, options_));
    return {};
  }

  Result<Results> run() {
    std::size_t scored = 0;
    for (const Window& window : windows_) scored += static_cast<std::size_t>(window.end - window.scored);
    Results results;
    results.windows = windows_.size();
    results.context = context_;
    results.surprise.resize(scored);
    const std::size_t compared = two_ || file_ ? scored : 0;
    results.base_surprise.resize(compared);
    results.kl.resize(compared);
    results.reverse_kl.resize(compared);
    results.same_best.resize(compared);
    std::size_t at = 0;
    const double start_s = monotonic_s();
    for (std::size_t i = 0; i < windows_.size(); ++i) {
      WEIR_RETURN_IF_ERROR(score(windows_[i], results, at));
      at += static_cast<std::size_t>(windows_[i].end - windows_[i].scored);
      show_progress(i + 1, sample::estimate(std::span(results.surprise).first(at)), start_s);
    }
    return results;
  }

 private:
  struct Tagged {
    int side = 0;
    engine::SequenceOutput output;
  };

  ModelOptions against() const {
    ModelOptions base = options_.model;
    if (!options_.against.empty()) base.model = options_.against;
    if (!options_.against_compute.empty()) base.engine.exact_compute = options_.against_compute == "exact";
    if (options_.against_compute == "exact") base.engine.kv_cache_dtype = "f32";
    return base;
  }

  Status load_side(int side, ModelOptions model) {
    model.engine.enable_prefix_caching = false;
    model.engine.max_num_seqs = 1;
    model.engine.max_model_len = context_;
    auto loaded = load_model(model, "", [this, side](std::vector<engine::SequenceOutput>& step) {
      for (auto& output : step) (void)outputs_.put({side, std::move(output)});
    });
    if (!loaded && loaded.error().param == "max-model-len")  // nobody gave that option
      return fail(loaded.error().code, "--context {}: {}", context_, loaded.error().message);
    if (!loaded) return tl::unexpected(loaded.error());
    sides_[static_cast<std::size_t>(side)] = std::move(*loaded);
    return {};
  }

  Status check_same_tokens(const std::string& text) const {
    const auto &ours = *sides_[0].served, &theirs = *sides_[1].served;
    if (ours.vocab_size != theirs.vocab_size)
      return fail(ErrorCode::kInvalidArgument,
                  "{} has a vocabulary of {} tokens and {} one of {}: their probabilities cannot be compared",
                  ours.name, ours.vocab_size, theirs.name, theirs.vocab_size);
    const Text other = tokenized(*theirs.tokenizer, text);
    if (other.tokens == text_.tokens) return {};
    const auto [a, b] = std::ranges::mismatch(text_.tokens, other.tokens);
    return fail(
        ErrorCode::kInvalidArgument,
        "{} and {} cut the text into different tokens, from token {} on: their probabilities cannot be compared",
        ours.name, theirs.name, a - text_.tokens.begin());
  }

  Status take_tokens_of_file() {
    const auto& model = *sides_[0].served;
    if (file_->vocab() != model.vocab_size)
      return fail(ErrorCode::kInvalidArgument, "{} is of a vocabulary of {} tokens, and {} has one of {}",
                  options_.against_logits, file_->vocab(), model.name, model.vocab_size);
    text_.tokens = file_->tokens();
    return {};
  }

  std::vector<TokenId> tokens_of(const Window& window) const {
    std::vector<TokenId> tokens(text_.tokens.begin() + window.begin, text_.tokens.begin() + window.end);
    if (text_.bos && options_.stride == 0) tokens.front() = *text_.bos;
    return tokens;
  }

  Status score(const Window& window, Results& results, std::size_t at) {
    const std::vector<TokenId> tokens = tokens_of(window);
    const std::int64_t first = window.scored - window.begin;
    LogitMeeting meeting(two_, [&](std::int64_t token, std::span<const float> logits, std::span<const float> base) {
      const std::size_t place = at + static_cast<std::size_t>(token - first);
      const TokenId target = tokens[static_cast<std::size_t>(token)];
      if (!two_ && !file_) {
        results.surprise[place] = sample::surprise(logits, target);
        return;
      }
      const auto row = file_ ? compare_with_file(place, logits, target) : sample::compare_rows(base, logits, target);
      results.surprise[place] = row.surprise;
      results.base_surprise[place] = row.base_surprise;
      results.kl[place] = row.kl;
      results.reverse_kl[place] = row.reverse_kl;
      results.same_best[place] = row.same_best;
    });
    const int sides = two_ ? 2 : 1;
    for (int side = 0; side < sides; ++side) {
      engine::SequenceRequest request;
      request.prompt = tokens;
      request.sampling.max_tokens = 0;
      request.logits = &meeting.reader(side);
      request.logits_from = first;
      const auto id = sides_[static_cast<std::size_t>(side)].engine->submit(std::move(request));
      CHECK(id.has_value(), "{}", id.error().message);  // one sequence of at most max_model_len
    }
    return wait_for(sides, meeting);
  }

  sample::RowDivergence compare_with_file(std::size_t place, std::span<const float> logits, TokenId target) const {
    thread_local std::vector<float> saved;
    saved.resize(logits.size());
    const float floor = file_->read(place, saved);
    return sample::compare_saved(saved, floor, logits, target);
  }

  // All engines must have ended before the meeting does.
  Status wait_for(int sides, LogitMeeting& meeting) {
    Status status;
    std::vector<Tagged> step;
    for (int ended = 0; ended < sides;) {
      outputs_.take_all(step, true);
      for (const auto& [side, output] : step) {
        if (!output.finish) continue;
        ++ended;
        if (*output.finish != engine::FinishReason::kError) continue;
        meeting.abandon();
        status =
            fail(ErrorCode::kInternal, "{}: {}", sides_[static_cast<std::size_t>(side)].served->name, output.error);
      }
    }
    return status;
  }

  void show_progress(std::size_t done, const Estimate& surprise, double start_s) const {
    if (isatty(STDERR_FILENO) == 0) return;
    const double left_s =
        (monotonic_s() - start_s) / static_cast<double>(done) * static_cast<double>(windows_.size() - done);
    fmt::print(stderr, "\r\x1b[Kchunk {} of {}, perplexity so far {:.4f}, {:.0f} s left{}", done, windows_.size(),
               std::exp(surprise.mean), left_s, done == windows_.size() ? "\r\x1b[K" : "");
  }

  const PerplexityOptions& options_;
  Mailbox<Tagged> outputs_;
  std::int64_t context_ = options_.context;
  bool two_ = false;
  std::array<LoadedModel, 2> sides_;
  Text text_;
  std::vector<Window> windows_;
  std::unique_ptr<LogitsFile> file_;
};

struct Summary {
  Estimate perplexity, base_perplexity, ratio, kl, reverse_kl, same_best;
  std::vector<double> sorted_kl, sorted_reverse_kl;
};

Summary summarise(const Results& results) {
  Summary summary;
  summary.perplexity = exp_of(sample::estimate(results.surprise));
  if (results.kl.empty()) return summary;
  summary.base_perplexity = exp_of(sample::estimate(results.base_surprise));
  // Token by token: most of what makes a text hard is so for both.
  std::vector<double> difference(results.surprise.size()), same(results.same_best.begin(), results.same_best.end());
  std::ranges::transform(results.surprise, results.base_surprise, difference.begin(), std::minus<>());
  summary.ratio = exp_of(sample::estimate(difference));
  summary.kl = sample::estimate(results.kl);
  summary.reverse_kl = sample::estimate(results.reverse_kl);
  summary.same_best = sample::estimate(same);
  summary.sorted_kl = results.kl;
  summary.sorted_reverse_kl = results.reverse_kl;
  std::ranges::sort(summary.sorted_kl);
  std::ranges::sort(summary.sorted_reverse_kl);
  return summary;
}

constexpr std::array<std::pair<const char*, double>, 6> kPercentiles = {
    {{"median", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99_9", 0.999}, {"max", 1.0}}};

void print_json(const PerplexityOptions& options, const Results& results, const Summary& summary) {
  using Json = nlohmann::ordered_json;
  const auto pair = [](const Estimate& e) { return Json{{"mean", e.mean}, {"error", e.error}}; };
  Json json = {{"model", options.model.model},
               {"context", results.context},
               {"stride", options.stride > 0 ? Json(options.stride) : Json()},
               {"chunks", results.windows},
               {"tokens", results.surprise.size()},
               {"perplexity", pair(summary.perplexity)}};
  if (!summary.sorted_kl.empty()) {
    const auto divergence = [&](const Estimate& mean, std::span<const double> sorted) {
      Json json = pair(mean);
      for (const auto& [name, share] : kPercentiles) json[name] = sample::percentile(sorted, share);
      return json;
    };
    json["against"] = {{"model", options.against.empty() ? options.model.model : options.against},
                       {"compute", options.against_compute.empty() ? Json() : Json(options.against_compute)},
                       {"logits", options.against_logits.empty() ? Json() : Json(options.against_logits)},
                       {"perplexity", pair(summary.base_perplexity)},
                       {"perplexity_ratio", pair(summary.ratio)},
                       {"kl", divergence(summary.kl, summary.sorted_kl)},
                       {"reverse_kl", divergence(summary.reverse_kl, summary.sorted_reverse_kl)},
                       {"same_best", pair(summary.same_best)}};
  }
  fmt::print("{}\n", json.dump(1, ' ', false, Json::error_handler_t::replace));
}

void print_text(const PerplexityOptions& options, const Results& results, const Summary& summary) {
  fmt::print("tokens         {} scored, in {} {} of {}{}\n", results.surprise.size(), results.windows,
             options.stride > 0 ? "windows" : "chunks", results.context,
             options.stride > 0 ? fmt::format(", {} apart", options.stride) : " (the second half of each)");
  fmt::print("perplexity     {:.4f} ± {:.4f}\n", summary.perplexity.mean, summary.perplexity.error);
  if (summary.sorted_kl.empty()) return;
  fmt::print("against        {:.4f} ± {:.4f}, ratio {:.6f} ± {:.6f}\n", summary.base_perplexity.mean,
             summary.base_perplexity.error, summary.ratio.mean, summary.ratio.error);
  const auto below = [&](double share) { return sample::percentile(summary.sorted_kl, share); };
  fmt::print("KL divergence  {:.6f} ± {:.6f}; median {:.6f}, 90 % below {:.6f}, 99 % below {:.6f}, largest {:.6f}\n",
             summary.kl.mean, summary.kl.error, below(0.5), below(0.9), below(0.99), below(1));
  fmt::print("same best      {:.3f} ± {:.3f} % of the tokens\n", 100 * summary.same_best.mean,
             100 * summary.same_best.error);
}

Status run_perplexity(const PerplexityOptions& options) {
  Measurement measurement(options);
  WEIR_RETURN_IF_ERROR(measurement.load());
  WEIR_TRY(const auto results, measurement.run());
  const Summary summary = summarise(results);
  (options.json ? print_json : print_text)(options, results, summary);
  return {};
}

}  // namespace

int perplexity(const PerplexityOptions& options) {
  if (const auto status = init_log("warning"); !status) return fail_with(status.error());
  const auto status = run_perplexity(options);
  const int exit_status = status ? 0 : fail_with(status.error());
  shutdown_log();
  return exit_status;
}

}  // namespace weir::apps
