#include "plan/data.h"

#include <cstddef>

#include "base/check.h"

#define WEIR_DATA(number, name) extern "C" const char weir_data_##number[], weir_data_##number##_end[];
#include <data_files.inc>  // made by CMakeLists.txt
#undef WEIR_DATA

namespace weir::plan {

std::string_view data_file(std::string_view name) {
#define WEIR_DATA(number, file) \
  if (name == file)             \
    return {weir_data_##number, static_cast<std::size_t>(weir_data_##number##_end - weir_data_##number)};
#include <data_files.inc>  // made by CMakeLists.txt
#undef WEIR_DATA
  CHECK(false, "no data file {}", name);
  return {};
}

}  // namespace weir::plan
