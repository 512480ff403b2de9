// The files of src/plan/data/, which are part of the program.
#pragma once

#include <string_view>

namespace weir::plan {

// `name`: "hardware.csv". CHECKs that there is such a file.
std::string_view data_file(std::string_view name);

}  // namespace weir::plan
