#include "api/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <mutex>
#include <vector>

namespace weir::api {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;
using Labels = std::map<std::string, std::string>;

// vLLM's buckets, so that its dashboards work.
const Buckets kFirstTokenBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                    1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const Buckets kTokenBuckets = {.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
const Buckets kRequestBuckets = {.3, .5, .8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kChoiceBuckets = {1, 2, 5, 10, 20};

// 1, 2, 5, 10, 20, 50 ... up to the context length.
Buckets count_buckets(std::int64_t max) {
  Buckets out;
  for (std::int64_t decade = 1; decade <= max; decade *= 10) {
    for (const std::int64_t step : {1, 2, 5}) {
      if (decade * step <= max) out.push_back(static_cast<double>(decade * step));
    }
  }
  return out;
}

}  // namespace

struct Metrics::Impl {
  prometheus::Registry registry;
  Labels labels;

  prometheus::Gauge &running, &waiting, &kv_usage;
  prometheus::Counter &prompt_tokens, &prompt_tokens_cached, &generation_tokens;
  prometheus::Counter &preemptions, &prefix_queries, &prefix_hits;
  prometheus::Histogram &first_token, &inter_token, &time_per_token, &e2e, &queue, &inference, &prefill, &decode;
  prometheus::Histogram &request_prompt, &request_generation, &request_max_tokens, &request_n;
  prometheus::Family<prometheus::Counter>& success;
  prometheus::Family<prometheus::Counter>& http;
  std::mutex scrape_mutex;  // the differences below are taken by one scrape at a time

  prometheus::Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(std::string("weir:") + name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(std::string("weir:") + name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Histogram& histogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram()
        .Name(std::string("weir:") + name)
        .Help(help)
        .Register(registry)
        .Add(labels, buckets);
  }

  Impl(const std::string& model_name, std::int64_t max_model_len)
      : labels{{"model_name", model_name}},
        running(gauge("num_requests_running", "Sequences in the running batch.")),
        waiting(gauge("num_requests_waiting", "Sequences waiting to run.")),
        kv_usage(gauge("kv_cache_usage_perc", "Used part of the KV cache, 0 to 1.")),
        prompt_tokens(counter("prompt_tokens_total", "Prompt tokens of requests, as usage counts them.")),
        prompt_tokens_cached(
            counter("prompt_tokens_cached_total", "Prompt tokens that were found in the prefix cache.")),
        generation_tokens(counter("generation_tokens_total", "Generated tokens, as usage counts them.")),
        preemptions(counter("num_preemptions_total", "Sequences that had to give their KV blocks back.")),
        prefix_queries(counter("prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.")),
        prefix_hits(counter("prefix_cache_hits_total", "Prompt tokens found in the prefix cache.")),
        first_token(histogram("time_to_first_token_seconds", "From a request's arrival to its first token.",
                              kFirstTokenBuckets)),
        inter_token(histogram("inter_token_latency_seconds", "Between two outputs of a sequence.", kTokenBuckets)),
        time_per_token(histogram("request_time_per_output_token_seconds",
                                 "Mean time of a request's tokens after the first.", kTokenBuckets)),
        e2e(histogram("e2e_request_latency_seconds", "From a request's arrival to its end.", kRequestBuckets)),
        queue(histogram("request_queue_time_seconds", "Waiting to run.", kRequestBuckets)),
        inference(histogram("request_inference_time_seconds", "Running.", kRequestBuckets)),
        prefill(histogram("request_prefill_time_seconds", "From the start of running to the first token.",
                          kRequestBuckets)),
        decode(histogram("request_decode_time_seconds", "From the first token to the last.", kRequestBuckets)),
        request_prompt(histogram("request_prompt_tokens", "Prompt tokens of a request.", count_buckets(max_model_len))),
        request_generation(
            histogram("request_generation_tokens", "Generated tokens of a request.", count_buckets(max_model_len))),
        request_max_tokens(
            histogram("request_params_max_tokens", "max_tokens of a request.", count_buckets(max_model_len))),
        request_n(histogram("request_params_n", "n of a request.", kChoiceBuckets)),
        success(prometheus::BuildCounter()
                    .Name("weir:request_success_total")
                    .Help("Requests by how they ended.")
                    .Register(registry)),
        http(prometheus::BuildCounter()
                 .Name("weir:http_requests_total")
                 .Help("Answers by route and status.")
                 .Register(registry)) {
    for (const char* reason : {"stop", "length", "abort", "error"}) finished(reason);  // so that a rate starts at 0
  }

  prometheus::Counter& finished(std::string_view reason) {
    Labels all = labels;
    all["finished_reason"] = std::string(reason);
    return success.Add(all);
  }
};

Metrics::Metrics(const std::string& model_name, std::int64_t max_model_len)
    : impl_(std::make_unique<Impl>(model_name, max_model_len)) {}

Metrics::~Metrics() = default;

void Metrics::count_prompt(std::int64_t tokens, std::int64_t cached) {
  impl_->prompt_tokens.Increment(static_cast<double>(tokens));
  impl_->prompt_tokens_cached.Increment(static_cast<double>(cached));
}

void Metrics::count_generated(std::int64_t tokens) {
  impl_->generation_tokens.Increment(static_cast<double>(tokens));
}

void Metrics::observe_first_token(double seconds) {
  impl_->first_token.Observe(seconds);
}

void Metrics::observe_inter_token(double seconds) {
  impl_->inter_token.Observe(seconds);
}

void Metrics::observe_request(const RequestRecord& record) {
  impl_->finished(record.finished_reason).Increment();
  const auto observe = [](prometheus::Histogram& histogram, double value) {
    if (value >= 0) histogram.Observe(value);
  };
  observe(impl_->e2e, record.e2e_s);
  observe(impl_->queue, record.queue_s);
  observe(impl_->prefill, record.prefill_s);
  observe(impl_->decode, record.decode_s);
  observe(impl_->inference, record.inference_s);
  observe(impl_->time_per_token, record.time_per_output_token_s);
  observe(impl_->request_prompt, static_cast<double>(record.prompt_tokens));
  observe(impl_->request_generation, static_cast<double>(record.generation_tokens));
  observe(impl_->request_max_tokens, static_cast<double>(record.max_tokens));
  observe(impl_->request_n, record.n);
}

void Metrics::count_http(std::string_view route, std::string_view method, int status) {
  impl_->http
      .Add({{"handler", std::string(route)}, {"method", std::string(method)}, {"status", std::to_string(status)}})
      .Increment();
}

void Metrics::set_info(const engine::EngineInfo& info) {
  Labels labels = impl_->labels;
  labels["block_size"] = std::to_string(info.block_size);
  labels["num_kv_blocks"] = std::to_string(info.num_kv_blocks);
  labels["cache_dtype"] = info.kv_dtype;
  labels["prefix_index"] = info.prefix_index;
  prometheus::BuildGauge()
      .Name("weir:cache_config_info")
      .Help("Settings of the KV cache.")
      .Register(impl_->registry)
      .Add(labels)
      .Set(1);
}

std::string Metrics::scrape(const engine::EngineStats& stats) {
  std::lock_guard lock(impl_->scrape_mutex);
  const auto catch_up = [](prometheus::Counter& counter, std::uint64_t total) {
    const double more = static_cast<double>(total) - counter.Value();
    if (more > 0) counter.Increment(more);
  };
  impl_->running.Set(stats.running);
  impl_->waiting.Set(stats.waiting);
  impl_->kv_usage.Set(stats.kv_usage);
  catch_up(impl_->preemptions, stats.preemptions);
  catch_up(impl_->prefix_queries, stats.prefix_queries_tokens);
  catch_up(impl_->prefix_hits, stats.prefix_hits_tokens);
  return prometheus::TextSerializer().Serialize(impl_->registry.Collect());
}

}  // namespace weir::api
