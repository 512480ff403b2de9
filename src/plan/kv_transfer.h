// `weir plan kv`: fetch the KV of a prefix from a tier or another machine, or compute it again?
//
// Recomputing costs what the roofline says of the prefill (roofline.h), divided by the share of the peaks that kernels
// reach; fetching, the bytes over the link. Layer by layer, a link works while earlier layers compute: with L layers,
// t and c seconds each, fetching shows only t + (L - 1) max(t, c) + c - L c of its time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/operators.h"
#include "plan/report.h"
#include "plan/subject.h"

namespace weir::plan {

// Bandwidth and depth of the whole instance, one direction.
struct KvLink {
  std::string name;
  double gbs = 0;
  double latency_us = 0;  // of one operation
  double depth = 1;       // operations under way at once
  std::string source;
};

// Peers' memory over the devices' links, host memory over PCIe, NVMe, RDMA at 50 GB/s, Ethernet; the first two as wide
// as the instance has devices.
std::vector<KvLink> standard_links(const Hardware& hardware, int devices);

// "name,gbs=...,latency_us=...,depth=..." or the name of a standard one with changes.
Result<KvLink> parse_link(const std::string& text, const std::vector<KvLink>& standard);

// Share of a link's bandwidth that operations of `bytes` reach.
double link_efficiency(const KvLink& link, double operation_bytes);
// `bytes` in operations of `operation_bytes`.
double transfer_s(const KvLink& link, double bytes, double operation_bytes);
// What of a transfer shows when it runs layer by layer beside `compute_s` of computing.
double exposed_s(double transfer_s, double compute_s, int layers);

struct RecomputeModel {
  const ModelCard& card;
  const Hardware& hardware;
  OperatorOptions options;
  double share = 1;  // of the peaks and the bandwidth that kernels reach
  double prefill_s(std::int64_t cached, std::int64_t suffix) const;
  // Bytes of one operation that moves `tokens` tokens of one device: its heads' part.
  double piece_bytes(double kv_bytes, std::int64_t of_tokens, int tokens, bool layerwise) const;
};

// Mooncake's question (Qin et al., FAST'25, eq. 2), for any model: the bandwidth in GB/s above which fetching the KV of
// `prefix` tokens takes less time than their arithmetic at peak on all devices of the layout.
double reuse_bandwidth_gbs(const RecomputeModel& model, std::int64_t prefix);
// The same by their formula, for a dense model of hidden size d: B/G > 2 d s / (gqa (a p d + b d^2)) with a = 4, b = 22
// of Llama 3 70B; `flops`: G; `element_bytes`: s.
double mooncake_bandwidth_gbs(double hidden, double gqa, double prefix, double flops, double element_bytes);

// Prefixes for which fetching is faster than computing, before `suffix` more tokens are computed: from the shortest to
// the last before computing is faster again (a transfer that hides behind the suffix may outgrow it). nullopt: none up
// to `most`. `page_tokens`: a link's operations move that many tokens, of one layer where `layerwise`.
struct CrossoverQuery {
  std::int64_t suffix = 512, most = 131072;
  int page_tokens = 16;
  bool layerwise = false;
};
struct Crossover {
  std::int64_t from = 0;
  std::optional<std::int64_t> to;  // nullopt: `most` and perhaps beyond
};
std::optional<Crossover> crossover_prefix(const RecomputeModel& model, const KvLink& link, const CrossoverQuery& query);

struct KvQuery {
  SubjectQuery subject;
  std::int64_t prefix = 8192, suffix = 512;
  double kv_gb = 0;  // instead of prefix: as many tokens as have so many bytes
  int page_tokens = 16;
  double share = 1;
  std::vector<std::string> links;  // beside the standard ones
};
Result<Report> kv_report(const KvQuery& query);

}  // namespace weir::plan
