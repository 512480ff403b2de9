// The command line of weir.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>

#include "apps/bench_serve_command.h"
#include "apps/commands.h"
#include "apps/plan_command.h"
#include "apps/pull_command.h"
#include "apps/template_command.h"
#include "apps/tokenize_command.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/kernel_speeds.h"
#include "base/printable.h"

namespace {

using namespace weir::apps;

const std::string kEmptyKey = "the key is empty; give a key, or leave the option out to serve without one";
constexpr const char* kVersion = "weir " WEIR_VERSION;

// CLI::Range takes nan, which is neither below nor above anything.
CLI::Validator seconds_up_to(double most) {
  const std::string range = fmt::format("0 to {} seconds", most);
  return CLI::Validator(
      [most, range](std::string& text) {
        double value = 0;
        const bool ok = CLI::detail::lexical_cast(text, value) && value >= 0 && value <= most;
        return ok ? std::string() : "'" + text + "' is not " + range;
      },
      range);
}

void add_isa(CLI::App& app, std::string& isa) {
  const std::string names(weir::backend::cpu::kIsaNames);
  app.add_option("--isa", isa,
                 "kernels to use instead of the best this CPU has, and instead of what WEIR_ISA says: " + names)
      ->type_name("NAME")
      ->check([names](const std::string& text) {
        return weir::backend::cpu::parse_isa(text) ? std::string()
                                                   : "'" + text + "' names no kernel level; use " + names;
      });
}

void add_model_options(CLI::App& app, ModelOptions& options) {
  auto& engine = options.engine;
  app.add_option("MODEL", options.model,
                 "a .gguf file, a Hugging Face folder, or owner/name[@revision][:file] of the Hub")
      ->required();
  app.add_option("--threads", engine.threads, "compute threads; 0 = all cores this process may use")
      ->check(CLI::Range(0, 1024));
  app.add_option("--max-model-len", engine.max_model_len,
                 "most tokens of a prompt and its reply; 0 = the model's own context, as far as the KV cache holds it")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 40));
  app.add_option("--max-num-seqs", engine.max_num_seqs, "most sequences that run at once")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--max-num-batched-tokens", engine.max_num_batched_tokens, "most tokens computed in one step")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--block-size", engine.block_size, "tokens in a block of the KV cache")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  auto* blocks = app.add_option("--num-kv-blocks", engine.num_kv_blocks, "blocks in the KV cache")
                     ->check(CLI::Range(1u, 1u << 30));
  app.add_option("--kv-cache-memory", engine.kv_cache_memory_bytes, "bytes of the KV cache (4G, 512MiB ...)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 50))
      ->excludes(blocks);
  app.add_flag("!--no-prefix-caching", engine.enable_prefix_caching, "compute every prompt from its first token");
  app.add_option("--prefix-index", engine.prefix_index, "how cached prefixes are found: hash")->capture_default_str();
  app.add_option("--scheduling-policy", engine.scheduling_policy, "who goes first")
      ->check(CLI::IsMember({"fcfs", "priority"}))
      ->capture_default_str();
  app.add_option("--kv-cache-dtype", engine.kv_cache_dtype, "auto: f32 for F32 weights, else f16")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16"}))
      ->capture_default_str();
  app.add_option_function<std::string>(
         "--compute", [&engine](const std::string& mode) { engine.exact_compute = mode == "exact"; },
         "auto: 8-bit activations for quantised weights; exact: 32-bit everywhere")
      ->check(CLI::IsMember({"auto", "exact"}))
      ->default_str("auto");
  add_isa(app, engine.isa);
  app.add_option("--reasoning-parser", options.reasoning_parser,
                 "how replies mark reasoning, by vLLM's name, or none; found from the chat template otherwise");
  app.add_option("--tool-call-parser", options.tool_call_parser,
                 "how replies write tool calls, by vLLM's name, or none; found from the chat template otherwise");
  app.add_option("--chat-template", options.chat_template, "a Jinja file to use instead of the model's own template");
  // Taken so that it can be refused by name; --help lists what works.
  app.add_option("--speculative-config", options.speculative_config)->group("");
}

