#include "plan/vllm/profile.h"

#include <gtest/gtest.h>

#include <cmath>

namespace weir::plan::vllm {
namespace {

ProfileFiles small_files() {
  ProfileFiles files;
  files.folder = "run/profile_tp1";
  files.dense =
      "layer,tokens,time_us\nqkv_proj,1,10\nqkv_proj,3,20\no_proj,1,5\nlayernorm,1,1\ngate_up_proj,1,30\n"
      "down_proj,1,20\n";
  files.per_sequence = "layer,sequences,time_us\nlm_head,1,50\nlm_head,11,60\nsampler,1,2\n";
  files.attention =
      "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,5\n0,0,1,1024,25\n16,0,0,0,6\n16,0,1,16,7\n";
  return files;
}

std::string error_of(const ProfileFiles& files) {
  const auto profile = read_profile(files);
  return profile ? "" : profile.error().message;
}

TEST(KernelProfile, CurvesAreLinearAndGoOnInTheirLastSlope) {
  const auto profile = read_profile(small_files());
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_DOUBLE_EQ(profile->layer("qkv_proj", 1), 10);
  EXPECT_DOUBLE_EQ(profile->layer("qkv_proj", 2), 15);
  EXPECT_DOUBLE_EQ(profile->layer("qkv_proj", 5), 30);
  EXPECT_DOUBLE_EQ(profile->layer("o_proj", 900), 5);
  EXPECT_DOUBLE_EQ(profile->layer("lm_head", 6), 55);
  EXPECT_DOUBLE_EQ(profile->layer("qk_norm", 6), 0);
}

TEST(AttentionTable, GivesBackWhatWasMeasured) {
  std::vector<AttentionPoint> points;
  for (const double chunk : {0.0, 16.0, 256.0, 2048.0}) {
    for (const double decode : {0.0, 1.0, 32.0}) {
      if (chunk + decode == 0) continue;
      for (const double context : {16.0, 512.0}) {
        const double before = chunk > 0 ? context : 0, read = decode > 0 ? 2 * context : 0;
        if (context > 16 && before + read == 0) continue;
        points.push_back({chunk, before, decode, read, 8 + chunk * 0.1 + std::sqrt(decode * read) + before * 0.01});
      }
    }
  }
  const auto table = AttentionTable::build(points, "attention.csv");
  ASSERT_TRUE(table.has_value()) << table.error().message;
  for (const AttentionPoint& p : points) {
    EXPECT_NEAR(table->at(p.prefill_rows, p.prefill_rows * (p.prefill_context + p.prefill_rows / 2), p.decode_rows,
                          p.decode_rows * p.decode_context),
                p.time_us, 1e-9 * p.time_us);
  }
  EXPECT_EQ(table->at(0, 0, 0, 0), 0);
}

// A kernel whose times are its work: any shape between the measured ones comes out exactly, also chunks, whose pairs
// grow with the square.
TEST(AttentionTable, BetweenMeasuredShapesFollowsTheWork) {
  const auto time = [](double rows, double pairs, double decode, double read) {
    return 5 + 0.01 * rows + 1e-4 * pairs + 0.5 * decode + 4e-3 * read;
  };
  std::vector<AttentionPoint> points;
  for (const double chunk : {0.0, 64.0, 512.0, 2048.0}) {
    for (const double before : {0.0, 1024.0}) {
      for (const double decode : {0.0, 4.0, 64.0}) {
        for (const double context : {16.0, 2048.0}) {
          if (chunk + decode == 0 || (chunk == 0 && before > 0) || (decode == 0 && context > 16)) continue;
          const double read = decode > 0 ? context : 0;
          points.push_back(
              {chunk, before, decode, read, time(chunk, chunk * (before + chunk / 2), decode, decode * read)});
        }
      }
    }
  }
  const auto table = AttentionTable::build(points, "attention.csv");
  ASSERT_TRUE(table.has_value()) << table.error().message;
  for (const double rows : {100.0, 900.0, 1500.0}) {
    for (const double decode : {4.0, 33.0}) {
      const double pairs = rows * (300 + rows / 2), read = decode * 777;
      EXPECT_NEAR(table->at(rows, pairs, decode, read), time(rows, pairs, decode, read),
                  0.002 * time(rows, pairs, decode, read));
      EXPECT_NEAR(table->at(0, 0, decode, read), time(0, 0, decode, read), 0.002 * time(0, 0, decode, read));
    }
  }
}

TEST(MoeTable, IsLinearInTokensAndExperts) {
  ProfileFiles files = small_files();
  files.moe = "tokens,activated_experts,time_us\n1,8,10\n1,16,20\n5,8,30\n5,16,60\n";
  const auto profile = read_profile(files);
  ASSERT_TRUE(profile.has_value()) << profile.error().message;
  EXPECT_DOUBLE_EQ(profile->moe.at(1, 12), 15);
  EXPECT_DOUBLE_EQ(profile->moe.at(3, 12), 30);
  EXPECT_DOUBLE_EQ(profile->moe.at(3, 4), 20);
}

TEST(KernelProfile, RefusesWhatIsNoMeasurementAndSaysWhere) {
  struct Case {
    const char* what;
    std::string ProfileFiles::* file;
    std::string text, expected;
  };
  const ProfileFiles good = small_files();
  const std::vector<Case> cases = {
      {"a missing column", &ProfileFiles::dense, "layer,time_us\nqkv_proj,1\n", "tokens"},
      {"a word for a time", &ProfileFiles::dense, "layer,tokens,time_us\nqkv_proj,1,fast\n", "time_us"},
      {"a negative time", &ProfileFiles::dense, "layer,tokens,time_us\nqkv_proj,1,-3\n", "line 2: time_us"},
      {"no rows", &ProfileFiles::per_sequence, "layer,sequences,time_us\nlm_head,0,3\n", "line 2: sequences"},
      {"infinity", &ProfileFiles::dense, "layer,tokens,time_us\nqkv_proj,1,inf\n", "time_us"},
      {"two times for one shape", &ProfileFiles::dense, "layer,tokens,time_us\nqkv_proj,1,3\nqkv_proj,1,4\n",
       "two times"},
      {"a layer too few", &ProfileFiles::dense, "layer,tokens,time_us\nqkv_proj,1,3\n", "o_proj"},
      {"no attention", &ProfileFiles::attention, "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n",
       "attention.csv"},
      {"attention twice", &ProfileFiles::attention, good.attention + "0,0,1,16,9\n", "two times"},
      {"a row cut short", &ProfileFiles::attention, good.attention + "0,0,1\n", "attention.csv"},
      {"an empty cell", &ProfileFiles::attention, good.attention + "0,0,2,,9\n", "kv_decode"},
      {"no experts", &ProfileFiles::moe, "tokens,activated_experts,time_us\n1,0,4\n", "activated_experts"},
      {"nothing", &ProfileFiles::attention, "", "attention.csv"},
  };
  for (const Case& one : cases) {
    ProfileFiles files = good;
    files.*one.file = one.text;
    const std::string error = error_of(files);
    EXPECT_NE(error.find(one.expected), std::string::npos) << one.what << ": " << error;
    EXPECT_NE(error.find("run/profile_tp1"), std::string::npos) << one.what << ": " << error;
  }
  EXPECT_EQ(error_of(good), "");
}

}  // namespace
}  // namespace weir::plan::vllm
