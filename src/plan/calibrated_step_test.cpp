#include "plan/calibrated_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/rng.h"

namespace weir::plan {
namespace {

// Steps as serving makes them: some sequences decode, some prompts are read, drawn from `seed`.
std::vector<StepShape> shapes(std::size_t count, std::uint64_t seed) {
  std::vector<StepShape> out;
  std::uint64_t drawn = 0;
  const auto below = [&](double most) { return static_cast<std::int64_t>(uniform(seed, drawn++) * most); };
  while (out.size() < count) {
    StepShape shape;
    const auto decodes = static_cast<std::int64_t>(std::exp(uniform(seed, drawn++) * std::log(40.0))) - 1;
    for (std::int64_t i = 0; i < decodes; ++i) {
      const auto at = 1 + below(1000);
      shape.add(at, at + 1, true);
    }
    if (below(3) == 0 || decodes == 0) {
      const auto begin = below(2) * below(500);
      shape.add(begin, begin + 2 + below(450), below(2) == 0);
    }
    out.push_back(shape);
  }
  return out;
}

CalibratedStep truth() {
  StepCoefficients c;
  c.rows_s = {{1, 8, 32, 512}, {4e-3, 9e-3, 14e-3, 300e-3}};
  c.samples_s = {{0, 48}, {0, 5e-3}};
  c.sequence_s = 20e-6;
  c.prefill_pair_s = 30e-9;
  c.decode_pair_s = 60e-9;
  return CalibratedStep(c);
}

std::vector<StepSample> measured(const std::vector<StepShape>& of, double noise, std::uint64_t seed) {
  std::vector<StepSample> out;
  for (std::size_t i = 0; i < of.size(); ++i)
    out.push_back({of[i], truth().step_s(of[i]) * (1 + noise * (2 * uniform(seed, i) - 1))});
  return out;
}

double worst_error(const StepModel& model, const std::vector<StepShape>& of) {
  double worst = 0;
  for (const StepShape& shape : of) worst = std::max(worst, std::abs(model.step_s(shape) / truth().step_s(shape) - 1));
  return worst;
}

TEST(FitSteps, finds_the_coefficients_that_steps_were_made_with) {
  const auto fitted = fit_steps(measured(shapes(3000, 1), 0, 2));
  ASSERT_TRUE(fitted) << fitted.error().message;
  EXPECT_LT(worst_error(*fitted, shapes(500, 9)), 0.02);
  EXPECT_NEAR(fitted->coefficients().decode_pair_s, 60e-9, 6e-9);
  EXPECT_NEAR(fitted->coefficients().prefill_pair_s, 30e-9, 3e-9);
}

TEST(FitSteps, stands_noise_and_steps_that_were_interrupted) {
  auto samples = measured(shapes(3000, 1), 0.05, 2);
  // The machine did something else, once for as long as this is not counted.
  for (std::size_t i = 0; i < samples.size(); i += 20) samples[i].seconds *= 3;
  samples[7].seconds = 1000;
  const auto fitted = fit_steps(samples);
  ASSERT_TRUE(fitted);
  // One step in 20 takes three times as long: a tenth more over all, which is in the mean.
  EXPECT_LT(worst_error(*fitted, shapes(500, 9)), 0.2);
  EXPECT_GE(fitted->quality.dropped, 140);
  EXPECT_LE(fitted->quality.dropped, 300);
  EXPECT_LT(fitted->quality.median_error, 0.04);
}

TEST(FitSteps, has_no_negative_coefficient_whatever_was_measured) {
  std::vector<StepSample> samples;
  const auto of = shapes(400, 3);
  for (std::size_t i = 0; i < of.size(); ++i) samples.push_back({of[i], 1e-3 + 0.1 * uniform(4, i)});
  const auto fitted = fit_steps(samples);
  ASSERT_TRUE(fitted);
  const auto& c = fitted->coefficients();
  for (const double v : c.rows_s.value) EXPECT_GE(v, 0);
  for (const double v : c.samples_s.value) EXPECT_GE(v, 0);
  EXPECT_GE(std::min({c.sequence_s, c.prefill_pair_s, c.decode_pair_s}), 0);
}

TEST(FitSteps, refuses_what_cannot_be_fitted) {
  EXPECT_FALSE(fit_steps({}));
  EXPECT_FALSE(fit_steps(measured(shapes(5, 1), 0, 1)));
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    auto samples = measured(shapes(100, 1), 0, 1);
    samples[50].seconds = bad;
    EXPECT_FALSE(fit_steps(samples)) << bad;
  }
}

TEST(FitSteps, of_one_shape_only_gives_its_time) {
  StepShape shape;
  shape.add(10, 11, true);
  const std::vector<StepSample> same(50, {shape, 0.004});
  const auto fitted = fit_steps(same);
  ASSERT_TRUE(fitted);
  EXPECT_NEAR(fitted->step_s(shape), 0.004, 1e-6);
}

TEST(NonNegativeLeastSquares, agrees_with_the_solution_on_the_boundary) {
  // min (x0 + x1 - 1)^2 + (x0 - x1 - 3)^2: without bounds x = (2, -1); with them x1 = 0 and x0 = 2.
  const auto x = non_negative_least_squares({2, 0, 0, 2}, {4, -2});
  EXPECT_NEAR(x[0], 2, 1e-9);
  EXPECT_EQ(x[1], 0);
  // Columns that say the same, and one that says nothing.
  const auto twins = non_negative_least_squares({1, 1, 0, 1, 1, 0, 0, 0, 0}, {3, 3, 0});
  EXPECT_NEAR(twins[0] + twins[1], 3, 1e-6);
  EXPECT_EQ(twins[2], 0);
}

TEST(NonNegativeLeastSquares, meets_the_conditions_of_a_minimum) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    constexpr std::size_t kRows = 30, kColumns = 8;
    double a[kRows][kColumns], b[kRows];
    std::uint64_t drawn = 0;
    for (auto& row : a)
      for (double& v : row) v = uniform(seed, drawn++) - 0.4;
    for (double& v : b) v = uniform(seed, drawn++) - 0.5;
    std::vector<double> gram(kColumns * kColumns), moment(kColumns);
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t i = 0; i < kColumns; ++i) {
        moment[i] += a[r][i] * b[r];
        for (std::size_t j = 0; j < kColumns; ++j) gram[i * kColumns + j] += a[r][i] * a[r][j];
      }
    }
    const auto x = non_negative_least_squares(gram, moment);
    for (std::size_t i = 0; i < kColumns; ++i) {
      double slope = moment[i];  // of the error, downwards
      for (std::size_t j = 0; j < kColumns; ++j) slope -= gram[i * kColumns + j] * x[j];
      ASSERT_GE(x[i], 0);
      ASSERT_LE(slope, 1e-6) << seed;
      ASSERT_LE(std::abs(slope) * std::min(x[i], 1.0), 1e-6) << seed;
    }
  }
}

