#include "backend/cpu/ops/delta.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace weir::backend::cpu {
namespace {

constexpr int kKeyHeads = 2, kValueHeads = 4, kKeyDim = 6, kValueDim = 5, kTaps = 4;
constexpr int kChannels = 2 * kKeyHeads * kKeyDim + kValueHeads * kValueDim, kOut = kValueHeads * kValueDim;
constexpr std::int64_t kStateFloats = kValueHeads * kKeyDim * kValueDim + (kTaps - 1) * kChannels;

struct Weights {
  std::vector<float> taps, decay, dt;
  explicit Weights(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (int i = 0; i < kChannels * kTaps; ++i) taps.push_back(normal(random));
    for (int i = 0; i < kValueHeads; ++i) {
      decay.push_back(-std::exp(normal(random)));
      dt.push_back(normal(random));
    }
  }
};

struct Sequence {
  std::vector<float> inputs, beta, alpha;
  int length;
  Sequence(int length, unsigned seed) : length(length) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const auto fill = [&](std::vector<float>& x, int width) {
      for (int i = 0; i < length * width; ++i) x.push_back(normal(random));
    };
    fill(inputs, kChannels);
    fill(beta, kValueHeads);
    fill(alpha, kValueHeads);
  }
};

// The definition in double precision, over the whole sequence.
std::vector<double> expected(const Sequence& s, const Weights& w) {
  std::vector<double> out;
  std::vector<double> state(kValueHeads * kKeyDim * kValueDim, 0.0);
  for (int t = 0; t < s.length; ++t) {
    std::vector<double> x(kChannels, 0.0);
    for (int c = 0; c < kChannels; ++c) {
      auto& y = x[static_cast<std::size_t>(c)];
      for (int tap = 0; tap < kTaps; ++tap) {
        const int from = t - (kTaps - 1) + tap;
        if (from >= 0) {
          y += double{w.taps[static_cast<std::size_t>(c * kTaps + tap)]} *
               s.inputs[static_cast<std::size_t>(from * kChannels + c)];
        }
      }
      y = y / (1 + std::exp(-y));
    }
    const auto unit = [&](std::size_t begin, double scale) {
      std::vector<double> v(x.begin() + static_cast<std::ptrdiff_t>(begin),
                            x.begin() + static_cast<std::ptrdiff_t>(begin) + kKeyDim);
      double sum = 1e-6;
      for (const double e : v) sum += e * e;
      for (double& e : v) e *= scale / std::sqrt(sum);
      return v;
    };
    for (std::size_t h = 0; h < kValueHeads; ++h) {
      const std::size_t key_head = h / (kValueHeads / kKeyHeads), row = static_cast<std::size_t>(t) * kValueHeads + h;
      const auto q = unit(key_head * kKeyDim, 1 / std::sqrt(double{kKeyDim}));
      const auto k = unit((kKeyHeads + key_head) * kKeyDim, 1.0);
      const double* v = x.data() + 2 * kKeyHeads * kKeyDim + h * kValueDim;
      const double decay = std::exp(w.decay[h] * std::log1p(std::exp(double{s.alpha[row]} + w.dt[h])));
      const double beta = 1 / (1 + std::exp(-double{s.beta[row]}));
      double* m = state.data() + h * kKeyDim * kValueDim;
      for (std::size_t j = 0; j < kValueDim; ++j) {
        double memory = 0, result = 0;
        for (std::size_t i = 0; i < kKeyDim; ++i) memory += (m[i * kValueDim + j] *= decay) * k[i];
        const double change = (v[j] - memory) * beta;
        for (std::size_t i = 0; i < kKeyDim; ++i) result += (m[i * kValueDim + j] += k[i] * change) * q[i];
        out.push_back(result);
      }
    }
  }
  return out;
}

