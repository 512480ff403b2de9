#include "hub/model_ref.h"

#include <gtest/gtest.h>

namespace weir::hub {
namespace {

TEST(ModelRef, RevisionAndFileAreOptional) {
  const auto plain = parse_model_ref("Qwen/Qwen3-0.6B");
  ASSERT_TRUE(plain);
  EXPECT_EQ("Qwen/Qwen3-0.6B", plain->repo());
  EXPECT_EQ("main", plain->revision);
  EXPECT_EQ("", plain->file);
  const auto full = parse_model_ref("a/b.c_d@refs/pr/1:sub/model@2:x.gguf");
  ASSERT_TRUE(full);
  EXPECT_EQ("a/b.c_d", full->repo());
  EXPECT_EQ("refs/pr/1", full->revision);
  EXPECT_EQ("sub/model@2:x.gguf", full->file);
}

TEST(ModelRef, WhatCouldLeadElsewhereIsRefused) {
  for (const char* text :
       {"",         "a",      "/",        "a/",      "/b",        "a/b/c",  "../b",     "a/..",      "a/b..c",
        "a/b--c",   "a/.b",   "a/b-",     "a b/c",   "a/b:",      "a/b@",   "a/b@:c",   "a/b:/c",    "a/b:c/../d",
        "a/b:c//d", "a/b:c/", "a/b@../c", "a/b@c\n", "a/b:c\x1b", "a/\xff", "a/b:\xff", "\xc3\xa4/b"}) {
    EXPECT_FALSE(parse_model_ref(text)) << text;
  }
  EXPECT_FALSE(parse_model_ref("a/" + std::string(97, 'x')));
  EXPECT_FALSE(parse_model_ref("a/b:" + std::string(256, 'x')));
}

TEST(ModelRef, PathsAreNotTakenForModels) {
  for (const char* text : {"models/llama.gguf", "./a/b", "/a/b", "a/b/c", "llama", "~/x"}) {
    EXPECT_FALSE(looks_like_model_ref(text)) << text;
  }
  for (const char* text : {"a/b", "a/b:q4_0", "a/b:x.gguf", "a/b@v1:c/d.gguf"}) {
    EXPECT_TRUE(looks_like_model_ref(text)) << text;
  }
}

}  // namespace
}  // namespace weir::hub
