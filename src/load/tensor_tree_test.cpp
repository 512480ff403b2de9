#include "load/tensor_tree.h"

#include <gtest/gtest.h>

namespace weir::load {
namespace {

UnsupportedTensor tensor(const std::string& name, std::int64_t bytes = 10, const std::string& type = "F32") {
  return {name, type, {bytes / 4}, bytes};
}

TEST(TensorTree, NeighbouringLayersOfTheSameShapeAreOne) {
  const auto tree =
      tensor_tree(std::vector{tensor("token_embd.weight", 100), tensor("blk.10.b"), tensor("blk.0.a", 4),
                              tensor("blk.0.b"), tensor("blk.1.b"), tensor("blk.1.a", 4), tensor("blk.2.a", 4),
                              tensor("blk.2.b", 10, "Q4_0"), tensor("output.weight"), tensor("blk.9.b")});
  ASSERT_EQ(4u, tree.size());
  EXPECT_EQ(-1, tree[0].first_layer);
  EXPECT_EQ(110, tree[0].bytes);
  EXPECT_EQ(0, tree[1].first_layer);
  EXPECT_EQ(1, tree[1].last_layer);
  EXPECT_EQ(14, tree[1].bytes);
  EXPECT_EQ("a", name_in_layer(tree[1].tensors[0].name));
  EXPECT_EQ(2, tree[2].first_layer);
  EXPECT_EQ(9, tree[3].first_layer);
  EXPECT_EQ(10, tree[3].last_layer);
}

TEST(TensorTree, NamesAreAnybodys) {
  EXPECT_EQ("self_attn.q_proj.weight", name_in_layer("model.layers.3.self_attn.q_proj.weight"));
  for (const char* name : {"", ".", "a", "99999999999999999999.x", "-1.x", "a.1x.b", "1e5.b", "v.0x1"}) {
    EXPECT_EQ(-1, tensor_tree(std::vector{tensor(name)})[0].first_layer) << name;
    EXPECT_EQ(name, name_in_layer(name));
  }
  EXPECT_EQ("", name_in_layer("blk.5"));
  EXPECT_TRUE(tensor_tree({}).empty());
  EXPECT_EQ(2u, tensor_tree(std::vector{tensor("9223372036854775807.a"), tensor("0.a", 4)}).size());
}

}  // namespace
}  // namespace weir::load
