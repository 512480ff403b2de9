// SiliconModel: TTFT and TPOT of a deployment under a constant number of requests, fitted to measured rows.
//
// TPOT = step(B, context) + (B / output) prefill(input): the steady state of B running requests. Its terms are
// step_terms.h's. TTFT is a sum of the prompt's own prefill, of waiting for others' prefill (one in a wave of C, the
// mean in the steady state between), of a step, of overheads, and of waiting for room where the KV of C requests does
// not fit. Dense, mixture and disaggregated rows have a fit each: their software differs in more than terms can say.
//
// Coefficients are hierarchical (hierarchy.h): all, backend, system, bits, model, deployment, deployment + version,
// tokens drafted; what is left is smoothed by offsets of nested groups. Fitting is deterministic.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "plan/silicon/hierarchy.h"
#include "plan/silicon/neighbours.h"
#include "plan/silicon/silicon_rows.h"

namespace weir::plan {

enum class Latency { kTpot, kTtft };
constexpr std::array<std::string_view, 2> kLatencyNames = {"TPOT", "TTFT"};

// How much of a row's software the fit has seen: decides how wide its interval is.
enum class Support { kOpen, kNone, kFew, kMany };  // kOpen: which of several deployments ran is not known
constexpr std::size_t kSupports = 4;
constexpr std::size_t kManyRows = 10;  // of the same model, system, backend, version and bits

// What is left of the residuals of one configuration that was itself measured: their mean, shrunk by how much repeats
// of a configuration differ. Nothing for a configuration that was not.
class Repeats {
 public:
  void fit(const std::vector<std::string>& configurations, const std::vector<double>& residuals);
  double at(const std::string& configuration) const;
  double noise() const { return noise_; }  // of one measurement, in logarithms

 private:
  std::map<std::string, double> offsets_;
  double noise_ = 0;
};

class SiliconModel {
 public:
  // Of one kind. At least one row.
  static SiliconModel fit(std::span<const SiliconRow* const> rows, Latency latency);

  double log_ms(const SiliconRow& row) const;
  Support support(const SiliconRow& row) const;
  // Of kTpot: the coefficients of the terms for a group that may be new.
  std::vector<double> coefficients(const std::vector<std::string>& groups) const { return terms_.coefficients(groups); }
  std::size_t parameters() const { return terms_.parameters(); }

 private:
  Latency latency_ = Latency::kTpot;
  Hierarchy terms_;
  GroupOffsets offsets_;
  Neighbours neighbours_;
  Repeats repeats_;
  std::map<std::string, std::size_t> rows_of_;
};

constexpr std::size_t kTtftTerms = 8;
std::vector<std::string> tpot_groups(const std::string& model, const std::string& system, const std::string& backend,
                                     const std::string& version, const StepBits& bits);

// The groups of a card on hardware by the names that the shared table has for them, so far as it has: of the newest
// version measured.
std::vector<std::string> measured_groups(const std::string& model, const Hardware& hardware, const std::string& backend,
                                         const StepBits& bits);

// The rows that the program carries, read once.
const SiliconTable& shared_silicon();
// Which kind's fit says a row's latency, and learns from it where that is its own kind: a dense model decodes as it
// does beside prompts, and few rows of dense models have their roles apart.
RowKind fit_kind(const SiliconRow& row, Latency latency);
// The fit of all of them, made at the first call of each; thread-safe.
const SiliconModel& shared_model(RowKind kind, Latency latency);

double running_requests(const SiliconRow& row);  // of one decoding worker: what concurrency and memory allow
StepTerms tpot_terms(const SiliconRow& row);
// What a latency cannot go below. TPOT: a decoding pass at full bandwidth and peak, over the tokens it may bring; TTFT:
// one prompt alone.
double floor_ms(const SiliconRow& row, Latency latency);

}  // namespace weir::plan
