#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "plan/data.h"
#include "plan/silicon/intervals.h"
#include "plan/silicon/silicon_model.h"
#include "plan/silicon/step_report.h"
#include "plan/silicon/validate_silicon.h"
#include "plan/step/fitted_step.h"

namespace weir::plan {
namespace {

constexpr char kHead[] =
    "id,silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,"
    "moe_quant_mode,batch_size,tp_size,pp_size,attention_dp_size,moe_tp_size,moe_ep_size,silicon_ttft_ms,"
    "silicon_tpot_ms\n";

Result<SiliconTable> read(const std::string& rows) {
  return read_silicon(kHead + rows, "rows.csv");
}

TEST(Hierarchy, RecoversTheCoefficientsThatMadeTheRows) {
  HierarchyPrior prior;
  prior.start = {1, 1};
  prior.kind = {0, 1};
  prior.kind_sd = {2, 2};
  prior.base_scale = 5;
  prior.levels = {{0.5, true}};
  std::vector<HierarchyRow> rows;
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    const double a = 1 + static_cast<double>(random() % 1000) / 10, b = 1 + static_cast<double>(random() % 1000) / 10;
    const bool other = i % 2 == 0;  // its first coefficient is half as large again
    rows.push_back({{a, b}, {other ? "other" : "one"}, std::log((other ? 3.0 : 2.0) * a + 0.5 * b)});
  }
  rows[10].log_y += 3;  // a faulty row must not decide
  std::vector<const HierarchyRow*> pointers;
  for (const auto& row : rows) pointers.push_back(&row);
  const Hierarchy fit = Hierarchy::fit(pointers, prior);
  EXPECT_NEAR(fit.coefficients({"one"})[0], 2.0, 0.02);
  EXPECT_NEAR(fit.coefficients({"other"})[0], 3.0, 0.03);
  EXPECT_NEAR(fit.coefficients({"one"})[1], 0.5, 0.01);
  const double unseen = fit.coefficients({"new"})[0];
  EXPECT_GT(unseen, 2.0);
  EXPECT_LT(unseen, 3.0);
}

TEST(GroupOffsets, ShrinksGroupsOfFewRowsMore) {
  GroupOffsets offsets;
  std::vector<std::vector<std::string>> keys;
  std::vector<double> residuals;
  for (int i = 0; i < 50; ++i) keys.push_back({"many"}), residuals.push_back(0.1);
  keys.push_back({"few"}), residuals.push_back(0.1);
  offsets.fit(keys, residuals, {0.1}, 0.1);
  EXPECT_NEAR(offsets.at({"many"}), 0.1, 0.005);
  EXPECT_LT(offsets.at({"few"}), 0.08);
  EXPECT_EQ(offsets.at({"new"}), 0);
}

TEST(Neighbours, PassesThroughWhatItSawAndForgetsFarAway) {
  Neighbours smooth;
  std::vector<NeighbourPoint> points;
  std::vector<double> residuals;
  for (int i = 0; i < 20; ++i) {
    points.push_back({"a", {0.2 * i}});
    residuals.push_back(0.1 * std::sin(0.2 * i));
  }
  smooth.fit(points, residuals, 0.2, 0.01);
  EXPECT_NEAR(smooth.at({"a", {1.1}}), 0.1 * std::sin(1.1), 0.01);
  EXPECT_NEAR(smooth.at({"a", {50}}), 0, 1e-6);
  EXPECT_EQ(smooth.at({"b", {1.1}}), 0);
}

TEST(Neighbours, RefusesWhatIsNotPositiveDefinite) {
  std::vector<double> a = {1, 2, 2, 1}, b = {1, 1};
  EXPECT_FALSE(solve_positive(a, 2, b));
}

TEST(Intervals, HoldNineInTenOfNewErrors) {
  std::mt19937 random(3);
  std::normal_distribution<double> error(0.05, 0.2);
  std::vector<double> past;
  for (int i = 0; i < 2000; ++i) past.push_back(error(random));
  const Interval interval = interval_of(past);
  int held = 0;
  for (int i = 0; i < 4000; ++i) held += interval.holds(error(random)) ? 1 : 0;
  EXPECT_NEAR(held / 4000.0, 0.9, 0.02);
}

TEST(Intervals, FewErrorsGiveWideIntervals) {
  const Interval few = interval_of({0.1, -0.2});
  EXPECT_LE(few.low, -0.4);
  EXPECT_GE(few.high, 0.4);
  Intervals empty;
  EXPECT_GE(empty.at(Support::kMany).high, 1);
}

TEST(Silicon, FoldsAreDisjointAndKeepRepeatsTogether) {
  std::map<std::string, int> fold;
  std::array<int, kFolds> sizes{};
  for (const SiliconRow* row : shared_silicon().used()) {
    const int f = fold_of(row->configuration());
    ASSERT_GE(f, 0);
    ASSERT_LT(f, kFolds);
    ++sizes[static_cast<std::size_t>(f)];
    EXPECT_EQ(fold.try_emplace(row->configuration(), f).first->second, f);
  }
  const auto total = shared_silicon().used().size();
  for (const int size : sizes) EXPECT_NEAR(static_cast<double>(size) / static_cast<double>(total), 0.2, 0.04);
}

TEST(Silicon, EveryRowHasOneFate) {
  const SiliconTable& table = shared_silicon();
  std::size_t sum = 0;
  for (const auto count : table.fates) sum += count;
  EXPECT_EQ(sum, table.rows.size());
  EXPECT_GT(table.fates[static_cast<std::size_t>(RowFate::kUsed)], 3000U);
}

TEST(Silicon, HostileCellsAreNamedWithLineAndColumn) {
  const auto bad = read(
      "1,,vllm,1,Qwen/Qwen3-32B,h100_sxm,fp8,agg,1024,1024,fp8,,16,2,1,1,,,100,10\n"
      "2,,vllm,1,Qwen/Qwen3-32B,h100_sxm,fp8,agg,1024,1024,fp8,,16,abc,1,1,,,100,10\n");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("rows.csv"), std::string::npos) << bad.error().message;
  EXPECT_NE(bad.error().message.find('3'), std::string::npos) << bad.error().message;
  EXPECT_NE(bad.error().message.find("tp_size"), std::string::npos) << bad.error().message;
  for (const char* tp : {"-1", "1e9", "nan", "inf"}) {
    const auto row =
        std::string("1,,vllm,1,Qwen/Qwen3-32B,h100_sxm,fp8,agg,1024,1024,fp8,,16,") + tp + ",1,1,,,100,10\n";
    EXPECT_FALSE(read(row)) << tp;
  }
  EXPECT_FALSE(read_silicon("a,b\n1,2\n", "rows.csv"));
}

