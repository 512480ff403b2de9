// What a model may at most claim about itself. Far above every model in use; they keep products within int64 and loops
// short when a file lies.
#pragma once

#include <cstdint>

namespace weir::load {

struct Range {
  std::int64_t low, high;  // both allowed
};

constexpr Range kLayerRange = {1, 512};
constexpr Range kHiddenRange = {1, 1 << 17};
constexpr Range kHeadRange = {1, 4096};
constexpr Range kHeadDimRange = {2, 1024};
constexpr Range kFfnRange = {1, 1 << 20};
constexpr Range kVocabRange = {1, 1 << 21};
constexpr Range kContextRange = {1, 1 << 27};
constexpr Range kWindowRange = {0, 1 << 30};

// Of requests as well as of files. Logits are divided by it and multiplied with it: beyond these they could overflow.
constexpr double kMinRepetitionPenalty = 1e-6, kMaxRepetitionPenalty = 100.0;

constexpr std::size_t kMaxConfigBytes = std::size_t{8} << 20;
constexpr std::size_t kMaxTokenizerBytes = std::size_t{256} << 20;
constexpr std::size_t kMaxTemplateBytes = std::size_t{1} << 20;  // the largest in use have 60 kB
constexpr std::size_t kMaxIndexBytes = std::size_t{32} << 20;
constexpr std::size_t kMaxShards = 1024;  // keeps the number of mappings far below the kernel's limit

}  // namespace weir::load
