// The search against brute force over its own grid, on toy models whose passes are worked out by hand.
#include "plan/search/search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "base/rng.h"
#include "plan/search/front.h"
#include "plan/search/search_space.h"
#include "plan/search/search_testing.h"

namespace weir::plan {
namespace {

struct Rng {
  std::uint64_t seed, drawn = 0;
  explicit Rng(std::uint64_t s) : seed(s) {}
  double uniform() { return weir::uniform(seed, drawn++); }
};

struct Rates {
  double user, device, ttft_ms;
};

bool holds(const SearchRequest& request, const Rates& rates) {
  return (!request.tpot_ms || 1e3 / rates.user <= *request.tpot_ms) &&
         (!request.ttft_ms || rates.ttft_ms <= *request.ttft_ms);
}

// Every combination, no bound, no shortcut.
std::vector<Rates> brute_force(const InstanceSource& source, const SearchRequest& request) {
  std::vector<Rates> all;
  const SearchWorkload& work = request.workload;
  const auto add = [&](const Rates& rates) {
    if (holds(request, rates)) all.push_back(rates);
  };
  struct Made {
    ParallelLayout layout;
    std::unique_ptr<InstanceModel> model;
    std::size_t precision;
  };
  std::vector<Made> models;
  for (std::size_t p = 0; p < request.precisions.size(); ++p) {
    for (const auto& layout : request.layouts) {
      auto made = source.make(layout, request.precisions[p]);
      if (made && layout.devices() <= request.max_devices) models.push_back({layout, std::move(*made), p});
    }
  }
  const auto batches = [&](const Made& made, int block) {
    std::vector<std::int64_t> fitting;
    const std::int64_t unit = std::int64_t{made.layout.pp} * made.layout.dp;
    const auto kv = kv_of_sequence(*made.model, work, block);
    std::int64_t most = 0;
    while ((most + 1) * unit <= request.max_batch * made.layout.dp &&
           kv_need(kv, made.layout, (most + 1) * unit) <= made.model->memory(0).for_kv())
      ++most;
    for (const auto units : batch_ladder(most)) fitting.push_back(units * unit);
    return fitting;
  };
  for (const auto& made : models) {
    for (const int block : request.block_sizes) {
      for (const auto batch : batches(made, block)) {
        for (const int tokens : request.batch_tokens) {
          const auto state = aggregated_steady_state(*made.model, made.layout, work, batch, tokens, block);
          if (!state || !request.aggregated) continue;
          const double rate =
              static_cast<double>(batch) * work.output_tokens / (work.output_tokens - 1) / state->tpot_s;
          add({1 / state->tpot_s, rate / made.layout.devices(), state->ttft_s * 1e3});
        }
      }
    }
  }
  if (!request.disaggregated) return all;
  for (const auto& maker : models) {
    for (const auto& taker : models) {
      if (maker.precision != taker.precision) continue;
      for (const int tokens : request.batch_tokens) {
        const int block = request.block_sizes[0];
        const auto prompts = prefill_state(*maker.model, maker.layout, work, tokens, block);
        if (prompts.prompts / maker.layout.dp * maker.layout.pp * maker.model->kv_bytes(work.input_tokens, block) >
            maker.model->memory(0).for_kv())
          continue;
        for (const auto batch : batches(taker, block)) {
          const double tpot_s = decode_steady_state(*taker.model, taker.layout, work, batch).tpot_s;
          for (int x = 1; x <= request.max_devices; ++x) {
            for (int y = 1; x * maker.layout.devices() + y * taker.layout.devices() <= request.max_devices; ++y) {
              const int from = x * maker.layout.devices(), to = y * taker.layout.devices();
              const double gbs =
                  from + to <= request.links.domain ? request.links.domain_gbs : request.links.network_gbs;
              const double bytes = taker.model->handover_bytes(work.input_tokens);
              const double links = 1e9 * gbs * std::min(from, to) / bytes;
              const double one_s = bytes / (1e9 * gbs * std::min(maker.layout.devices(), taker.layout.devices()));
              const double rate = std::min({x * 0.95 * prompts.requests_s, links,
                                            y * static_cast<double>(batch) / (work.output_tokens - 1) / tpot_s});
              const double ttft_s = prompts.service_s +
                                    queue_wait(rate / (x * prompts.requests_s), prompts.service_s, x) +
                                    std::max(one_s / request.layers, one_s - prompts.service_s) + tpot_s;
              add({1 / tpot_s, rate * work.output_tokens / (from + to), ttft_s * 1e3});
            }
          }
        }
      }
    }
  }
  return all;
}

double uniform(Rng& rng, double least, double most) {
  return least * std::pow(most / least, rng.uniform());
}

SearchRequest random_request(Rng& rng, ToyNumbers& numbers) {
  numbers.weights = uniform(rng, 5e9, 300e9);
  numbers.parameters = numbers.weights;
  numbers.kv_per_token = uniform(rng, 2e4, 1e6);
  numbers.bandwidth = uniform(rng, 5e11, 8e12);
  numbers.flops = uniform(rng, 1e14, 4e15);
  numbers.link = uniform(rng, 1e10, 1e12);
  numbers.fixed_s = uniform(rng, 1e-6, 1e-2);
  SearchRequest request = toy_request(8);
  request.max_batch = 200;
  request.batch_tokens = {512, 4096};
  request.block_sizes = {16};
  request.precisions = {toy_precision(8, 16), toy_precision(4, 8)};
  request.workload.input_tokens = std::floor(uniform(rng, 16, 20000));
  request.workload.output_tokens = std::floor(uniform(rng, 2, 4000));
  return request;
}

bool covered(const std::vector<SearchPoint>& front, const Rates& rates) {
  // The same sums in another order may differ in their last bits.
  return std::any_of(front.begin(), front.end(), [&](const auto& point) {
    return point.user_tokens_s >= rates.user * (1 - 1e-9) && point.device_tokens_s >= rates.device * (1 - 1e-9);
  });
}

TEST(Search, TheFrontIsThatOfBruteForceWithAndWithoutObjectives) {
  Rng rng(7);
  int found = 0, refused = 0;
  for (int round = 0; round < 60; ++round) {
    ToyNumbers numbers;
    SearchRequest request = random_request(rng, numbers);
    const ToySource source(numbers);
    if (round % 3 == 1) request.tpot_ms = uniform(rng, 1, 100);
    if (round % 3 == 2) request.ttft_ms = uniform(rng, 10, 10000);
    const auto all = brute_force(source, request);
    const auto result = search_deployments(source, request);
    ASSERT_EQ(result.has_value(), !all.empty()) << round << (result ? "" : result.error().message);
    if (!result) {
      ++refused;
      continue;
    }
    ++found;
    // What limits a batch may lie between steps of the ladder, so the search may only know more than brute force.
    for (const auto& rates : all) ASSERT_TRUE(covered(result->front, rates)) << round << " " << rates.user;
    for (std::size_t i = 0; i < result->front.size(); ++i) {
      const auto& point = result->front[i];
      ASSERT_TRUE(holds(request, {point.user_tokens_s, point.device_tokens_s, point.ttft_ms}));
      ASSERT_LE(point.deployment.devices(), request.max_devices);
      ASSERT_LE(point.kv_bytes, point.memory.for_kv());
      if (i == 0) continue;
      ASSERT_LT(point.user_tokens_s, result->front[i - 1].user_tokens_s);
      ASSERT_GT(point.device_tokens_s, result->front[i - 1].device_tokens_s);
    }
    // Without objectives the grids are the same: each point of the front is one of brute force's.
    if (request.tpot_ms || request.ttft_ms) continue;
    for (const auto& point : result->front) {
      // But the largest batch that prompts can keep up with, which is looked for.
      if (point.limit == BatchLimit::kPrefill && !point.deployment.disaggregated) continue;
      ASSERT_TRUE(std::any_of(all.begin(), all.end(), [&](const Rates& rates) {
        return std::abs(rates.user / point.user_tokens_s - 1) < 1e-9 &&
               std::abs(rates.device / point.device_tokens_s - 1) < 1e-9;
      })) << round;
    }
  }
  EXPECT_GT(found, 20);
  EXPECT_GT(refused, 2);
}

TEST(Search, FasterMemoryArithmeticOrLinksNeverMakeAnythingWorse) {
  Rng rng(11);
  for (int round = 0; round < 30; ++round) {
    ToyNumbers numbers;
    SearchRequest request = random_request(rng, numbers);
    const auto before = search_deployments(ToySource(numbers), request);
    if (!before) continue;
    (round % 3 == 0 ? numbers.bandwidth : round % 3 == 1 ? numbers.flops : numbers.link) *= 1.5;
    const auto after = search_deployments(ToySource(numbers), request);
    ASSERT_TRUE(after);
    for (const auto& point : before->front)
      EXPECT_TRUE(covered(after->front, {point.user_tokens_s, point.device_tokens_s, 0})) << round;
  }
}

TEST(Search, TheSameRequestGivesTheSameResult) {
  Rng rng(3);
  ToyNumbers numbers;
  SearchRequest request = random_request(rng, numbers);
  numbers.weights = 50e9;
  const auto one = search_deployments(ToySource(numbers), request);
  const auto two = search_deployments(ToySource(numbers), request);
  ASSERT_TRUE(one && two);
  ASSERT_EQ(one->front.size(), two->front.size());
  EXPECT_EQ(one->evaluated, two->evaluated);
  for (std::size_t i = 0; i < one->front.size(); ++i) {
    EXPECT_EQ(one->front[i].device_tokens_s, two->front[i].device_tokens_s);
    EXPECT_EQ(one->front[i].deployment.serving.layout, two->front[i].deployment.serving.layout);
  }
}

TEST(Search, WhatDoesNotFitIsRefusedByTermWithBothNumbers) {
  ToyNumbers numbers{.weights = 140e9, .workspace = 40e9, .usable = 72e9, .kv_per_token = 3e5};
  SearchRequest request = toy_request(8);
  request.workload = {.input_tokens = 300e3, .output_tokens = 100};
  const auto result = search_deployments(ToySource(numbers), request);
  ASSERT_TRUE(result);  // on eight
  std::set<std::string> terms;
  for (const auto& refusal : result->refusals) {
    terms.insert(refusal.term);
    if (refusal.term == "layout") continue;
    EXPECT_GT(refusal.need, refusal.have) << refusal.layout.name();
    const int devices = refusal.layout.devices();
    const char* expected = devices == 1 ? "weights" : devices <= 4 ? "workspace" : "KV";
    EXPECT_EQ(refusal.term, expected) << refusal.layout.name();
  }
  EXPECT_EQ(terms, (std::set<std::string>{"weights", "workspace", "KV", "layout"}));
}

TEST(Search, IfNothingFitsTheNumberThatIsNearestIsNamed) {
  SearchRequest request = toy_request(2);
  const auto result = search_deployments(ToySource({.weights = 300e9}), request);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(result.error().message.find("weights of 150.0 GB on a device with 72.0 GB usable"), std::string::npos)
      << result.error().message;
}

TEST(Search, AnObjectiveBelowOneStepNamesTheStep) {
  SearchRequest request = toy_request(8);
  request.tpot_ms = 1.0;
  // 70 GB on 8 * 3 TB/s are 2.9 ms.
  const auto tpot = search_deployments(ToySource{}, request);
  ASSERT_FALSE(tpot);
  EXPECT_EQ(tpot.error().param, "tpot_ms");
  EXPECT_NE(tpot.error().message.find("below one step"), std::string::npos) << tpot.error().message;
  EXPECT_NE(tpot.error().message.find("memory 2."), std::string::npos) << tpot.error().message;
  request.tpot_ms.reset();
  request.ttft_ms = 2.0;
  const auto ttft = search_deployments(ToySource{}, request);
  ASSERT_FALSE(ttft);
  EXPECT_EQ(ttft.error().param, "ttft_ms");
}

TEST(Search, ObjectivesThatOnlyGoAloneAreNamedWithWhatTheyCost) {
  SearchRequest request = toy_request(8);
  request.workload = {.input_tokens = 8192, .output_tokens = 64};
  const auto free = search_deployments(ToySource{}, request);
  ASSERT_TRUE(free);
  double least = 1, most = 1e6;
  while (most - least > 1e-3) {
    request.ttft_ms = (least + most) / 2;
    (search_deployments(ToySource{}, request) ? most : least) = *request.ttft_ms;
  }
  request.ttft_ms = most;
  ASSERT_TRUE(search_deployments(ToySource{}, request));
  request.tpot_ms = free->front.front().tpot_ms;
  const auto both = search_deployments(ToySource{}, request);
  ASSERT_FALSE(both);
  EXPECT_NE(both.error().message.find("but not both"), std::string::npos) << both.error().message;
}

TEST(Search, TheLastBatchSaysWhatKeptItFromGrowing) {
  SearchRequest request = toy_request(2);
  request.disaggregated = false;
  const auto free = search_deployments(ToySource{}, request);
  ASSERT_TRUE(free);
  EXPECT_EQ(free->front.back().limit, BatchLimit::kKvCapacity);
  EXPECT_EQ(free->front.front().limit, BatchLimit::kNothing);
  EXPECT_EQ(free->front.front().binds, Resource::kMemoryBandwidth);
  request.tpot_ms = free->front.back().tpot_ms * 0.7;
  const auto bounded = search_deployments(ToySource{}, request);
  ASSERT_TRUE(bounded);
  EXPECT_EQ(bounded->front.back().limit, BatchLimit::kTpot);
  // One more sequence would break it: the batch at the objective is exact, not a step of a ladder.
  const auto& last = bounded->front.back();
  EXPECT_GT(last.tpot_ms, *request.tpot_ms * 0.97);
  request.tpot_ms.reset();
  request.max_batch = 3;
  const auto few = search_deployments(ToySource{}, request);
  ASSERT_TRUE(few);
  EXPECT_EQ(few->front.back().limit, BatchLimit::kMaxBatch);
}

TEST(Search, CostIsPriceOverTokens) {
  const auto result = search_deployments(ToySource{}, toy_request(8));
  ASSERT_TRUE(result);
  for (const auto& point : result->front) {
    EXPECT_NEAR(point.cost_output, 3.0 / 3600 * 1e6 / point.device_tokens_s, 1e-9 * point.cost_output);
    EXPECT_NEAR(point.cost_all, point.cost_output / 2, 1e-9 * point.cost_output);  // as many tokens in as out
  }
}

TEST(Search, NumbersOutOfRangeAreRefusedByName) {
  const auto refused = [](auto&& change, const char* name) {
    SearchRequest request = toy_request(8);
    change(request);
    const auto result = search_deployments(ToySource{}, request);
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(result.error().param, name);
  };
  refused([](auto& r) { r.workload.input_tokens = 0; }, "input");
  refused([](auto& r) { r.workload.input_tokens = std::nan(""); }, "input");
  refused([](auto& r) { r.workload.output_tokens = 1; }, "output");
  refused([](auto& r) { r.workload.cached_fraction = 1.5; }, "cached");
  refused([](auto& r) { r.max_devices = 1 << 20; }, "devices");
  refused([](auto& r) { r.batch_tokens = {0}; }, "batch_tokens");
  refused([](auto& r) { r.tpot_ms = -1; }, "tpot_ms");
  refused([](auto& r) { r.price_per_device_hour = std::numeric_limits<double>::infinity(); }, "price");
}

TEST(SteadyState, OnePassAfterTheOtherGivesWhatTheFormulaSays) {
  // Passes simulated one by one: a prompt's chunk whenever one is due, else decoding only.
  const ToyModel model({}, {.tp = 8}, toy_precision());
  const ParallelLayout layout{.tp = 8};
  const SearchWorkload work{.input_tokens = 4096, .output_tokens = 512};
  const std::int64_t batch = 64;
  const auto state = aggregated_steady_state(model, layout, work, batch, 2048, 16);
  ASSERT_TRUE(state);
  double time_s = 0, owed = 0;
  const int passes = 100000;
  for (int pass = 0; pass < passes; ++pass) {
    StepShape shape = state->decode;
    owed += static_cast<double>(batch) * work.input_tokens / (work.output_tokens - 1);
    const double chunk = 4096.0 / 3;  // room for 1984
    if (owed >= chunk) {
      owed -= chunk;
      shape.tokens += std::llround(chunk);
      shape.sequences += 1;
      const double end = chunk * (1 + pass % 3);
      shape.attended += chunk * (end - chunk / 2);
      shape.context_read += end;
    }
    time_s += model.step_s(shape);
  }
  EXPECT_NEAR(state->tpot_s, time_s / passes, 0.005 * state->tpot_s);
}

TEST(SteadyState, AllPassesOfAPipelineGoAtThePaceOfTheSlowest) {
  // A ring of stages and as many passes, each of which brings its own time to every stage, moved one by one.
  const int stages = 4;
  const ParallelLayout layout{.pp = stages};
  const ToyModel model({.fixed_s = 0}, layout, toy_precision());
  const SearchWorkload work{.input_tokens = 512, .output_tokens = 512};
  const std::int64_t batch = 64 * stages;
  const auto state = aggregated_steady_state(model, layout, work, batch, 2048, 16);
  ASSERT_TRUE(state);
  StepShape mixed = state->decode;
  mixed.add(0, 512, true);
  const double plain_s = model.step_s(state->decode) / stages, mixed_s = model.step_s(mixed) / stages;
  const double share = 64.0 * 512 / 511 / 512;  // of passes that carry a prompt
  std::vector<double> stage_free(stages, 0.0), pass_free(stages, 0.0);
  const int rounds = 20000;
  for (int round = 0; round < rounds; ++round) {
    for (int pass = 0; pass < stages; ++pass) {
      const bool prompt = weir::uniform(std::uint64_t{1}, static_cast<std::uint64_t>(round * stages + pass)) < share;
      double time_s = pass_free[static_cast<std::size_t>(pass)];
      for (auto& free : stage_free) {
        time_s = std::max(time_s, free) + (prompt ? mixed_s : plain_s);
        free = time_s;
      }
      pass_free[static_cast<std::size_t>(pass)] = time_s;
    }
  }
  const double measured_s = pass_free[0] / rounds;
  EXPECT_NEAR(state->tpot_s, measured_s, 0.05 * measured_s);
  // As if there were no bubbles it would be much less.
  EXPECT_LT(stages * ((1 - share) * plain_s + share * mixed_s), 0.85 * measured_s);
}

TEST(SteadyState, CachedPromptsAreComputedFromTheLastWholeBlock) {
  const SearchWorkload work{.input_tokens = 1000, .output_tokens = 10, .cached_fraction = 0.5};
  EXPECT_EQ(work.computed_tokens(16), 1000 - 496);
  EXPECT_EQ(work.computed_tokens(256), 1000 - 256);
  const SearchWorkload all{.input_tokens = 1024, .output_tokens = 10, .cached_fraction = 1.0};
  EXPECT_EQ(all.computed_tokens(16), 1);
}

TEST(Layouts, AreDifferentAndWithinTheirLimits) {
  const auto layouts = candidate_layouts(64, 8, true);
  std::set<std::string> names;
  for (const auto& layout : layouts) {
    EXPECT_TRUE(names.insert(layout.name()).second) << layout.name();
    EXPECT_LE(layout.devices(), 64);
    EXPECT_LE(layout.tp * layout.cp, 8);
    EXPECT_EQ(layout.stage_devices() % layout.ep, 0);
  }
  EXPECT_TRUE(names.contains("TP1 DP64 EP64"));
  EXPECT_TRUE(names.contains("TP8 PP8"));
  for (const auto& layout : candidate_layouts(8, 8, false)) EXPECT_EQ(layout.dp * layout.ep, 1);
  EXPECT_EQ(candidate_layouts(1024, 72, true, 100).size(), 100u);
}

TEST(Front, CoversWhatItHasAndLess) {
  Rng rng(5);
  for (int round = 0; round < 100; ++round) {
    Front front;
    std::vector<std::pair<double, double>> all;
    for (int i = 0; i < 50; ++i) {
      const auto pair = std::pair(std::floor(rng.uniform() * 10), std::floor(rng.uniform() * 10));
      const bool known = std::any_of(all.begin(), all.end(), [&](const auto& other) {
        return other.first >= pair.first && other.second >= pair.second;
      });
      ASSERT_EQ(front.covers(pair.first, pair.second), known);
      front.add(pair.first, pair.second);
      all.push_back(pair);
    }
  }
}

}  // namespace
}  // namespace weir::plan
