// Where the tensors that a model needs lie in a file: by which names, as parts of which larger ones, turned or not.
//
// The model asks for canonical tensors, all of them vectors or matrices [outputs, inputs] with GGUF's names; experts
// and the heads of latent attention are numbered ("blk.3.ffn_up.17.weight"). Files fuse and stack them: q, k and v in
// one matrix, all experts in one three-dimensional tensor. A TensorMap holds the rules of one family and file format; a
// TensorPlace is what they make of one tensor.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "load/spec_rules.h"

namespace weir::load {

// Element i of a part is element at(i) of the whole: blocks at equal distances.
struct Picks {
  std::int64_t begin = 0, block = 0, stride = 0;
  std::int64_t at(std::int64_t i) const { return begin + i / block * stride + i % block; }
};

struct TensorPlace {
  std::string file_name;
  std::vector<std::int64_t> file_shape;  // outermost first
  // The file's tensor is a stack of `slices` (its leading axes), of which this one is meant, [slice_rows, slice_cols].
  std::int64_t slice = 0, slices = 1, slice_rows = 0, slice_cols = 0;
  bool slice_transposed = false;  // the slice is stored [inputs, outputs]
  Picks rows;                     // of the slice (as it is after that), for the part's own rows
  bool part_transposed = false;   // the part is used as [columns, rows]

  bool whole_rows() const { return !slice_transposed && !part_transposed; }
};

struct ExpectedTensor {
  std::string name;  // canonical
  std::vector<std::int64_t> shape;
  Presence presence = Presence::kRequired;
  TensorPlace place;
};

// Rules for the tensors of a layer. Names are given without "blk.N." and, except in those given with an ending, without
// ".weight" or ".bias", which are carried over. '#' stands for the number of an expert or head.
class TensorMap {
 public:
  // `prefix`: of the layers' names in the file, "model.layers." or "blk.".
  explicit TensorMap(std::string layer_prefix) : layer_prefix_(std::move(layer_prefix)) {}

  TensorMap& global(std::string canonical, std::string file);  // a tensor that is no layer's, whole names
  TensorMap& name(std::string canonical, std::string file);
  // The rows of `parts` in this order, as one tensor; with `groups`, the first of each part's equal groups of rows,
  // then the second ones, and so on.
  struct Fused {
    std::string file;
    std::vector<std::string> parts;
    std::int64_t groups = 1;
    bool stacked = false;           // one such tensor per number, stacked
    bool flat = false;              // stacked along the rows, so that the file's tensor has an axis less
    bool slice_transposed = false;  // stored [inputs, outputs]
    std::vector<std::string> transposed_parts = {};
  };
  TensorMap& fused(const Fused& rule);
  // All numbers of one tensor, stacked.
  TensorMap& stacked(std::string canonical, std::string file);
  // Later rules go before earlier ones of the same name.

  // Fills in the places. `expected` must hold every part of what is fused.
  void place(std::vector<ExpectedTensor>& expected) const;

 private:
  struct Rule {
    std::string canonical;
    Fused fused;
  };
  const Rule* find(std::string_view key, std::string_view ending) const;

  std::string layer_prefix_;
  std::vector<std::pair<std::string, std::string>> globals_;
  std::vector<Rule> rules_;
};

}  // namespace weir::load
