// What collectives take over a device's links: alpha-beta, a start for each call and bytes over a share of the link
// (Thakur, Rabenseifner, Gropp 2005 has the forms).
#pragma once

#include "plan/hardware.h"

namespace weir::plan {

class Links {
 public:
  explicit Links(const Hardware& hardware) : hardware_(hardware) {}

  // `bytes` of each device, summed over `devices`: 2 (n - 1) / n of them cross each link.
  double all_reduce_s(int devices, double bytes) const;
  // `bytes` that each device sends, evenly to all: (n - 1) / n of them leave it.
  double all_to_all_s(int devices, double bytes) const;
  double send_s(bool inside_domain, double bytes) const;

 private:
  double bytes_per_s(int devices) const;  // of a device's link, when so many use theirs at once
  double start_s(int devices) const;

  const Hardware& hardware_;
};

}  // namespace weir::plan
