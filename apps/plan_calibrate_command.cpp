// `weir plan calibrate`: how long this machine's steps take, as a file for the planner.
#include <fmt/core.h>

#include <fstream>
#include <memory>
#include <random>

#include "apps/commands.h"
#include "apps/live_load.h"
#include "apps/number_range.h"
#include "apps/plan_command.h"
#include "base/printable.h"

namespace weir::apps {
namespace {

std::string to_text(const plan::CalibratedStep& model) {
  const auto& c = model.coefficients();
  std::string out = fmt::format("{}\n{}\n\n{} steps, {} left out: median error {:.2f} %, p90 {:.2f} %\n", model.model,
                                model.machine, model.quality.steps, model.quality.dropped,
                                100 * model.quality.median_error, 100 * model.quality.p90_error);
  out += "\nrows of a step        ms\n";
  for (std::size_t i = 0; i < c.rows_s.at.size(); ++i)
    out += fmt::format("{:>12g}{:>12.3f}\n", c.rows_s.at[i], 1e3 * c.rows_s.value[i]);
  out += "\nrows of logits        ms\n";
  for (std::size_t i = 0; i < c.samples_s.at.size(); ++i)
    out += fmt::format("{:>12g}{:>12.3f}\n", c.samples_s.at[i], 1e3 * c.samples_s.value[i]);
  out += fmt::format(
      "\nsequence            {:>10.3f} us\nprefill, 1000 pairs {:>10.3f} us\ndecode, 1000 pairs  {:>10.3f} us\n",
      1e6 * c.sequence_s, 1e9 * c.prefill_pair_s, 1e9 * c.decode_pair_s);
  out += fmt::format("request             {:>10.3f} us, {:.3f} us a prompt token\ntokens to client    {:>10.3f} us\n",
                     1e6 * model.overheads.request_s, 1e6 * model.overheads.prompt_token_s,
                     1e6 * model.overheads.output_s);
  return out + fmt::format("reference load      {:>10.3f} s\nresident, no steps  {:>10.1f} MB\n", model.reference_s,
                           model.resident_bytes / 1e6);
}

struct Arguments {
  CalibrateOptions calibrate;
  std::string out;
};

Result<plan::Report> measure(const Arguments& arguments) {
  const auto& [options, out] = arguments;
  WEIR_TRY(const plan::CalibratedStep model, calibrate(options));
  plan::Report report{to_text(model), model.to_json()};
  if (!out.empty()) {
    std::ofstream file(out);
    file << report.json.dump(2) << '\n';
    file.flush();
    if (!file) return fail_at("out", ErrorCode::kInvalidArgument, "--out {}: cannot write it", printable(out));
  }
  return report;
}

}  // namespace

void add_plan_calibrate(CLI::App& plan, int& status) {
  const auto [command, arguments] = add_report<Arguments>(
      plan, status, "calibrate", "measure the engine on this machine: a step model for `plan sim`", measure);
  CalibrateOptions* options = &arguments->calibrate;
  command->add_option("MODEL", options->model, "a .gguf file or a Hugging Face folder")->required();
  command->add_option("--threads", options->threads, "compute threads; 0 = all cores this process may use")
      ->check(CLI::Range(0, 1024));
  command->add_option("--max-num-batched-tokens", options->max_rows, "most tokens computed in one step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "of load, about")
      ->check(number_range(1.0, 3600.0))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "of the prompts")->capture_default_str();
  command->add_option("--step-log", options->keep_log, "a file that gets the steps that were measured");
  command->add_option("--out", arguments->out, "the file to write");
}

}  // namespace weir::apps
