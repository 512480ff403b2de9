#include <algorithm>
#include <cmath>

#include "plan/kv_transfer.h"
#include "plan/memory.h"
#include "plan/roofline.h"

namespace weir::plan {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostTokens = 1 << 24;

class Writer {
 public:
  Writer(const KvQuery& query, const Subject& subject, std::vector<KvLink> links)
      : query_(query),
        subject_(subject),
        links_(std::move(links)),
        model_{subject_.card,
               subject_.hardware,
               {.layout = subject.layout, .types = subject.types, .kv_bits = subject.kv_bits},
               query.share},
        prefix_(query.prefix) {
    if (query.kv_gb > 0) {
      // The longest sequence of no more bytes.
      std::int64_t low = 1, high = kMostTokens;
      while (high - low > 1) {
        const std::int64_t middle = low + (high - low) / 2;
        (sequence_kv_bytes(subject.card, subject.kv_bits, middle) <= query.kv_gb * 1e9 ? low : high) = middle;
      }
      prefix_ = low;
    }
    bytes_ = sequence_kv_bytes(subject.card, subject.kv_bits, prefix_);
  }

  Report write() {
    head();
    links();
    pages();
    return std::move(report_);
  }

 private:
  void head() {
    const Subject& s = subject_;
    const double recompute = model_.prefill_s(0, prefix_ + query_.suffix),
                 suffix = model_.prefill_s(prefix_, query_.suffix);
    const double needed = reuse_bandwidth_gbs(model_, prefix_);
    report_.json = {{"model", s.card.name},
                    {"hardware", s.hardware.name},
                    {"layout", s.layout.name()},
                    {"prefix", prefix_},
                    {"suffix", query_.suffix},
                    {"kv_bytes", bytes_},
                    {"share_of_peak", query_.share},
                    {"recompute_s", recompute},
                    {"suffix_s", suffix},
                    {"break_even_gbs", needed}};
    text(fmt::format("{} on {} ({}): the KV of {} tokens is {}\n", s.card.name, s.hardware.name, s.layout.name(),
                     prefix_, decimal_bytes(bytes_)));
    text(fmt::format("prefill of {} + {} tokens: at least {}; with the prefix there: {} (peaks x {:g})\n", prefix_,
                     query_.suffix, seconds_text(recompute), seconds_text(suffix), query_.share));
    text(fmt::format("fetching beats computing the prefix above {:.2f} GB/s\n", needed));
    if (s.card.spec.experts.count == 0 && s.card.spec.latent.rank == 0 && s.card.spec.delta.value_heads == 0) {
      const double peak = s.hardware.peak_tflops(16) * 1e12 * s.layout.devices() * query_.share;
      const double theirs =
          mooncake_bandwidth_gbs(s.card.spec.hidden, static_cast<double>(s.card.spec.heads) / s.card.spec.kv_heads,
                                 static_cast<double>(prefix_), peak, s.kv_bits / 8);
      report_.json["mooncake_break_even_gbs"] = theirs;
      text(fmt::format("  by Mooncake's formula with the constants of Llama 3 70B: {:.2f} GB/s\n", theirs));
    }
  }

  // The shortest suffix whose computing hides a transfer of this length, within the context or not; 0: none there is.
  std::int64_t hiding_suffix(double transfer) const {
    if (model_.prefill_s(prefix_, kMostTokens) < transfer) return 0;
    std::int64_t low = 0, high = kMostTokens;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (model_.prefill_s(prefix_, middle) >= transfer ? high : low) = middle;
    }
    return high;
  }

  void links() {
    const int layers = subject_.card.spec.layers;
    const double page = model_.piece_bytes(bytes_, prefix_, query_.page_tokens, false);
    const double suffix_s = model_.prefill_s(prefix_, query_.suffix), whole_s = model_.prefill_s(0, prefix_);
    const std::string beyond = fmt::format(" (beyond the context of {})", subject_.card.spec.context_length);
    text(
        fmt::format("\npages of {} tokens (a device moves {} at once, {} by layers)\n  {:<14} {:>9} {:>10} {:>10} "
                    "{:>9}  {:<22} {:<22} {}\n",
                    query_.page_tokens, decimal_bytes(page), decimal_bytes(page / layers), "link", "GB/s", "transfer",
                    "by layers", "verdict", "fetch prefixes of", "by layers, of", "hidden by a suffix of"));
    for (const KvLink& link : links_) {
      const double whole = transfer_s(link, bytes_, page), layered = transfer_s(link, bytes_, page / layers);
      const double exposed = exposed_s(layered, suffix_s, layers);
      const double behind_prefill = exposed_s(layered, whole_s, layers);
      const bool pays = suffix_s + std::min(whole, exposed) < model_.prefill_s(0, prefix_ + query_.suffix);
      CrossoverQuery crossover{.suffix = query_.suffix,
                               .most = std::max<std::int64_t>(subject_.card.spec.context_length, prefix_),
                               .page_tokens = query_.page_tokens};
      const auto from = crossover_prefix(model_, link, crossover);
      crossover.layerwise = true;
      const auto from_layered = crossover_prefix(model_, link, crossover);
      const std::int64_t hiding = hiding_suffix(layered);
      const bool in_context = hiding > 0 && prefix_ + hiding <= subject_.card.spec.context_length;
      const bool behind_own = layered <= whole_s;
      const auto tokens = [](const std::optional<Crossover>& found) {
        return !found      ? "never"
               : found->to ? fmt::format("{} to {}", found->from, *found->to)
                           : fmt::format("{} on", found->from);
      };
      const auto range = [](const std::optional<Crossover>& found) {
        return found ? Json{{"from", found->from}, {"to", found->to ? Json(*found->to) : Json()}} : Json();
      };
      report_.json["links"].push_back({{"name", link.name},
                                       {"gbs", link.gbs},
                                       {"latency_us", link.latency_us},
                                       {"depth", link.depth},
                                       {"source", link.source},
                                       {"transfer_s", whole},
                                       {"layerwise_transfer_s", layered},
                                       {"layerwise_exposed_s", exposed},
                                       {"exposed_behind_its_own_prefill_s", behind_prefill},
                                       {"pays", pays},
                                       {"crossover_tokens", range(from)},
                                       {"crossover_layerwise_tokens", range(from_layered)},
                                       {"hidden_by_suffix_tokens", hiding > 0 ? Json(hiding) : Json()},
                                       {"hiding_suffix_is_within_context", in_context},
                                       {"hidden_behind_its_own_prefill", behind_own}});
      text(fmt::format("  {:<14} {:>9.4g} {:>10} {:>10} {:>9}  {:<22} {:<22} {}\n", link.name, link.gbs,
                       seconds_text(whole), seconds_text(exposed), pays ? "fetch" : "recompute", tokens(from),
                       tokens(from_layered),
                       fmt::format("{}; its own prefill {}",
                                   hiding == 0 ? fmt::format("none up to {} tokens", kMostTokens)
                                               : fmt::format("{} tokens{}", hiding, in_context ? "" : beyond),
                                   behind_own ? "hides it" : "does not")));
    }
    text(fmt::format(
        "  transfer: all before computing; by layers: what still shows beside the suffix of {} tokens.\n"
        "  sent layer by layer while its own prefill of {} runs (another machine decodes), a transfer hides if it is\n"
        "  shorter than that, but for its last layer\n",
        query_.suffix, seconds_text(whole_s)));
  }