TEST(Silicon, UnknownModelsAreEstimatedFromTheirNamesOrSkipped) {
  const auto table = read(
      "1,,vllm,1,x/Foo-27B,h100_sxm,fp8,agg,1024,1024,fp8,,16,2,1,1,,,100,10\n"
      "2,,vllm,1,x/Bar-80B-A3B,h100_sxm,fp8,agg,1024,1024,fp8,fp8,16,2,1,1,2,1,100,10\n"
      "3,,vllm,1,x/Baz,h100_sxm,fp8,agg,1024,1024,fp8,,16,2,1,1,,,100,10\n"
      "4,,vllm,1,x/Foo-27B,nosuchgpu,fp8,agg,1024,1024,fp8,,16,2,1,1,,,100,10\n"
      "5,,vllm,1,../etc/passwd-7B,h100_sxm,fp8,agg,1024,1024,fp8,,16,2,1,1,,,100,10\n");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->rows[0].fate, RowFate::kUsed);
  EXPECT_EQ(table->rows[0].kind(), RowKind::kDense);
  EXPECT_NEAR(table->rows[0].facts.active_weights(), 27e9, 1e6);
  EXPECT_EQ(table->rows[1].kind(), RowKind::kMixture);
  EXPECT_NEAR(table->rows[1].facts.active_weights(), 3e9, 1e6);
  EXPECT_EQ(table->rows[2].fate, RowFate::kUnknownModel);
  EXPECT_EQ(table->rows[3].fate, RowFate::kUnknownHardware);
  EXPECT_FALSE(table->notes.empty());
}

