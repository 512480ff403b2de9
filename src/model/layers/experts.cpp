#include "model/layers/experts.h"

namespace weir::model {
namespace {

backend::RouteCall route_of(const load::RouterSpec& router) {
  using Scores = load::RouterSpec::Scores;
  backend::RouteCall call;
  call.scores = router.scores == Scores::kSoftmax   ? backend::RouteCall::Scores::kSoftmax
                : router.scores == Scores::kSigmoid ? backend::RouteCall::Scores::kSigmoid
                                                    : backend::RouteCall::Scores::kSoftmaxOfChosen;
  call.groups = router.groups;
  call.groups_used = router.groups_used;
  call.group_by_two = router.group_score == load::RouterSpec::GroupScore::kBestTwo;
  call.normalise = router.normalise;
  call.sum_floor = router.sum_floor;
  call.scale = router.scale;
  return call;
}

}  // namespace

Result<Experts::Projection> Experts::load_projection(Loader& loader, int layer, std::string_view name) {
  const load::ExpertsSpec& spec = loader.spec().experts;
  Projection projection;
  std::vector<float> biases;
  for (int e = 0; e < spec.count; ++e) {
    const std::string stem = fmt::format("blk.{}.ffn_{}.{}.", layer, name, e);
    WEIR_TRY(auto weight, loader.linear(stem + "weight"));
    projection.pointers.push_back(weight.get());
    projection.weights.push_back(std::move(weight));
    if (!spec.biases) continue;
    WEIR_TRY(const std::vector<float> bias, loader.values(stem + "bias"));
    biases.insert(biases.end(), bias.begin(), bias.end());
  }
  if (spec.biases) projection.bias = loader.upload(biases);
  return projection;
}

Result<Experts> Experts::load(Loader& loader, int layer) {
  const std::string prefix = fmt::format("blk.{}.", layer);
  const load::ExpertsSpec& spec = loader.spec().experts;
  Experts e;
  e.spec_ = &loader.spec();
  WEIR_TRY(e.router_, loader.linear(prefix + "ffn_gate_inp.weight"));
  if (spec.router.bias) {
    WEIR_TRY(e.router_bias_, loader.vector(prefix + "ffn_gate_inp.bias"));
  }
  if (spec.router.correction) {
    WEIR_TRY(e.correction_, loader.vector(prefix + "exp_probs_b.bias"));
  }
  WEIR_TRY(e.gate_, load_projection(loader, layer, "gate"));
  WEIR_TRY(e.up_, load_projection(loader, layer, "up"));
  WEIR_TRY(e.down_, load_projection(loader, layer, "down"));
  if (spec.shared_ffn > 0) {
    WEIR_TRY(e.shared_, GatedMlp::load(loader, layer, "_shexp"));
  }
  if (spec.shared_gate) {
    WEIR_TRY(e.shared_gate_, loader.linear(prefix + "ffn_gate_inp_shexp.weight"));
  }
  return e;
}

void Experts::run(const Step& step, const Input& in, const Output& out) const {
  Input normed = in;
  if (in.norm_weight != nullptr) {  // once for all who read it
    const Matrix<float> x = step.get(Workspace::kNormed);
    step.backend.rms_norm(in.x, in.norm_weight, in.norm_eps, x, /*accumulate=*/false);
    normed = {.x = x};
  }
  const Matrix<float> logits = step.get(Workspace::kRouter), weights = step.get(Workspace::kExpertWeights);
  const Matrix<std::int32_t> chosen = step.workspace.integers(Workspace::kChosen, step.batch.rows());
  const backend::LinearOutput router = {router_.get(), router_bias_.data(), logits, false};
  step.backend.linear({.x = normed.x, .outputs = {&router, 1}});
  backend::RouteCall route = route_of(spec_->experts.router);
  route.logits = logits;
  route.correction = correction_.data();
  route.experts = chosen;
  route.weights = weights;
  step.backend.route(route);
  step.backend.experts({.x = normed.x,
                        .experts = chosen,
                        .weights = weights,
                        .gate = gate_.view(),
                        .up = up_.view(),
                        .down = down_.view(),
                        .activation = activation_of(*spec_),
                        .y = out.y,
                        .accumulate = out.accumulate,
                        .swiglu = swiglu_of(*spec_)});
  if (shared_) add_shared(step, normed, out.y);
}

void Experts::add_shared(const Step& step, const Input& in, const Matrix<float>& to) const {
  if (shared_gate_ == nullptr) return shared_->run(step, in, {to, /*accumulate=*/true});
  const Matrix<float> gate = step.get(Workspace::kSharedGate), made = step.get(Workspace::kShared);
  const backend::LinearOutput output = {shared_gate_.get(), nullptr, gate, false};
  step.backend.linear({.x = in.x, .outputs = {&output, 1}});
  shared_->run(step, in, {made, /*accumulate=*/false});
  step.backend.add({.from = made, .gate = gate, .to = to});
}

}  // namespace weir::model
