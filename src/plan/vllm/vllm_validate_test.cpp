#include "plan/vllm/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "plan/vllm/step_time.h"

namespace weir::plan::vllm {
namespace {

namespace fs = std::filesystem;

// A run whose pass takes 1 ms, whatever is in it: 32 layers of attention that takes 31.25 us.
RunFiles steady_run() {
  RunFiles files;
  files.name = "steady";
  files.meta = R"({"model": "meta-llama/Llama-3.1-8B", "started_at": "2026", "engine_kwargs":
    {"max_num_seqs": 2, "max_num_batched_tokens": 64}, "kv_cache": {"num_gpu_blocks": 1000, "block_size": 16}})";
  files.sim_config = R"({"link_bw": 16, "link_latency": 1000, "nodes": [{"instances": [
    {"hardware": "Steady", "npu_mem": {"mem_size": 24, "mem_util": 0.9}}]}]})";
  files.requests =
      R"({"request_id": "a", "arrival_time": 5, "input_toks": 100, "output_toks": 3, "queued_ts": 1, "first_token_ts": 1.002, "last_token_ts": 1.004})"
      "\n"
      R"({"request_id": "b", "arrival_time": 5.0015, "input_toks": 10, "output_toks": 2, "queued_ts": 1.002, "first_token_ts": 1.004, "last_token_ts": 1.005})"
      "\n"
      R"({"request_id": "c", "arrival_time": 5.0016, "input_toks": 10, "output_toks": 1, "queued_ts": 1.002, "first_token_ts": 1.008, "last_token_ts": 1.008})"
      "\n";
  files.profile.folder = "steady/profile_tp1";
  files.profile.dense =
      "layer,tokens,time_us\nqkv_proj,1,0\no_proj,1,0\nlayernorm,1,0\ngate_up_proj,1,0\ndown_proj,1,0\n";
  files.profile.per_sequence = "layer,sequences,time_us\nlm_head,1,0\nsampler,1,0\n";
  files.profile.attention =
      "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n0,0,1,16,31.25\n16,0,0,0,31.25\n"
      "16,0,1,16,31.25\n";
  return files;
}

std::string error_of(const RunFiles& files) {
  const auto run = parse_run(files);
  return run ? "" : run.error().message;
}