TEST(Silicon, SquaredDegreesAreReadAsOne) {
  const auto table =
      read("1,,trtllm,1,deepseek-ai/DeepSeek-R1,b200_sxm,fp8,agg,1024,1024,fp8,fp8,4,1,1,64,8,8,1000,20\n");
  ASSERT_TRUE(table);
  const SiliconRow& row = table->rows[0];
  EXPECT_EQ(row.layout.devices(), 8);
  EXPECT_EQ(row.layout.dp, 8);
  EXPECT_EQ(row.layout.ep, 8);
  EXPECT_EQ(row.concurrency, 256);
}

TEST(Silicon, RowsThatCannotFitAreNamedAndLeftOut) {
  const auto table = read(
      "1,,vllm,1,meta-llama/Llama-3.1-70B,h100_sxm,bf16,agg,1024,1024,,,16,1,1,1,,,100,10\n"
      "2,,vllm,1,meta-llama/Llama-3.1-70B,h100_sxm,bf16,agg,1024,1024,,,16,2,1,1,,,100,30\n"
      "3,,vllm,1,meta-llama/Llama-3.1-70B,h100_sxm,bf16,agg,900000,1024,,,1,2,1,1,,,1000000,30\n");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->rows[0].fate, RowFate::kTooLarge);
  EXPECT_EQ(table->rows[1].fate, RowFate::kUsed);
  EXPECT_EQ(table->rows[2].fate, RowFate::kTooLarge);
  ASSERT_EQ(table->notes.size(), 2U);
  EXPECT_NE(table->notes[0].find("line 2"), std::string::npos) << table->notes[0];
  EXPECT_NE(table->notes[0].find("85.9 GB"), std::string::npos) << table->notes[0];
  // What was measured did fit, but for layouts written down without their expert parallelism.
  std::size_t shared = 0;
  for (const SiliconRow& row : shared_silicon().rows) {
    if (row.fate != RowFate::kTooLarge) continue;
    ++shared;
    EXPECT_TRUE(row.disaggregated && !row.facts.dense()) << row.model;
  }
  EXPECT_LT(100 * shared, shared_silicon().rows.size());
}

TEST(Silicon, RowsOfTheSharedFileAreKnownInAnyOrderAndNumber) {
  // Every third row, from the end: repeats lose the row that they repeat, and rows their neighbours.
  const std::string_view text = data_file("silicon.csv");
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    lines.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  std::string sample = lines[0] + "\n";
  for (std::size_t i = lines.size(); i-- > 1;) {
    if (i % 3 == 0) sample += lines[i] + "\n";
  }
  const auto table = read_silicon(sample, "sample.csv");
  ASSERT_TRUE(table) << table.error().message;
  std::set<std::string> known;
  for (const SiliconRow* row : shared_silicon().used()) known.insert(row->measurement());
  EXPECT_GT(table->used().size(), 1000U);
  for (const SiliconRow* row : table->used()) EXPECT_TRUE(known.contains(row->measurement())) << row->line;
}

TEST(Silicon, MeasurementsAreNotBelowTheFloor) {
  std::size_t below = 0, all = 0;
  for (const SiliconRow* row : shared_silicon().used()) {
    if (row->disaggregated) continue;  // how many decode is not always known
    ++all;
    below += row->tpot_ms < floor_ms(*row, Latency::kTpot) ? 1 : 0;
  }
  EXPECT_LT(static_cast<double>(below), 0.01 * static_cast<double>(all)) << below << " of " << all;
}

TEST(Intervals, NothingIsPromisedBelowTheFloor) {
  const Interval interval{-0.5, 0.5};
  const Estimate above = estimate(std::log(10.0), interval, 5);
  EXPECT_FALSE(above.raised);
  EXPECT_NEAR(above.low_ms, 10 * std::exp(-0.5), 1e-9);
  const Estimate low = estimate(std::log(10.0), interval, 8);
  EXPECT_TRUE(low.raised);
  EXPECT_EQ(low.low_ms, 8);
  EXPECT_NEAR(low.ms, 10, 1e-9);
  const Estimate all = estimate(std::log(10.0), interval, 30);
  EXPECT_EQ(all.ms, 30);
  EXPECT_EQ(all.high_ms, 30);
}

