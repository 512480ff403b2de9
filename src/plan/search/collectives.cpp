#include "plan/search/collectives.h"

#include <algorithm>

namespace weir::plan {
namespace {

// From AIConfigurator's measured collectives (@095f58a; H100, H200, B200, A100, L40S; 2 to 8 devices): a captured
// all-reduce starts in 4.3 to 7.4 us whatever the number of devices behind a switch; large ones reach 0.6 to 1.0 of the
// link.
constexpr double kStartS = 5e-6, kLinkShare = 0.7;
// The same on PCIe without a switch (L40S): 0.60 of the link between 2 devices, 0.16 among 4, 0.05 among 8, as if all
// shared one: (2 / n)^2.
constexpr double kPcieShare = 0.6;
// Across the network another start, one round trip of RDMA with its software.
constexpr double kNetworkStartS = 15e-6, kNetworkShare = 0.8;

}  // namespace

double Links::bytes_per_s(int devices) const {
  if (devices > hardware_.domain) return kNetworkShare * hardware_.nic_gbit / 8 * 1e9;
  const bool pcie = hardware_.link_gbs <= 0 || hardware_.link.find("PCIe") != std::string::npos;
  if (!pcie) return kLinkShare * hardware_.link_gbs * 1e9;
  const double crowd = std::min(1.0, 2.0 / devices);
  return kPcieShare * crowd * crowd * std::max(hardware_.link_gbs, hardware_.pcie_gbs) * 1e9;
}

double Links::start_s(int devices) const {
  return devices > hardware_.domain ? kNetworkStartS : kStartS;
}

double Links::all_reduce_s(int devices, double bytes) const {
  if (devices <= 1) return 0;
  return start_s(devices) + 2.0 * (devices - 1) / devices * bytes / bytes_per_s(devices);
}

double Links::all_to_all_s(int devices, double bytes) const {
  if (devices <= 1) return 0;
  // Within the domain the share of the devices there, the rest over the network, both at once.
  if (devices <= hardware_.domain)
    return start_s(devices) + static_cast<double>(devices - 1) / devices * bytes / bytes_per_s(devices);
  const double outside = static_cast<double>(devices - hardware_.domain) / devices;
  return start_s(devices) +
         std::max(outside * bytes / bytes_per_s(devices), (1 - outside) * bytes / bytes_per_s(hardware_.domain));
}

double Links::send_s(bool inside_domain, double bytes) const {
  const int devices = inside_domain ? 2 : hardware_.domain + 1;
  return start_s(devices) + bytes / bytes_per_s(devices);
}

}  // namespace weir::plan