std::string changed(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// Worked out by hand. a: [0,1) 64 tokens, [1,2) 36, and tokens 2 and 3 in [2,3) and [3,4). b comes at 1.5, is read at 2
// when that step has ended, and the plan of [3,4) is the first that can have it: the one of [2,3) was made at 1. b:
// [3,4) prompt, [4,5). c comes with b and waits for a slot: a has its last token at 4, when [4,5) is planned already; c
// is in [5,6).
TEST(Replay, AStepIsPlannedWhileTheOneBeforeRuns) {
  const auto run = parse_run(steady_run());
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const auto played = replay(*run, 1);
  ASSERT_TRUE(played.has_value()) << played.error().message;
  const std::vector<RequestTimes> expected = {{0, 2e-3, 4e-3}, {2e-3, 4e-3, 5e-3}, {2e-3, 6e-3, 6e-3}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(played->times[i].queued_s, expected[i].queued_s, 1e-9) << i;
    EXPECT_NEAR(played->times[i].first_s, expected[i].first_s, 1e-9) << i;
    EXPECT_NEAR(played->times[i].last_s, expected[i].last_s, 1e-9) << i;
  }
  EXPECT_EQ(played->steps, 6);
}

TEST(Replay, WithoutAsynchronousSchedulingAStepFollowsItsTokens) {
  RunFiles files = steady_run();
  files.meta = changed(files.meta, R"("kv_cache")",
                       R"("resolved_config": {"scheduler_config": {"async_scheduling": false}}, "kv_cache")");
  const auto run = parse_run(files);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  const auto played = replay(*run, 2);  // a step is 2 ms
  ASSERT_TRUE(played.has_value()) << played.error().message;
  EXPECT_NEAR(played->times[1].queued_s, 2e-3, 1e-9);  // read when the first step has ended
  EXPECT_NEAR(played->times[1].first_s, 4e-3, 1e-9);   // beside the rest of a's prompt
  EXPECT_NEAR(played->times[2].first_s, 8e-3, 1e-9);   // in the slot that b left at 6
  EXPECT_EQ(played->steps, 4);
}

TEST(StepTime, SumsOfTensorParallelismTakeTheirLinks) {
  RunFiles files = steady_run();
  files.meta = changed(files.meta, R"("max_num_seqs")", R"("tensor_parallel_size": 2, "max_num_seqs")");
  const auto run = parse_run(files);
  ASSERT_TRUE(run.has_value()) << run.error().message;
  StepShape shape;
  shape.add(99, 100, true);
  // 65 sums of 4096 * 2 bytes in two hops of half, one gather of half of 128,256 logits.
  const double sums = 65 * 2 * (1e-6 + 4096 / 16e9), gather = 1e-6 + 128256 / 16e9;
  const double alone = StepTime(*parse_run(steady_run()), 1).step_s(shape);
  EXPECT_NEAR(StepTime(*run, 1).step_s(shape), alone + sums + gather, 1e-9);
}

TEST(ParseRun, RefusesWhatCannotBeReplayedAndSaysWhere) {
  struct Case {
    std::string RunFiles::* file;
    std::string from, to, expected;
  };
  const std::vector<Case> cases = {
      {&RunFiles::meta, "\"max_num_seqs\": 2", "\"max_num_seqs\": 0", "engine_kwargs/max_num_seqs"},
      {&RunFiles::meta, "\"max_num_seqs\": 2,", "", "engine_kwargs/max_num_seqs is not there"},
      {&RunFiles::meta, "1000", "\"many\"", "kv_cache/num_gpu_blocks"},
      {&RunFiles::meta, "meta-llama/Llama-3.1-8B", "nobody/Knows-7B", "config.json"},
      {&RunFiles::meta, "\"max_num_seqs\"", "\"data_parallel_size\": 2, \"max_num_seqs\"", "data_parallel_size"},
      {&RunFiles::meta, "{", "[", "meta.json"},
      {&RunFiles::sim_config, "\"Steady\"", "7", "hardware"},
      {&RunFiles::sim_config, "\"link_bw\": 16", "\"link_bw\": -1", "link_bw"},
      {&RunFiles::requests, "\"input_toks\": 10,", "\"input_toks\": -10,", "line 2: input_toks"},
      {&RunFiles::requests, "\"output_toks\": 3", "\"output_toks\": 1e30", "line 1: output_toks"},
      {&RunFiles::requests, "\"first_token_ts\": 1.008", "\"first_token_ts\": 0.5", "line 3: first_token_ts"},
      {&RunFiles::requests, "{", "x{", "line 1"},
      {&RunFiles::requests, "\"arrival_time\": 5.0015", "\"arrival_time\": 5e10", "apart"},
  };
  for (const Case& one : cases) {
    RunFiles files = steady_run();
    files.*one.file = changed(files.*one.file, one.from, one.to);
    EXPECT_NE(error_of(files).find(one.expected), std::string::npos) << one.to << ": " << error_of(files);
  }
  RunFiles empty = steady_run();
  empty.requests = "\n";
  EXPECT_NE(error_of(empty).find("no requests"), std::string::npos);
  EXPECT_EQ(error_of(steady_run()), "");
}

TEST(Replay, RefusesARequestThatNeverFits) {
  RunFiles files = steady_run();
  files.meta = changed(files.meta, "1000", "5");
  const auto run = parse_run(files);
  ASSERT_TRUE(run.has_value());
  const auto played = replay(*run, 1);
  ASSERT_FALSE(played.has_value());
  EXPECT_NE(played.error().message.find("request a"), std::string::npos) << played.error().message;
}

TEST(ReadRuns, AFolderLacksOneFile) {
  const fs::path folder = fs::path(testing::TempDir()) / "weir_vllm_runs";
  fs::remove_all(folder);
  fs::create_directories(folder / "one" / "profile_tp1");
  EXPECT_NE(read_runs(folder.string()).error().message.find("meta.json"), std::string::npos);
  EXPECT_NE(read_runs((folder / "none").string()).error().message.find("no folder"), std::string::npos);
  const RunFiles files = steady_run();
  const std::vector<std::pair<std::string, std::string>> parts = {
      {"meta.json", files.meta},
      {"sim_config.json", files.sim_config},
      {"requests.jsonl", files.requests},
      {"profile_tp1/dense.csv", files.profile.dense},
      {"profile_tp1/per_sequence.csv", files.profile.per_sequence},
      {"profile_tp1/attention.csv", files.profile.attention},
  };
  for (const auto& [name, text] : parts) {
    if (name != "meta.json") {
      const auto runs = read_runs(folder.string());
      ASSERT_FALSE(runs.has_value());
      EXPECT_NE(runs.error().message.find(name), std::string::npos) << name << ": " << runs.error().message;
    }
    std::ofstream(folder / "one" / name) << text;
  }
  for (const fs::path& given : {folder, folder / "one"}) {
    const auto runs = read_runs(given.string());
    ASSERT_TRUE(runs.has_value()) << runs.error().message;
    ASSERT_EQ(runs->size(), 1u);
    EXPECT_EQ(runs->front().name, "one");
  }
  fs::remove_all(folder);
}

TEST(Statistics, PercentilesAreThoseOfNumpy) {
  const Statistics found = statistics({4, 1, 3, 2, 10});
  EXPECT_DOUBLE_EQ(found.mean, 4);
  EXPECT_DOUBLE_EQ(found.p50, 3);
  EXPECT_NEAR(found.p90, 7.6, 1e-12);
  EXPECT_NEAR(found.p99, 9.76, 1e-12);
  EXPECT_EQ(statistics({}).mean, 0);
}

// What is published of the measured runs (README of the data): so the definitions are the same.
TEST(KnownRuns, AreMeasuredAsPublished) {
  const auto runs = known_runs();
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  ASSERT_EQ(runs->size(), 3u);
  const double ttft_ms[] = {65456.6, 7097.2, 1086.0}, tpot_ms[] = {32.4, 32.5, 47.3},
               e2e_ms[] = {86578.3, 28200.7, 32344.6};
  for (std::size_t i = 0; i < 3; ++i) {
    const RunFigures measured = figures((*runs)[i], (*runs)[i].measured);
    EXPECT_NEAR(measured.ttft_ms.mean, ttft_ms[i], 0.06);
    EXPECT_NEAR(measured.tpot_ms.mean, tpot_ms[i], 0.06);
    EXPECT_NEAR(measured.e2e_ms.mean, e2e_ms[i], 0.06);
  }
}

// The bounds that the predictions reached, a little wider; each factor fitted on the other runs.
TEST(KnownRuns, ArePredictedWithinBounds) {
  const auto runs = known_runs();
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  for (const vllm::Run& run : *runs) {
    const auto one = validate(run, *runs);
    ASSERT_TRUE(one.has_value()) << one.error().message;
    const auto error = [](double predicted, double measured) { return std::abs(predicted / measured - 1) * 100; };
    EXPECT_LE(error(one->predicted.tpot_ms.mean, one->measured.tpot_ms.mean), 1.2) << run.name;
    EXPECT_LE(error(one->predicted.e2e_ms.mean, one->measured.e2e_ms.mean), 1.8) << run.name;
    EXPECT_LE(error(one->predicted.ttft_ms.mean, one->measured.ttft_ms.mean), 3.5) << run.name;
    EXPECT_LE(error(one->predicted.ttft_ms.p99, one->measured.ttft_ms.p99), 4) << run.name;
    for (const std::string& other : one->factor.fitted_on) EXPECT_NE(other, run.name);
  }
}

// A prediction must not move with the measured times of its own run.
TEST(KnownRuns, OwnMeasurementsDoNotMatter) {
  const auto runs = known_runs();
  ASSERT_TRUE(runs.has_value()) << runs.error().message;
  vllm::Run run = (*runs)[2];
  const auto before = validate(run, *runs);
  for (RequestTimes& times : run.measured) times.last_s *= 3;
  const auto after = validate(run, *runs);
  ASSERT_TRUE(before.has_value() && after.has_value());
  EXPECT_EQ(before->predicted.e2e_ms.mean, after->predicted.e2e_ms.mean);
  EXPECT_EQ(before->predicted.ttft_ms.p99, after->predicted.ttft_ms.p99);
}

}  // namespace
}  // namespace weir::plan::vllm