TEST(CalibratedStep, grows_with_the_slowdown_and_beyond_its_last_knot) {
  CalibratedStep model = truth();
  StepShape shape;
  shape.add(0, 1024, true);
  const double once = model.step_s(shape);
  EXPECT_GT(once, 0.6);
  model.set_slowdown(1.5);
  EXPECT_DOUBLE_EQ(model.step_s(shape), 1.5 * once);
}

TEST(StepModelFile, says_the_same_after_a_round_trip) {
  CalibratedStep model = truth();
  model.overheads = {1e-4, 2e-6, 3e-5};
  model.model = "tiny";
  model.max_rows = 512;
  model.reference_s = 1.25;
  const auto again = CalibratedStep::from_json(nlohmann::json::parse(model.to_json().dump()));
  ASSERT_TRUE(again) << again.error().message;
  for (const StepShape& shape : shapes(50, 4)) EXPECT_DOUBLE_EQ(again->step_s(shape), model.step_s(shape));
  EXPECT_EQ(again->overheads.output_s, 3e-5);
  EXPECT_EQ(again->max_rows, 512);
  EXPECT_EQ(again->model, "tiny");
}

TEST(StepModelFile, that_is_none_names_the_field) {
  const auto good = nlohmann::json::parse(truth().to_json().dump());
  const auto broken = [&](const char* pointer, nlohmann::json value) {
    auto json = good;
    json[nlohmann::json::json_pointer(pointer)] = std::move(value);
    const auto read = CalibratedStep::from_json(json);
    EXPECT_FALSE(read) << pointer;
    return read ? std::string() : read.error().message;
  };
  EXPECT_NE(broken("/format", "x").find("format"), std::string::npos);
  EXPECT_NE(broken("/step", 5).find("step"), std::string::npos);
  EXPECT_NE(broken("/step/rows_s", nlohmann::json::array()).find("rows_s"), std::string::npos);
  EXPECT_NE(broken("/step/rows_s", {{1, 2}, {1, 3}}).find("ascend"), std::string::npos);
  EXPECT_NE(broken("/step/rows_s", {{1, -2}}).find("rows_s"), std::string::npos);
  EXPECT_NE(broken("/step/rows_s", {{1, 2, 3}}).find("rows_s"), std::string::npos);
  EXPECT_NE(broken("/step/samples_s", "x").find("samples_s"), std::string::npos);
  EXPECT_NE(broken("/step/decode_pair_s", 1e300).find("decode_pair_s"), std::string::npos);
  EXPECT_NE(broken("/step/sequence_s", nullptr).find("sequence_s"), std::string::npos);
  EXPECT_NE(broken("/overheads", 3).find("overheads"), std::string::npos);
  EXPECT_NE(broken("/overheads/output_s", "1").find("output_s"), std::string::npos);
  EXPECT_NE(broken("/model", std::string(5000, 'x')).find("model"), std::string::npos);
  nlohmann::json many = nlohmann::json::array();
  for (int i = 0; i < 1000; ++i) many.push_back({i, 1});
  EXPECT_NE(broken("/step/rows_s", many).find("1000 points"), std::string::npos);
}

TEST(StepModelFile, hostile_bytes_are_refused) {
  const std::string path = ::testing::TempDir() + "calibrated_step_test";
  for (const std::string& bytes : {std::string(), std::string("null"), std::string("{"), std::string(200'000, '['),
                                   std::string(2 << 20, ' '), std::string("\xff\x00\x01", 3)}) {
    std::ofstream(path, std::ios::binary) << bytes;
    const auto read = CalibratedStep::read(path);
    ASSERT_FALSE(read);
    EXPECT_NE(read.error().message.find("calibrated_step_test"), std::string::npos);
  }
  std::remove(path.c_str());
  EXPECT_FALSE(CalibratedStep::read(path));
}

}  // namespace
}  // namespace weir::plan