// Computes sequences side by side, `chunk` tokens of each at a time, with state in scattered blocks of odd sizes full
// of NaN. `first_layer`: another layer's state comes before.
std::vector<std::vector<float>> run(const std::vector<Sequence>& sequences, const Weights& w, Isa isa, int threads,
                                    int chunk, std::int64_t block_floats) {
  ThreadPool pool(threads);
  DeltaScratch scratch;
  const std::int64_t offset = 3, blocks = (kStateFloats + offset + block_floats - 1) / block_floats;
  std::vector<float> memory(sequences.size() * static_cast<std::size_t>(blocks * block_floats), std::nanf(""));
  std::vector<std::int32_t> tables;
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    for (std::int64_t b = 0; b < blocks; ++b)
      tables.push_back(static_cast<std::int32_t>(static_cast<std::int64_t>(sequences.size()) * (blocks - 1 - b)) +
                       static_cast<std::int32_t>(s));
  }
  std::vector<std::vector<float>> out(sequences.size());
  int longest = 0;
  for (const Sequence& s : sequences) longest = std::max(longest, s.length);
  for (int begin = 0; begin < longest; begin += chunk) {
    std::vector<float> inputs, beta, alpha;
    std::vector<std::int32_t> starts = {0}, lengths;
    for (const Sequence& s : sequences) {
      const int from = std::min(begin, s.length), to = std::min(begin + chunk, s.length);
      const auto take = [&](std::vector<float>& all, const std::vector<float>& part, int width) {
        all.insert(all.end(), part.begin() + from * width, part.begin() + to * width);
      };
      take(inputs, s.inputs, kChannels);
      take(beta, s.beta, kValueHeads);
      take(alpha, s.alpha, kValueHeads);
      starts.push_back(starts.back() + to - from);
      lengths.push_back(to);
    }
    std::vector<float> made(static_cast<std::size_t>(starts.back() * kOut));
    delta_net(pool, isa,
              {.inputs = {inputs.data(), starts.back(), kChannels},
               .beta = {beta.data(), starts.back(), kValueHeads},
               .alpha = {alpha.data(), starts.back(), kValueHeads},
               .taps = w.taps.data(),
               .decay = w.decay.data(),
               .dt = w.dt.data(),
               .key_heads = kKeyHeads,
               .value_heads = kValueHeads,
               .key_dim = kKeyDim,
               .value_dim = kValueDim,
               .tap_count = kTaps,
               .query_starts = starts,
               .seq_lens = lengths,
               .state = {.base = reinterpret_cast<std::byte*>(memory.data()),
                         .block_bytes = block_floats * 4,
                         .tables = {tables.data(), static_cast<std::int64_t>(sequences.size()), blocks},
                         .offset = offset * 4},
               .out = {made.data(), starts.back(), kOut}},
              scratch);
    for (std::size_t s = 0; s < sequences.size(); ++s)
      out[s].insert(out[s].end(), made.begin() + starts[s] * kOut, made.begin() + starts[s + 1] * kOut);
  }
  return out;
}

class DeltaTest : public testing::TestWithParam<Isa> {
 protected:
  void SetUp() override {
    if (!supported(GetParam())) GTEST_SKIP() << "this CPU has no such instructions";
  }
};

TEST_P(DeltaTest, AgreesWithTheDefinition) {
  const Weights w(1);
  const std::vector<Sequence> sequences = {{1, 2}, {40, 3}, {3, 4}};
  const auto out = run(sequences, w, GetParam(), 2, 100, 50);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const auto want = expected(sequences[s], w);
    ASSERT_EQ(out[s].size(), want.size());
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(out[s][i], want[i], 2e-5) << s << ' ' << i;
  }
}

// Every cut, blocks smaller and larger than a head's matrix, any number of threads, neighbours that end early.
TEST_P(DeltaTest, BitsDoNotDependOnChunksBlocksThreadsOrNeighbours) {
  const Weights w(5);
  const Sequence subject(30, 6);
  const auto want = run({subject}, w, GetParam(), 1, 30, 1000).front();
  for (const int chunk : {1, 2, 3, 7, 29}) {
    for (const std::int64_t block : {7, 64, 4096}) {
      const auto got = run({{2, 7}, subject, {11, 8}}, w, GetParam(), 1 + chunk % 3, chunk, block);
      EXPECT_EQ(got[1], want) << chunk << ' ' << block;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryIsa, DeltaTest, testing::Values(Isa::kScalar, Isa::kAvx2, Isa::kAvx512),
                         [](const auto& info) { return std::string(name(info.param)); });

}  // namespace
}  // namespace weir::backend::cpu
