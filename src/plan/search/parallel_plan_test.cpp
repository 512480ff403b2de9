// The search on cards of real models.
#include "plan/search/parallel_plan.h"

#include <gtest/gtest.h>

#include "plan/operators.h"
#include "plan/search/card_instance.h"
#include "plan/step/fitted_step.h"

namespace weir::plan {
namespace {

struct Subject {
  ModelCard card;
  Hardware hardware;
};

Subject read(const std::string& model, const std::string& hardware) {
  return {read_model_card(model).value(), find_hardware(hardware).value()};
}

ParallelOptions options(int devices, double input, double output) {
  ParallelOptions options;
  options.devices = devices;
  options.input_tokens = input;
  options.output_tokens = output;
  options.weights = {"fp8"};
  options.kv_bits = {8};
  return options;
}

double most_per_device(const ParallelPlan& plan, const std::string& layout) {
  double most = 0;
  for (const auto& point : plan.report.json["best"]) {
    if (!point["disaggregated"] && point["deployment"].get<std::string>().ends_with("x " + layout))
      most = std::max(most, point["tokens_per_s_device"].get<double>());
  }
  return most;
}

TEST(ParallelPlan, PublishedThroughputOfLlama70BIsMetWithinASixth) {
  // TensorRT-LLM's performance overview @03e27c7: Llama 3.3 70B in FP8, TP2, most throughput.
  struct Published {
    const char* hardware;
    double input, output, tokens_per_s;
  };
  for (const auto& row : {Published{"H200-SXM", 1024, 1024, 2587}, Published{"H100-SXM", 1024, 1024, 2209},
                          Published{"H100-SXM", 8192, 1024, 398}}) {
    const auto subject = read("Llama-3.3-70B", row.hardware);
    auto wish = options(2, row.input, row.output);
    wish.backend = "trtllm";
    const auto plan = plan_parallel(subject.card, subject.hardware, wish);
    ASSERT_TRUE(plan) << plan.error().message;
    const double found = most_per_device(*plan, "TP2");
    EXPECT_GT(found, row.tokens_per_s / 1.17) << row.hardware << " " << row.input;
    EXPECT_LT(found, row.tokens_per_s * 1.17) << row.hardware << " " << row.input;
  }
}

TEST(CardInstance, ComputesAndReadsWhatTheOperatorsDo) {
  // The operators are counted one by one elsewhere (operators.h); the search's closed form must come to the same.
  Hardware hardware = find_hardware("H200-SXM").value();
  hardware.kind = "tpu";  // of which no deployment was measured: the closed form alone
  for (const char* model : {"Llama-3.1-70B", "DeepSeek-V3", "gpt-oss-120b", "Qwen3-30B-A3B", "Llama-3.1-8B"}) {
    const auto card = read_model_card(model).value();
    const CardSource source(card, hardware);
    for (const ParallelLayout& layout : {ParallelLayout{}, ParallelLayout{.tp = 4}, ParallelLayout{.tp = 8, .ep = 8},
                                         ParallelLayout{.dp = 8, .ep = 8}, ParallelLayout{.tp = 2, .dp = 4, .ep = 4}}) {
      const Precision precision{card.types, 16};
      const auto made = source.make(layout, precision);
      if (!made) continue;
      for (const bool prompt : {false, true}) {
        StepShape shape;
        if (prompt) {
          for (int i = 0; i < 8; ++i) shape.add(0, 2048, true);
        } else {
          for (int i = 0; i < 64; ++i) shape.add(4095, 4096, true);
        }
        const auto parts = (*made)->parts(shape);
        double flops = 0, bytes = 0;
        for (const auto& one : operators_of(card, shape, {.layout = layout, .types = card.types})) {
          flops += one.repeats * one.flops;
          // Activations between the operators of a layer: fused away by kernels or not, the closed form has the stream.
          bytes += one.repeats * (one.weight_bytes + one.kv_bytes);
        }
        const double closed_bytes = parts.memory_s * 0.8e9 * hardware.bandwidth_gbs;
        const double stream = 4.0 * 8 * 2048 * card.spec.hidden * card.spec.layers;
        EXPECT_LT(bytes, 1.1 * closed_bytes) << model << layout.name() << prompt;
        EXPECT_GT(bytes, 0.9 * closed_bytes - (prompt ? stream : 0)) << model << layout.name() << prompt;
        const double least = flops / (0.7e12 * std::max(hardware.peak_tflops(4), hardware.peak_tflops(8))),
                     most = flops / (0.6e12 * hardware.bf16_tflops);
        EXPECT_GT(parts.compute_s, 0.9 * least) << model << layout.name() << prompt;
        EXPECT_LT(parts.compute_s, 1.1 * most) << model << layout.name() << prompt;
      }
    }
  }
}

TEST(CardInstance, OfAGpuTakesWhatTheFittedStepDoesAndTheLinksThatItDoesNotKnow) {
  const auto subject = read("Llama-3.1-70B", "H100-SXM");
  const CardSource source(subject.card, subject.hardware, "vllm");
  StepShape shape;
  for (int i = 0; i < 32; ++i) shape.add(2000, 2001, true);
  shape.add(0, 512, false);
  for (const ParallelLayout& layout :
       {ParallelLayout{.tp = 8}, ParallelLayout{.tp = 4, .pp = 4}, ParallelLayout{.tp = 2, .cp = 2}}) {
    const auto made = source.make(layout, {subject.card.types, 16});
    ASSERT_TRUE(made) << made.error().message;
    const auto fitted = make_step_model(subject.card, subject.hardware, layout, subject.card.types, 16, "vllm");
    ASSERT_TRUE(fitted);
    const double step_s = (*made)->step_s(shape), fit_s = (*fitted)->step_s(shape);
    if (layout.pp * layout.cp == 1) {
      EXPECT_EQ(step_s, fit_s);
    } else {
      EXPECT_GT(step_s, fit_s) << layout.name();
    }
    // What it waits for is told in the proportions of the closed form, and adds up to no less than the pass.
    const auto parts = (*made)->parts(shape);
    EXPECT_GE(parts.memory_s + parts.compute_s + parts.links_s + parts.fixed_s, step_s * (1 - 1e-9)) << layout.name();
    EXPECT_LT(std::max(parts.memory_s, parts.compute_s), step_s) << layout.name();
  }
}

TEST(CardInstance, BackendsThatWereNotMeasuredAreRefusedByName) {
  const auto subject = read("Llama-3.1-8B", "H100-SXM");
  auto wish = options(1, 512, 512);
  wish.backend = "nosuch";
  const auto plan = plan_parallel(subject.card, subject.hardware, wish);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().param, "backend");
  EXPECT_NE(plan.error().message.find("trtllm, vllm"), std::string::npos) << plan.error().message;
  wish.backend = "vllm";
  const auto cpu = read("Llama-3.1-8B", "Xeon-8592+");
  EXPECT_EQ(plan_parallel(cpu.card, cpu.hardware, wish).error().param, "backend");
  wish.backend = "";
  EXPECT_TRUE(plan_parallel(cpu.card, cpu.hardware, wish));
}

TEST(ParallelPlan, MoreBandwidthNeverMakesAnythingSlower) {
  for (const char* model : {"Llama-3.1-8B", "DeepSeek-V3", "gpt-oss-120b"}) {
    auto subject = read(model, "H200-SXM");
    const CardSource before(subject.card, subject.hardware);
    Hardware faster = subject.hardware;
    faster.bandwidth_gbs *= 1.5;
    const CardSource after(subject.card, faster);
    Precision precision{subject.card.types, 16};
    for (const auto& layout : candidate_layouts(16, 8, subject.card.spec.has_sparse_layers())) {
      const auto slow = before.make(layout, precision), fast = after.make(layout, precision);
      ASSERT_EQ(slow.has_value(), fast.has_value());
      if (!slow) continue;
      for (const std::int64_t batch : {1, 16, 256}) {
        StepShape shape;
        for (std::int64_t i = 0; i < batch; ++i) shape.add(3000, 3001, true);
        EXPECT_LE((*fast)->step_s(shape), (*slow)->step_s(shape)) << model << " " << layout.name();
        const double decode_s = (*slow)->step_s(shape);
        shape.add(0, 2048, true);
        EXPECT_GE((*slow)->step_s(shape), decode_s) << model << " " << layout.name();
      }
    }
  }
}

TEST(ParallelPlan, WhatDoesNotFitSaysWhichTermAndBothNumbers) {
  const auto subject = read("Llama-3.3-70B", "H100-SXM");
  auto wish = options(1, 1024, 1024);
  wish.weights = {"bf16"};
  const auto plan = plan_parallel(subject.card, subject.hardware, wish);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(plan.error().message.find("weights of 141.1 GB on a device with 77.3 GB usable"), std::string::npos)
      << plan.error().message;
  wish = options(1, 100000, 1000);
  wish.kv_bits = {16};
  const auto kv = plan_parallel(subject.card, subject.hardware, wish);
  ASSERT_FALSE(kv);
  EXPECT_NE(kv.error().message.find("KV of 33.1 GB for 1 sequence of 101000 tokens"), std::string::npos)
      << kv.error().message;
}

TEST(ParallelPlan, MoreThanTheModelsContextIsRefused) {
  const auto subject = read("Llama-3.3-70B", "H100-SXM");
  const auto plan = plan_parallel(subject.card, subject.hardware, options(8, 200000, 1024));
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::kContextLengthExceeded);
}