Result<Report> step_of(const char* model, const char* gpu, StepQuestion question) {
  WEIR_TRY(question.card, read_model_card(model));
  WEIR_TRY(question.hardware, find_hardware(gpu));
  question.types = question.card.types;
  return step_report(question);
}

TEST(StepReport, RefusesWhatDoesNotFitWithTheTermAndBothNumbers) {
  const auto weights = step_of("Llama-3.3-70B", "H100", {});
  ASSERT_FALSE(weights);
  EXPECT_NE(weights.error().message.find("weights do not fit: 141"), std::string::npos) << weights.error().message;
  EXPECT_NE(weights.error().message.find("85.90 GB"), std::string::npos) << weights.error().message;
  EXPECT_FALSE(step_of("Llama-3.1-405B", "L4", {}));
  StepQuestion question;
  question.layout.tp = 4;
  question.input_tokens = question.output_tokens = 1e7;
  const auto kv = step_of("Llama-3.3-70B", "H100", question);
  ASSERT_FALSE(kv);
  EXPECT_NE(kv.error().message.find("KV of one sequence"), std::string::npos) << kv.error().message;
  question.layout.tp = 8;
  question.input_tokens = 131072;
  question.output_tokens = 1;
  const auto context = step_of("Llama-3.3-70B", "H100", question);
  ASSERT_FALSE(context);
  EXPECT_NE(context.error().message.find("131072 tokens"), std::string::npos) << context.error().message;
  question.input_tokens = 131071;
  EXPECT_TRUE(step_of("Llama-3.3-70B", "H100", question));
}

TEST(StepReport, NoFigureIsBelowTheRoofline) {
  for (const char* backend : {"", "vllm", "sglang", "trtllm"}) {
    for (const double concurrency : {1.0, 16.0, 256.0}) {
      StepQuestion question;
      question.layout.tp = 2;
      question.backend = backend;
      question.concurrency = concurrency;
      const auto report = step_of("Llama-3.3-70B", "H100", question);
      ASSERT_TRUE(report) << report.error().message;
      // 139 GB are read a pass (all but the embedding table), by two devices of 3.35 TB/s.
      EXPECT_GT(report->json["TPOT"]["low_ms"].get<double>(), 139e9 / 2 / 3.35e9 * 0.999) << backend << concurrency;
      // 2 x 68.5 G products of 1,024 tokens at 989 TFLOP/s.
      EXPECT_GT(report->json["TTFT"]["low_ms"].get<double>(), 2 * 68.4e9 * 1024 / 2 / 989e9) << backend << concurrency;
      for (const char* latency : {"TPOT", "TTFT"}) {
        const auto& json = report->json[latency];
        EXPECT_LE(json["low_ms"].get<double>(), json["ms"].get<double>());
        EXPECT_LE(json["ms"].get<double>(), json["high_ms"].get<double>());
      }
    }
  }
}

TEST(StepTerms, TypesComputeInTheirOwnPeakOrIn16Bits) {
  const auto facts = facts_of(*read_model_card("Llama-3.1-8B"));
  StepLoad load;
  load.sequences = 4096;  // arithmetic is the floor
  load.context = 1;
  const auto floor = [&](const char* gpu, const char* types) {
    double ms = 0;
    step_terms(facts, *find_hardware(gpu), {}, step_bits(*parse_weight_types(types), 8), load, &ms);
    return ms;
  };
  EXPECT_DOUBLE_EQ(floor("A100", "fp8"), floor("A100", "bf16"));
  EXPECT_DOUBLE_EQ(floor("A100", "nvfp4"), floor("A100", "bf16"));
  EXPECT_NEAR(floor("A100", "int8"), floor("A100", "bf16") / 2, 1e-9);
  EXPECT_NEAR(floor("H100", "fp8"), floor("H100", "bf16") * 989 / 1979, 1e-9);
  EXPECT_DOUBLE_EQ(floor("H100", "nvfp4"), floor("H100", "bf16"));
  EXPECT_NEAR(floor("B200", "nvfp4"), floor("B200", "bf16") / 4, 1e-9);
  EXPECT_DOUBLE_EQ(floor("B200", "int4"), floor("B200", "bf16"));  // of weights alone
  EXPECT_DOUBLE_EQ(floor("B200", "q4_k_m"), floor("B200", "bf16"));
}

