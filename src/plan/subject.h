// What most of the planner's commands are asked about: a model on hardware, spread and kept in some way. From names to
// checked values, in one place.
#pragma once

#include <string>

#include "base/result.h"
#include "plan/hardware.h"
#include "plan/model_card.h"
#include "plan/parallel_layout.h"

namespace weir::plan {

struct SubjectQuery {
  std::string model, hardware;  // hardware: may be empty where none is needed
  ParallelLayout layout;
  std::string weights;  // parse_weight_types(); empty: as the model's files have them
  std::string kv = "auto";
};

struct Subject {
  ModelCard card;
  Hardware hardware;  // name empty: none was given
  ParallelLayout layout;
  WeightTypes types;
  double kv_bits = 16;
  std::string kv_name;
};

Result<Subject> read_subject(const SubjectQuery& query);

// "auto" and "bf16", "f16": 16; "fp8", "int8": 8; "f32": 32; "nvfp4": 4.5.
Result<double> parse_kv_bits(const std::string& name);

// "141.1 GB", "320.0 KiB", "1,234,567".
std::string decimal_bytes(double bytes);
std::string binary_bytes(double bytes);
std::string grouped(double number);
// "41.5 ms", "3.2 us".
std::string seconds_text(double seconds);

}  // namespace weir::plan