  void pages() {
    const int layers = subject_.card.spec.layers;
    text(
        fmt::format("\npage size: share of a link's bandwidth (whole pages / a layer of a page), and memory unused by "
                    "sequences of about {} tokens\n  {:>6} {:>10}",
                    prefix_, "tokens", "bytes"));
    for (const KvLink& link : links_) text(fmt::format(" {:>15}", link.name));
    text("   unused\n");
    for (const int page_tokens : {1, 8, 16, 32, 64, 128, 256, 512}) {
      const double page = bytes_ / static_cast<double>(prefix_) * page_tokens;
      const double piece = model_.piece_bytes(bytes_, prefix_, page_tokens, false);
      const double waste = internal_waste(subject_.card, subject_.kv_bits, page_tokens, prefix_).waste();
      Json row = {{"page_tokens", page_tokens}, {"bytes", page}, {"waste", waste}};
      text(fmt::format("  {:>6} {:>10}", page_tokens, decimal_bytes(page)));
      for (const KvLink& link : links_) {
        const double whole = link_efficiency(link, piece), layered = link_efficiency(link, piece / layers);
        row["efficiency"][link.name] = {{"page", whole}, {"layer", layered}};
        text(fmt::format(" {:>7.1f}/{:>5.1f} %", 100 * whole, 100 * layered));
      }
      report_.json["pages"].push_back(row);
      text(fmt::format("  {:>5.2f} %\n", 100 * waste));
    }
  }

  void text(const std::string& more) { report_.text += more; }

  const KvQuery& query_;
  const Subject& subject_;
  std::vector<KvLink> links_;
  RecomputeModel model_;
  std::int64_t prefix_ = 0;
  double bytes_ = 0;
  Report report_;
};

}  // namespace

Result<Report> kv_report(const KvQuery& query) {
  if (query.prefix < 1 || query.prefix > kMostTokens || query.suffix < 1 || query.suffix > kMostTokens ||
      query.page_tokens < 1 || query.page_tokens > 1 << 20 || !(query.share > 0 && query.share <= 1) ||
      !(query.kv_gb >= 0 && query.kv_gb <= 1e6)) {
    return fail(ErrorCode::kInvalidArgument,
                "prefix {}, suffix {}, pages of {} tokens, {} GB, share {}: 1 to {} tokens, pages of 1 to 1048576, at "
                "most 1e6 GB and a share above 0 and at most 1 expected",
                query.prefix, query.suffix, query.page_tokens, query.kv_gb, query.share, kMostTokens);
  }
  WEIR_TRY(const auto subject, read_subject(query.subject));
  if (subject.hardware.name.empty())
    return fail(ErrorCode::kInvalidArgument,
                "fetch or recompute needs hardware: a known device, or name,field=value,...");
  WEIR_RETURN_IF_ERROR(check_layout(subject.card, subject.layout));
  WEIR_RETURN_IF_ERROR(check_links(subject.hardware, subject.layout));
  const auto standard = standard_links(subject.hardware, subject.layout.devices());
  std::vector<KvLink> links = standard;
  if (query.links.size() > 20) return fail(ErrorCode::kInvalidArgument, "{} links; at most 20", query.links.size());
  for (const std::string& text : query.links) {
    WEIR_TRY(auto link, parse_link(text, standard));
    const auto same = std::ranges::find(links, link.name, &KvLink::name);
    if (same != links.end()) {
      *same = link;
    } else {
      links.push_back(link);
    }
  }
  return Writer(query, subject, std::move(links)).write();
}

}  // namespace weir::plan
