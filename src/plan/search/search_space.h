// SearchSpace: what is combined in a search. Each layout under each precision becomes a candidate or a refusal;
// candidates become options of a pool: to compute prompts, or to decode with some batch.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan/search/search.h"

namespace weir::plan {

constexpr int kMostDevices = 1024;

struct Candidate {
  ParallelLayout layout;
  std::size_t precision = 0;  // index into SearchRequest::precisions
  std::unique_ptr<InstanceModel> model;
  mutable std::map<std::pair<int, int>, std::int64_t> units;  // most_units(), as far as asked
  mutable std::map<std::int64_t, double> decode_s;            // by units, as far as asked
  mutable std::map<int, KvOfSequence> kv;                     // by block size
  // Every stage and group has a sequence: smaller batches are no faster per user.
  std::int64_t unit() const { return std::int64_t{layout.pp} * layout.dp; }
};

struct PrefillOption {
  std::size_t candidate = 0;
  int batch_tokens = 0, block_size = 0, devices = 0;
  double service_s = 0, requests_s = 0;
};

struct DecodeOption {
  std::size_t candidate = 0;
  int block_size = 0;
  std::int64_t batch = 0;
  int devices = 0;
  double tpot_s = 0, requests_s = 0;
  BatchLimit limit = BatchLimit::kNothing;
};

class SearchSpace {
 public:
  SearchSpace(const InstanceSource& source, const SearchRequest& request);

  const std::vector<Candidate>& candidates() const { return candidates_; }
  const std::vector<Refusal>& refusals() const { return refusals_; }
  bool any_fits() const { return !candidates_.empty(); }
  std::string nothing_fits() const;  // by which number
  std::int64_t evaluated() const { return evaluated_; }

  // The largest batch whose KV fits beside the weights and a workspace for passes of `rows` tokens in a group (0: of
  // what decodes only), in units of the candidate.
  std::int64_t most_units(const Candidate& candidate, int rows, int block_size) const;
  double kv_need_of(const Candidate& candidate, std::int64_t batch, int block_size) const;
  double decode_s(const Candidate& candidate, std::int64_t units) const;
  // No other has at least its rate per device and its TTFT on as few devices.
  std::vector<PrefillOption> prefill_options(std::size_t precision) const;
  // Seconds that one prompt's KV takes from pool to pool.
  double handover_s(const InstanceModel& model, int from_devices, int to_devices, int all_devices) const;

 private:
  void add(const InstanceSource& source, const ParallelLayout& layout, std::size_t precision);
  void refuse(const ParallelLayout& layout, std::size_t precision, std::string term, double need, double have,
              std::string text);

  const SearchRequest& request_;
  std::vector<Candidate> candidates_;
  std::vector<Refusal> refusals_;
  mutable std::int64_t evaluated_ = 0;
};

// 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, ... and `most`.
std::vector<std::int64_t> batch_ladder(std::int64_t most);
// Requests per second of an instance whose sequences each get a token every `tpot_s`; the first one is the prompt's.
double request_rate(const SearchWorkload& workload, std::int64_t batch, double tpot_s);
double output_rate(const SearchWorkload& workload, std::int64_t batch, double tpot_s);
// Of options on equally many devices, those that no other beats in both rate and TPOT.
std::vector<DecodeOption> decoder_front(std::vector<DecodeOption> options);

}  // namespace weir::plan
