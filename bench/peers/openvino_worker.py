"""Keeps one GGUF model loaded in OpenVINO GenAI and measures it. Arguments: model, threads, the most tokens of all sequences together."""
import random
import sys
import time

import numpy
import openvino
import openvino_genai
import worker


def load():
    model, threads, tokens = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    scheduler = openvino_genai.SchedulerConfig()
    scheduler.max_num_batched_tokens = max(tokens, 2048)  # whole prompts in one step
    scheduler.max_num_seqs = 256
    scheduler.enable_prefix_caching = False
    pipeline = openvino_genai.ContinuousBatchingPipeline(model, scheduler, "CPU", {"INFERENCE_NUM_THREADS": threads})
    vocab = len(pipeline.get_tokenizer().get_vocab())

    def run(prompt, output, sequences):
        config = openvino_genai.GenerationConfig(max_new_tokens=output + 1, ignore_eos=True, do_sample=False)
        prompts = [numpy.array([random.choices(range(vocab), k=prompt)], dtype=numpy.int64) for _ in range(sequences)]
        begin = time.perf_counter()
        handles = [pipeline.add_request(i, openvino.Tensor(ids), config) for i, ids in enumerate(prompts)]

        def step():
            pipeline.step()
            new = {i: tokens_read(handle) for i, handle in enumerate(handles) if handle.can_read()}
            return new, pipeline.has_non_finished_requests()

        return worker.measure(sequences, step, begin)

    return openvino_genai.__version__, run


def tokens_read(handle):
    return sum(len(output.generated_ids) for output in handle.read().values())


worker.serve(load)
