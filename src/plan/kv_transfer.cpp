#include "plan/kv_transfer.h"

#include <algorithm>
#include <cmath>

#include "base/printable.h"
#include "plan/csv.h"
#include "plan/memory.h"
#include "plan/roofline.h"

namespace weir::plan {
namespace {

constexpr double kMooncakeA = 4, kMooncakeB = 22;

double linked(const Hardware& hardware, int devices) {
  return hardware.link_gbs > 0 ? hardware.link_gbs * devices : 0;
}

}  // namespace

std::vector<KvLink> standard_links(const Hardware& hardware, int devices) {
  // Latencies and depths are orders of magnitude, for the cost of small pages; a measurement replaces them by hand.
  std::vector<KvLink> links;
  links.push_back(
      {"HBM", hardware.bandwidth_gbs * devices / 2, 2, 256.0 * devices, "a copy inside a device: read and written"});
  if (linked(hardware, devices) > 0)
    links.push_back({"peer", linked(hardware, devices), 5, 64.0 * devices, "devices' links: " + hardware.link});
  if (hardware.pcie_gbs > 0)
    links.push_back({"DRAM", hardware.pcie_gbs * devices, 10, 64.0 * devices, "host memory over PCIe"});
  links.push_back({"NVMe", 28, 80, 256, "four drives of 7 GB/s"});
  links.push_back({"RDMA", 50, 5, 128, "400 Gbit/s"});
  links.push_back({"Ethernet-100", 12.5, 50, 64, "100 Gbit/s, TCP"});
  links.push_back({"Ethernet-25", 3.125, 50, 64, "25 Gbit/s, TCP"});
  return links;
}

Result<KvLink> parse_link(const std::string& text, const std::vector<KvLink>& standard) {
  const auto comma = std::min(text.find(','), text.size());
  KvLink link{.name = printable(text.substr(0, std::min<std::size_t>(comma, 60))),
              .latency_us = 10,
              .depth = 64,
              .source = "given by hand"};
  const auto known = std::ranges::find(standard, link.name, &KvLink::name);
  if (known != standard.end()) link = *known;
  for (std::size_t at = comma + 1; at <= text.size();) {
    const auto end = std::min(text.find(',', at), text.size());
    const std::string field = text.substr(at, end - at);
    at = end + 1;
    const auto equals = std::min(field.find('='), field.size());
    const std::string name = field.substr(0, equals);
    double* member = name == "gbs"          ? &link.gbs
                     : name == "latency_us" ? &link.latency_us
                     : name == "depth"      ? &link.depth
                                            : nullptr;
    const auto value = equals < field.size() ? parse_number(field.substr(equals + 1), name) : Result<double>(-1);
    if (member == nullptr || !value || *value < 0 || *value > 1e9) {
      return fail(ErrorCode::kInvalidArgument,
                  "link \"{}\": \"{}\"; gbs=, latency_us= or depth= with a number from 0 to 1e9 expected", link.name,
                  printable(field.substr(0, 60)));
    }
    *member = *value;
  }
  if (!(link.gbs > 0) || link.depth < 1) {
    std::string names;
    for (const KvLink& one : standard) names += (names.empty() ? "" : ", ") + one.name;
    return fail(ErrorCode::kInvalidArgument,
                "link \"{}\" is not known (known: {}); give it as name,gbs=GB/s[,latency_us=,depth=] with gbs above 0 "
                "and a depth of at least 1",
                link.name, names);
  }
  return link;
}

double link_efficiency(const KvLink& link, double operation_bytes) {
  if (operation_bytes <= 0) return 0;
  const double alone_s = link.latency_us * 1e-6 + operation_bytes / (link.gbs * 1e9);
  return std::min(1.0, link.depth * operation_bytes / alone_s / (link.gbs * 1e9));
}

double transfer_s(const KvLink& link, double bytes, double operation_bytes) {
  if (bytes <= 0) return 0;
  const double size = std::min(bytes, operation_bytes);
  return link.latency_us * 1e-6 + bytes / (link.gbs * 1e9 * link_efficiency(link, size));
}

double exposed_s(double transfer_s, double compute_s, int layers) {
  const double t = transfer_s / layers, c = compute_s / layers;
  return t + (layers - 1) * std::max(t, c) + c - layers * c;
}

double RecomputeModel::prefill_s(std::int64_t cached, std::int64_t suffix) const {
  return bound_of(operators_of(card, prefill_shape(cached, suffix), options), hardware).step_s / share;
}

double RecomputeModel::piece_bytes(double kv_bytes, std::int64_t of_tokens, int tokens, bool layerwise) const {
  const bool latent = card.spec.latent.rank > 0;
  const double parts = latent ? 1 : std::min(options.layout.tp, card.spec.kv_heads);
  return kv_bytes / static_cast<double>(of_tokens) * tokens / parts / (layerwise ? card.spec.layers : 1);
}

double reuse_bandwidth_gbs(const RecomputeModel& model, std::int64_t prefix) {
  const auto bound = bound_of(operators_of(model.card, prefill_shape(0, prefix), model.options), model.hardware);
  return sequence_kv_bytes(model.card, model.options.kv_bits, prefix) / (bound.compute_s / model.share) / 1e9;
}

double mooncake_bandwidth_gbs(double hidden, double gqa, double prefix, double flops, double element_bytes) {
  return flops * 2 * hidden * element_bytes / (gqa * (kMooncakeA * prefix * hidden + kMooncakeB * hidden * hidden)) /
         1e9;
}

std::optional<Crossover> crossover_prefix(const RecomputeModel& model, const KvLink& link,
                                          const CrossoverQuery& query) {
  const int layers = model.card.spec.layers;
  const auto pays = [&](std::int64_t prefix) {
    const double bytes = sequence_kv_bytes(model.card, model.options.kv_bits, prefix);
    const double whole_s =
        transfer_s(link, bytes, model.piece_bytes(bytes, prefix, query.page_tokens, query.layerwise));
    const double suffix_s = model.prefill_s(prefix, query.suffix);
    const double fetch_s = query.layerwise ? exposed_s(whole_s, suffix_s, layers) : whole_s;
    return suffix_s + fetch_s < model.prefill_s(0, prefix + query.suffix);
  };
  // The first prefix after `low`, where it is one thing, up to `high`, where it is the other, that is the other.
  const auto turn = [&](std::int64_t low, std::int64_t high, bool paying) {
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (pays(middle) == paying ? high : low) = middle;
    }
    return high;
  };
  std::optional<Crossover> found;
  std::int64_t last = 0;
  for (std::int64_t prefix = query.page_tokens; prefix <= query.most; prefix = std::max(prefix + 1, prefix * 6 / 5)) {
    const bool now = pays(prefix);
    if (!found && now) found = Crossover{.from = last > 0 ? turn(last, prefix, true) : prefix};
    if (found && !now) {
      found->to = turn(last, prefix, false) - 1;
      break;
    }
    last = prefix;
  }
  return found;
}

}  // namespace weir::plan
