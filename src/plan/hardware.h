// Hardware: peaks, memory and links of a device, from the built-in table or given by hand.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace weir::plan {

// Peaks are of dense arithmetic. Zero: not known, or not there.
struct Hardware {
  std::string name;  // "H100-SXM"
  std::string kind;  // "gpu", "cpu", "tpu"
  double bf16_tflops = 0, fp8_tflops = 0, int8_tops = 0, fp4_tflops = 0;
  double memory_bytes = 0;
  double bandwidth_gbs = 0;
  double link_gbs = 0;  // to devices of the same domain, each direction
  std::string link;
  int domain = 8;  // devices that this link joins
  double nic_gbit = 0, pcie_gbs = 0;
  double tdp_w = 0;
  double price_per_hour = 0;  // given by hand; 0: not known
  std::string source;

  // TFLOP/s of products whose operands have so many bits: the one place that says which type computes in which peak.
  // What a device has no arithmetic for is widened to the 16 bits that all of them compute in, as engines do: FP8 on an
  // A100 (no FP8) runs at BF16's rate, and so do 4 bits on an H100 (no FP4). Floats never use integers' peak.
  double peak_tflops(double operand_bits, bool integer = false) const;
};

// Case, dashes and a vendor's suffixes do not matter: "h100", "H100-SXM", "h100_sxm". Also "name,field=value,..." to
// change or give fields by hand. kNotFound lists the known names and the fields.
Result<Hardware> find_hardware(const std::string& text);
const std::vector<Hardware>& known_hardware();

}  // namespace weir::plan