TEST(Silicon, RecipesFillInWhatDisaggregatedRowsLeaveOut) {
  const std::string head =
      "silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,"
      "moe_quant_mode,batch_size,tp_size,prefill_tp_size,prefill_moe_ep_size,decode_tp_size,decode_moe_ep_size,"
      "silicon_ttft_ms,silicon_tpot_ms\n";
  const auto row = [](int concurrency, const char* system) {
    return fmt::format(
        "silicon_concurrency={},trtllm,0.8,deepseek-ai/"
        "DeepSeek-R1,{},fp4,disagg,1024,1024,nvfp4,nvfp4,,,4,4,8,4,500,10\n",
        concurrency, system);
  };
  const auto table =
      read_silicon(head + row(1214, "b200_sxm") + row(10, "b200_sxm") + row(1215, "b200_sxm"), "rows.csv");
  ASSERT_TRUE(table) << table.error().message;
  const SiliconRow& one = table->rows[0];
  EXPECT_TRUE(one.choices.empty());
  EXPECT_EQ(one.drafts, 2);
  EXPECT_EQ(one.decode_workers, 2);
  EXPECT_EQ(one.layout.dp, 8);
  EXPECT_EQ(one.layout.tp, 1);
  EXPECT_EQ(one.devices(), 4 + 2 * 8);
  EXPECT_EQ(one.most_decoding, 64 * 8);  // a batch of each attention group
  EXPECT_EQ(table->rows[1].most_decoding, 32);
  EXPECT_EQ(table->rows[2].most_decoding, 0);
  const SiliconRow& open = table->rows[1];  // with and without drafts
  EXPECT_EQ(open.choices.size(), 2U);
  EXPECT_EQ(open.layout.tp, 8);
  EXPECT_EQ(shared_model(RowKind::kDisaggregated, Latency::kTpot).support(open), Support::kOpen);
  const SiliconModel& model = shared_model(RowKind::kDisaggregated, Latency::kTpot);
  const double with = model.log_ms(open.with(open.choices[0])), without = model.log_ms(open.with(open.choices[1]));
  EXPECT_LT(with, without);
  EXPECT_EQ(model.log_ms(open), with);
  EXPECT_LT(table->rows[2].drafts, 0);  // not published
  EXPECT_EQ(table->rows[2].layout.tp, 8);
}

// The same for rows that state all of their layout: 370 requests on five workers of 64 places each.
TEST(Silicon, RecipesGiveWholeLayoutsTheirBatch) {
  const auto row = [](int workers) {
    return fmt::format(
        "silicon_concurrency=370,trtllm,0.8,deepseek-ai/"
        "DeepSeek-R1,b200_sxm,fp4,disagg,8192,1024,nvfp4,nvfp4,,,1,4,4,2,"
        "8,1,8,{},8000,15\n",
        workers);
  };
  const auto table = read_silicon(
      "silicon_data_source,backend,backend_version,model_path,system,precision,mode,isl,osl,gemm_quant_mode,"
      "moe_quant_mode,batch_size,tp_size,prefill_tp_size,prefill_attention_dp_size,prefill_moe_ep_size,"
      "prefill_num_workers,decode_tp_size,decode_attention_dp_size,decode_moe_ep_size,decode_num_workers,"
      "silicon_ttft_ms,silicon_tpot_ms\n" +
          row(5) + row(6),
      "rows.csv");
  ASSERT_TRUE(table) << table.error().message;
  EXPECT_EQ(table->rows[0].most_decoding, 64);
  EXPECT_EQ(table->rows[0].layout.tp, 8);
  EXPECT_EQ(table->rows[0].decode_workers, 5);
  EXPECT_EQ(table->rows[1].most_decoding, 0);  // no such run is published
}