TEST(ParallelPlan, MixturesSpreadTheirExperts) {
  const auto subject = read("DeepSeek-V3", "H200-SXM");
  auto wish = options(16, 1024, 1024);
  wish.weights = {};
  const auto plan = plan_parallel(subject.card, subject.hardware, wish);
  ASSERT_TRUE(plan) << plan.error().message;
  // One latent of all heads: TP repeats it on every device, so groups of their own hold more sequences.
  double tp8 = 0, dp8 = 0;
  for (const auto& point : plan->report.json["best"]) {
    if (point["disaggregated"]) continue;
    const auto& layout = point["serving"]["layout"];
    if (layout["devices"] != 8 || layout["pp"] != 1 || layout["cp"] != 1) continue;
    double& most = layout["tp"] == 8 ? tp8 : layout["dp"] == 8 ? dp8 : tp8;
    if (layout["tp"] == 8 || layout["dp"] == 8) most = std::max(most, point["tokens_per_s_device"].get<double>());
  }
  EXPECT_GT(tp8, 0);
  EXPECT_GT(dp8, 1.2 * tp8);
}

TEST(ParallelPlan, TheSamePlanIsTheSameBytes) {
  const auto subject = read("Qwen3-30B-A3B", "H100-SXM");
  const auto one = plan_parallel(subject.card, subject.hardware, options(8, 4096, 512));
  const auto two = plan_parallel(subject.card, subject.hardware, options(8, 4096, 512));
  ASSERT_TRUE(one && two);
  EXPECT_EQ(one->report.json.dump(), two->report.json.dump());
  EXPECT_EQ(one->report.text, two->report.text);
  EXPECT_EQ(one->svg, two->svg);
  EXPECT_TRUE(one->svg.starts_with("<svg"));
}

TEST(ParallelPlan, NamesOfFilesBecomeNoMarkup) {
  auto subject = read("Llama-3.1-8B", "H100-SXM");
  subject.card.name = "<script>alert(1)</script>&\"\x1b[2J";
  const auto plan = plan_parallel(subject.card, subject.hardware, options(1, 512, 512));
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->svg.find("<script"), std::string::npos);
  EXPECT_NE(plan->svg.find("&lt;script&gt;"), std::string::npos);
  EXPECT_EQ(plan->report.text.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace weir::plan