void add_sampling_options(CLI::App& app, SamplingOptions& options) {
  app.add_option("--temperature", options.temperature, "0 = always the most likely token");
  app.add_option("--top-p", options.top_p,
                 "choose among the likeliest tokens that have this much probability together");
  app.add_option("--top-k", options.top_k, "choose among this many tokens; 0 = all");
  app.add_option("--min-p", options.min_p, "drop tokens less likely than this part of the likeliest");
  app.add_option("--repetition-penalty", options.repetition_penalty, "above 1: repeat less");
  app.add_option("--max-tokens,-n", options.max_tokens,
                 "most tokens of a reply; otherwise as many as the context holds");
  app.add_option("--seed", options.seed, "the same seed gives the same reply");
}

void add_serve(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("serve", "answer the OpenAI API over HTTP");
  auto options = std::make_shared<ServeOptions>();
  add_model_options(*command, options->model);
  command->add_option("--host", options->host, "address to listen on")->capture_default_str();
  command->add_option("--port", options->port, "port to listen on; 0 = any free one")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  command->add_option("--served-model-name", options->served_model_name,
                      "what requests call the model; otherwise the name of its file");
  command->add_option("--api-key", options->api_key, "every request must bring this key")
      ->check([](const std::string& key) { return key.empty() ? kEmptyKey : std::string(); })
      ->envname("WEIR_API_KEY");
  command->add_option("--seed", options->seed, "makes the seeds drawn for requests without one repeatable");
  command->add_option("--log-level", options->log_level, "how much is logged")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  command
      ->add_option("--shutdown-timeout", options->shutdown_timeout_s,
                   "seconds that running requests may take after SIGTERM")
      ->check(seconds_up_to(86400))
      ->capture_default_str();
  command->add_option("--max-request-bytes", options->max_request_bytes, "largest request body")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1024}, std::uint64_t{1} << 32));
  command->add_option("--max-connections", options->max_connections, "most clients connected at once")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--step-log", options->step_log,
                      "a file that gets a JSON line for each step: its times, and which tokens it computed");
  command->callback([options, &status] { status = serve(*options); });
}

void add_terminal(CLI::App& app, int& status) {
  auto* run_command = app.add_subcommand("run", "answer one prompt");
  auto run_options = std::make_shared<RunOptions>();
  add_model_options(*run_command, run_options->model);
  add_sampling_options(*run_command, run_options->sampling);
  run_command->add_option("-p,--prompt", run_options->prompt, "what to ask")->required();
  run_command->add_option("--system", run_options->system, "system prompt");
  run_command->add_flag("--raw", run_options->raw, "continue the text as it is, without the chat template");
  run_command->callback([run_options, &status] { status = run(*run_options); });

  auto* chat_command = app.add_subcommand("chat", "talk with the model in the terminal");
  auto chat_options = std::make_shared<RunOptions>();
  add_model_options(*chat_command, chat_options->model);
  add_sampling_options(*chat_command, chat_options->sampling);
  chat_command->add_option("--system", chat_options->system, "system prompt");
  chat_command->callback([chat_options, &status] { status = chat(*chat_options); });
}

void add_filters(CLI::App& app, int& status) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<bool>(false);
  for (const auto& [name, help, filter] :
       {std::tuple{"tokenize", "texts to token ids, one JSON object per line", &tokenize_filter},
        std::tuple{"detokenize", "token ids to texts, one JSON object per line", &detokenize_filter}}) {
    auto* command = app.add_subcommand(name, help);
    command->add_option("FILE", *path, "a .gguf file, a tokenizer.json or a folder")->required();
    command->add_flag("--json", *json, "JSON lines (the only form)")->required();
    command->callback([path, json, filter = filter, &status] { status = filter(*path); });
  }
  auto* templates = app.add_subcommand("template", "chat templates");
  templates->require_subcommand(1);
  auto* render = templates->add_subcommand("render", "render templates, one JSON request per line");
  render->add_flag("--json", *json, "JSON lines (the only form)")->required();
  render->callback([json, &status] { status = template_render_filter(); });

  auto* inspect_command = app.add_subcommand("inspect", "what a model is, and the memory it needs");
  auto inspect_options = std::make_shared<InspectCommandOptions>();
  inspect_command->add_option("MODEL", inspect_options->model, "a .gguf file or a Hugging Face folder")->required();
  inspect_command->add_flag("--json", inspect_options->json, "as JSON");
  inspect_command
      ->add_option_function<std::string>(
          "--tensors", [inspect_options](const std::string& which) { inspect_options->all_tensors = which == "all"; },
          "all: each of them; layers: layers that are alike as one")
      ->check(CLI::IsMember({"all", "layers"}))
      ->default_str("layers");
  inspect_command->add_option("--context", inspect_options->context, "tokens of a sequence, for the memory")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  inspect_command->add_option("--batch", inspect_options->batch, "sequences at once, for the memory")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20))
      ->capture_default_str();
  inspect_command->callback([inspect_options, &status] { status = inspect(*inspect_options); });
}