// 607 requests for each of two workers that decode 512 at once: the others wait for most of a reply's time.
TEST(Silicon, RequestsBeyondTheDecodersBatchWait) {
  const SiliconRow* found = nullptr;
  for (const SiliconRow* row : shared_silicon().used()) {
    if (row->disaggregated && row->most_decoding == 512 && row->concurrency == 1214) found = row;
  }
  ASSERT_NE(found, nullptr);
  const SiliconModel& model = shared_model(RowKind::kDisaggregated, Latency::kTtft);
  SiliconRow roomy = *found, tight = *found;
  roomy.most_decoding = 0;
  tight.most_decoding = 256;
  EXPECT_LE(running_requests(*found), 512);
  EXPECT_LE(running_requests(tight), 256);
  EXPECT_LT(model.log_ms(roomy), model.log_ms(*found));
  const double waited_ms = std::exp(model.log_ms(tight)) - std::exp(model.log_ms(*found));
  EXPECT_GT(waited_ms, 0.3 * tight.output_tokens * tight.tpot_ms);
}

// A dense model decodes as beside prompts; what its prompts wait for, only rows with roles apart tell.
TEST(Silicon, DenseModelsDecodeAlikeWhereverPromptsAre) {
  int dense = 0;
  for (const SiliconRow* row : shared_silicon().used()) {
    EXPECT_EQ(fit_kind(*row, Latency::kTtft), row->kind());
    const bool apart = row->disaggregated && row->facts.dense();
    EXPECT_EQ(fit_kind(*row, Latency::kTpot), apart ? RowKind::kDense : row->kind());
    if (!apart) continue;
    ++dense;
    const double ms = std::exp(shared_model(RowKind::kDense, Latency::kTpot).log_ms(*row));
    SiliconRow together = *row;
    together.disaggregated = false;
    EXPECT_LT(ms, std::exp(shared_model(RowKind::kDense, Latency::kTpot).log_ms(together)));  // no prompts between
  }
  EXPECT_GE(dense, 5);
}

TEST(Repeats, KnowsWhatWasMeasuredAndNothingElse) {
  Repeats repeats;
  repeats.fit({"a", "a", "b", "c", "far"}, {0.10, 0.12, -0.05, 0.02, 1.0});
  EXPECT_NEAR(repeats.at("a"), 0.11, 0.02);
  EXPECT_LT(repeats.at("b"), 0);
  EXPECT_NEAR(repeats.at("far"), 1, 0.02);
  EXPECT_EQ(repeats.at("new"), 0);
  EXPECT_GT(repeats.noise(), 0);
}

TEST(StepFacts, NamesWithoutCountsSayNothing) {
  EXPECT_FALSE(facts_from_name("gpt-next"));
  EXPECT_FALSE(facts_from_name("Foo-0B"));
  EXPECT_FALSE(facts_from_name("Foo-3B-A27B"));
  EXPECT_FALSE(facts_from_name("B27-B"));
  ASSERT_TRUE(facts_from_name("foo-1.5b-chat"));
  EXPECT_NEAR(facts_from_name("foo-1.5b-chat")->active_weights(), 1.5e9, 1e5);
}

TEST(FittedStep, MoreWorkTakesLongerAndBeatsNoBound) {
  const auto card = read_model_card("Llama-3.1-70B");
  ASSERT_TRUE(card);
  const auto hardware = find_hardware("H200-SXM");
  ASSERT_TRUE(hardware);
  const auto types = parse_weight_types("fp8");
  ASSERT_TRUE(types);
  ParallelLayout layout;
  layout.tp = 2;
  const auto model = make_step_model(*card, *hardware, layout, *types, 8, "vllm");
  ASSERT_TRUE(model) << model.error().message;
  StepShape one, many, prompt;
  one.add(1000, 1001, true);
  for (int i = 0; i < 64; ++i) many.add(1000, 1001, true);
  prompt.add(0, 8192, true);
  EXPECT_GT((*model)->step_s(one), 70e9 / 2 / 4.8e12);
  EXPECT_GT((*model)->step_s(many), (*model)->step_s(one));
  EXPECT_GT((*model)->step_s(prompt), 8192 * 2 * 70e9 / 2 / 1979e12);
  EXPECT_LT((*model)->step_s(prompt), 10 * 8192 * 2 * 70e9 / 2 / 1979e12);
  EXPECT_EQ((*model)->step_s(StepShape{}), 0);
  layout.tp = 3;
  EXPECT_FALSE(make_step_model(*card, *hardware, layout, *types, 8));
  layout.tp = 2;
  EXPECT_FALSE(make_step_model(*card, *hardware, layout, *types, 8, "nosuch"));
}

}  // namespace
}  // namespace weir::plan
