// Rows of measured deployments (the form of aiconfigurator's silicon_sample.csv): read, made sense of and filtered.
//
// The filter looks at inputs and at plain faults of the data, never at what a model predicts. Every row gets exactly
// one fate; the rules are tried in the order of RowFate.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "plan/hardware.h"
#include "plan/parallel_layout.h"
#include "plan/silicon/recipes.h"
#include "plan/step/step_terms.h"

namespace weir::plan {

enum class RowFate {
  kUsed,
  kNoMeasurement,     // TTFT or TPOT is missing or not above zero
  kNoLoad,            // input or output length or concurrency is missing or not above zero
  kUnknownHardware,   // not in the hardware table
  kUnknownModel,      // no card, and no parameter count in the name
  kNoLayout,          // a degree of attention parallelism written as 0, or no tensor degree at all
  kImpossibleLayout,  // aggregated, and the tensor degree does not divide the attention heads
  kTooLarge,          // the weights and the KV of one sequence are more than the devices' memory
  kImpossibleRate,    // aggregated, and faster than the arithmetic at the best rate any product was measured at
  kRepeated,          // the same inputs with the same TTFT and TPOT as a row before
};
constexpr std::size_t kRowFates = 10;
std::string_view fate_name(RowFate fate);

// "nvidia/Qwen3-32B-NVFP4": "qwen3-32b".
std::string silicon_model_key(std::string_view path);

enum class RowKind { kDense, kMixture, kDisaggregated };
constexpr std::array<std::string_view, 3> kRowKindNames = {"dense", "mixture", "disaggregated"};

struct SiliconRow {
  std::size_t line = 0;  // of the file, from 2
  RowFate fate = RowFate::kUsed;
  std::string model, system, backend, version, precision;  // model: normalised; version: may be empty
  StepFacts facts;
  Hardware hardware;
  ParallelLayout layout;          // that decodes; aggregated: all
  ParallelLayout prefill_layout;  // as layout where aggregated
  double decode_workers = 1, prefill_workers = 1;
  double drafts = 0;            // tokens drafted a pass; below 0: not known
  double most_decoding = 0;     // sequences that one decoding worker takes at once; 0: what memory holds
  std::vector<Recipe> choices;  // several: the row fits them all, and which one ran is not known
  bool disaggregated = false, fixed_lengths = false, estimated = false;
  StepBits bits;
  double input_tokens = 0, output_tokens = 0, concurrency = 0;  // tokens: the mean that requests have
  double ttft_ms = 0, tpot_ms = 0;
  RowKind kind() const;
  // What identifies the deployment but for its software's version; rows that share it share a fold. Of disaggregated
  // rows without the layout: the table's sources write the same one in several ways.
  std::string configuration() const;
  std::string measurement() const;  // that and what was measured: rows alike in both say one thing
  std::string layout_name() const;
  SiliconRow with(const Recipe& recipe) const;  // what it would be, had that run; without choices
  double devices() const;
};

struct SiliconTable {
  std::vector<SiliconRow> rows;  // all; look at `fate`
  std::array<std::size_t, kRowFates> fates{};
  std::vector<std::string> notes;  // models and systems that were skipped or estimated, a line each
  std::vector<const SiliconRow*> used() const;
};

// `file`: for errors, which name it, the line and the column.
Result<SiliconTable> read_silicon(std::string_view text, const std::string& file);

}  // namespace weir::plan