void add_perplexity(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("perplexity", "how well a model foretells a text, and how far it is from another");
  auto options = std::make_shared<PerplexityOptions>();
  add_model_options(*command, options->model);
  auto* text = command->add_option("--text", options->text, "the file to foretell");
  auto* context = command
                      ->add_option("--context", options->context,
                                   "tokens of a chunk; the second half of each is scored, as llama-perplexity does")
                      ->check(CLI::Range(std::int64_t{4}, std::int64_t{1} << 20))
                      ->capture_default_str();
  auto* stride =
      command->add_option("--stride", options->stride,
                          "tokens from one window of --context tokens to the next; what the one before left is scored");
  stride->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  command->add_option("--chunks", options->chunks, "stop after so many")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  auto* against = command->add_option("--against", options->against,
                                      "another model with the same tokenizer: the KL divergence from it");
  auto* compute = command
                      ->add_option("--against-compute", options->against_compute,
                                   "how the other one (without --against: this one) computes; exact also keeps its KV "
                                   "in 32 bits")
                      ->check(CLI::IsMember({"auto", "exact"}));
  auto* logits = command->add_option("--against-logits", options->against_logits,
                                     "a file of llama-perplexity --save-all-logits, whose text and chunks are taken");
  logits->excludes(against)->excludes(compute)->excludes(stride)->excludes(text)->excludes(context);
  command->add_flag("--json", options->json, "as JSON");
  command->callback([options, &status] {
    if (options->text.empty() && options->against_logits.empty()) throw CLI::RequiredError("--text");
    if (options->stride > options->context)
      throw CLI::ValidationError("--stride", "is more than --context: tokens between would be left out");
    status = perplexity(*options);
  });
}

void add_pull(CLI::App& app, int& status) {
  auto* command = app.add_subcommand("pull", "get a model from the Hugging Face Hub into its cache");
  auto options = std::make_shared<PullCommandOptions>();
  command
      ->add_option("MODEL", options->model,
                   "owner/name[@revision][:file]; file is a name in the repository or a quantisation such as Q4_K_M")
      ->required();
  command->add_option("--revision", options->revision, "a branch, tag or commit instead of main");
  command->add_option("--token", options->token, "access token; otherwise HF_TOKEN, or what `hf auth login` stored");
  command->add_option("--cache-dir", options->cache_dir, "cache to use; otherwise HF_HUB_CACHE or HF_HOME/hub");
  command->add_option("--retries", options->retries, "how often a request that failed is tried again (5)")
      ->check(CLI::Range(0, 1000));
  command->callback([options, &status] { status = pull(*options); });
}

void add_quantize(CLI::App& app, int& status) {
  auto options = std::make_shared<QuantizeOptions>();
  auto* command = app.add_subcommand("quantize", "write a model as a GGUF file of another type");
  command->add_option("IN", options->in, "a .gguf file or a Hugging Face folder")->required();
  command->add_option("OUT", options->out, "the .gguf file to write; nothing may be there")->required();
  command->add_option("TYPE", options->type, "Q4_K_M, Q8_0, F16 ...: a wrong one lists all")->required();
  command->add_option("--threads", options->threads, "0 = all cores this process may use")->check(CLI::Range(0, 1024));
  command->callback([options, &status] { status = quantize(*options); });
}

void add_machine_options(CLI::App& app, MachineOptions& options) {
  app.add_option("--threads", options.threads, "0 = all cores this process may use")->check(CLI::Range(0, 1024));
  add_isa(app, options.isa);
  app.add_flag("--json", options.json, "as JSON");
}

void add_bench(CLI::App& app, int& status) {
  auto* bench = app.add_subcommand("bench", "measure speed");
  bench->require_subcommand(1);
  add_bench_serve(*bench, status);
  auto* throughput = bench->add_subcommand("throughput", "tokens per second of prefill and decoding, without a server");
  auto options = std::make_shared<BenchOptions>();
  add_model_options(*throughput, options->model);
  throughput->add_option("--prompt-tokens", options->prompt_tokens, "tokens of each prompt")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  throughput->add_option("--output-tokens", options->output_tokens, "tokens decoded for each prompt")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  throughput->add_option("--batch", options->batch, "prompts at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  throughput->add_option("--repetitions", options->repetitions, "runs; the best of each figure counts")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  throughput->add_option("--seed", options->seed, "of the random prompts")->capture_default_str();
  throughput->add_flag("--json", options->json, "as JSON");
  throughput->callback([options, &status] { status = bench_throughput(*options); });

  auto* machine = bench->add_subcommand("machine", "memory bandwidth and arithmetic peaks of this machine");
  auto machine_options = std::make_shared<MachineOptions>();
  add_machine_options(*machine, *machine_options);
  machine->callback([machine_options, &status] { status = bench_machine(*machine_options); });

  auto* kernels = bench->add_subcommand("kernels", "how near each kernel comes to what this machine can do");
  auto kernel_options = std::make_shared<KernelOptions>();
  add_machine_options(*kernels, *machine_options);
  std::string ops;
  for (const std::string_view op : weir::backend::cpu::measured_ops())
    ops += (ops.empty() ? "" : ", ") + std::string(op);
  kernels->add_option("--ops", kernel_options->ops, "operations to measure, or what their names begin with: " + ops)
      ->delimiter(',');
  kernels->add_option("--types", kernel_options->types, "types of weights and of keys and values (Q4_0,F16 ...)")
      ->delimiter(',');
  kernels->add_option("--rows", kernel_options->rows, "numbers of tokens computed together (1,16,512 ...)")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096));
  kernels->callback(
      [machine_options, kernel_options, &status] { status = bench_kernels(*machine_options, *kernel_options); });
}

// A word where a command belongs: CLI11 only says that it did not expect it. Empty: nothing to object to.
std::string wrong_command(CLI::App& app, int argc, char** argv, int at) {
  constexpr std::size_t kQuoted = 80;
  if (at >= argc || argv[at][0] == '-') return {};
  std::string choices;
  for (CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == argv[at])
      return command->get_require_subcommand_min() > 0 ? wrong_command(*command, argc, argv, at + 1) : std::string();
    choices += (choices.empty() ? "" : ", ") + command->get_name();
  }
  return "there is no command '" + std::string(argv[at]).substr(0, kQuoted) + "' of " + app.get_name() +
         "; the commands are: " + choices;
}

int weir_main(int argc, char** argv) {
  CLI::App app("weir serves large language models: a GGUF file or a Hugging Face folder behind the OpenAI API.");
  app.name("weir");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::simple);
  // Scripts add flags behind those they were given.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  int status = 0;
  add_serve(app, status);
  add_terminal(app, status);
  add_filters(app, status);
  add_perplexity(app, status);
  add_pull(app, status);
  add_quantize(app, status);
  add_bench(app, status);
  add_plan(app, status);
  if (const auto wrong = wrong_command(app, argc, argv, 1); !wrong.empty()) {
    std::fprintf(stderr, "%s\n", weir::printable(wrong).c_str());
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    // CLI11 would take the next argument for the key.
    if (std::string_view(argv[i]) == "--api-key=") {
      std::fprintf(stderr, "--api-key: %s\n", kEmptyKey.c_str());
      return 2;
    }
  }
  app.failure_message([](const CLI::App*, const CLI::Error& e) {
    std::string what = e.what();
    constexpr std::string_view kNoNumber = "Could not convert: ";
    if (what.starts_with(kNoNumber)) what = what.substr(kNoNumber.size()) + " is nothing that this option can hold";
    return fmt::format("weir: {}\nRun with --help for more information.\n", weir::printable(what));
  });
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;  // 0: --help and --version
  }
  return status;
}

// What was written may still be in a buffer, or have been lost on the way (a full disk).
bool output_arrived() {
  std::cout.flush();
  return std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int status = weir_main(argc, argv);
    if (output_arrived()) return status;
    std::fprintf(stderr, "weir: standard output took not all that was written to it\n");
    return status == 0 ? 1 : status;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weir: %s\n", weir::printable(e.what()).c_str());
    return 1;
  }
}
