#!/usr/bin/env python3
"""`weir quantize`: what it writes is served and says what the model says; what it refuses leaves nothing behind."""
import json
import math
import pathlib
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

from golden_test import ask, cases_of, differences, folders
from weir_server import GOLDEN, Server, program

# What GGUF has no words for.
REFUSED = {
    "mistral-swa": "sliding window of 24 tokens in layer 0",
    "qwen2": "sliding window of 24 tokens in layer 1",
    "llama-yarn": "YaRN with \"truncate\" false",
    "deepseek-v32": "no architecture of GGUF",
    "cwm": "no architecture of GGUF",
    "glm-moe-dsa": "no architecture of GGUF",
    "olmoe-clip": "clipped at 0.6",
    "gpt-oss-limits": "SwiGLU with alpha 1.1 and limit 0.5",
}
TOKENIZERS = GOLDEN.parent / "tokenizers"
EXACT = ("--compute", "exact", "--kv-cache-dtype", "f32")


def quantize(*arguments, **options):
    return subprocess.run([program(), "quantize", *map(str, arguments)], capture_output=True, text=True, timeout=300, **options)


def write_tiny_llama(folder, tokenizer):
    """a model of zeros around a tokenizer"""
    vocab = tokenizer["model"]["vocab"]
    size = 1 + max([*vocab.values(), *(token["id"] for token in tokenizer["added_tokens"])])
    width, layer = 32, "model.layers.0."
    shapes = {"model.embed_tokens.weight": [size, width], "model.norm.weight": [width]}
    shapes |= {f"{layer}{name}.weight": [width] for name in ("input_layernorm", "post_attention_layernorm")}
    for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
        shapes[f"{layer}{name}.weight"] = [width, width]
    head, at = {}, 0
    for name, shape in shapes.items():
        end = at + 4 * math.prod(shape)
        head[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer), encoding="utf-8")
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": width, "intermediate_size": width,
              "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": size, "max_position_embeddings": 64,
              "tie_word_embeddings": True}  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def token_ids(file, cases):
    lines = [json.dumps({"text": text, "add_special": special, "parse_special": parse}) for text, special, parse, *_ in cases]
    done = subprocess.run([program(), "tokenize", "--json", str(file)], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=300)
    return [json.loads(line)["ids"] for line in done.stdout.splitlines()]


class Quantize(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = pathlib.Path(self.folder.name) / "out.gguf"

    def write(self, source, kind):
        done = quantize(source, self.out, kind)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([p.name for p in self.out.parent.iterdir()], ["out.gguf"])

    def hold(self, cases, mean, *arguments):
        """the mean difference of logprobs; with F32 and F16 the greedy tokens too"""
        off = []
        with Server(self.out, *arguments) as server:
            for case in cases:
                found, parted = differences(case, ask(server, case))
                off += found
                if mean < 1e-2:
                    self.assertIsNone(parted)
        self.assertLessEqual(sum(off) / len(off), mean)

    def test_folders_become_files_that_say_the_same(self):
        for folder in folders():
            if folder.name in REFUSED or folder.name.startswith("quant-"):
                continue
            with self.subTest(folder.name):
                self.write(folder, "F32")
                self.hold(cases_of(folder / "cases.json"), 1e-3, *EXACT)
                self.out.unlink()

    def test_folders_become_files_of_small_types_that_load(self):
        for name in ("gemma3", "phi3", "gpt-oss", "deepseek-v3", "qwen3-next"):
            with self.subTest(name):
                self.write(GOLDEN / name, "Q4_K_M")
                with Server(self.out) as server:
                    self.assertEqual(len(server.complete([5, 6, 7], max_tokens=4, ignore_eos=True, return_token_ids=True)["choices"][0]["token_ids"]), 4)
                self.out.unlink()

    def test_folders_whose_configuration_is_unusual(self):
        """what no tiny model has, held against the folder itself"""
        changes = {
            "mistral-swa": {"sliding_window": None},
            "deepseek-v3": {"rope_interleave": False},  # halves of a head are turned, as neighbours in the file
            "qwen3-moe": {"norm_topk_prob": False},
            "granite": {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}},
        }
        text = pathlib.Path(self.folder.name) / "text"
        text.write_text("Some words that a model of random numbers foretells badly. " * 20)
        for name, change in changes.items():
            with self.subTest(name):
                folder = pathlib.Path(self.folder.name) / "folder"
                shutil.copytree(GOLDEN / name, folder)
                config = json.loads((folder / "config.json").read_text()) | change
                (folder / "config.json").write_text(json.dumps(config))
                self.assertEqual(quantize(folder, self.out, "F32").returncode, 0)
                arguments = ("--text", text, "--context", 128, "--chunks", 2, "--against", folder, "--against-compute", "exact", "--json")
                done = subprocess.run([program(), "perplexity", *map(str, (self.out, *arguments, *EXACT))], capture_output=True, text=True, timeout=300)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertLess(json.loads(done.stdout)["against"]["kl"]["max"], 1e-4)
                self.out.unlink()
                shutil.rmtree(folder)

    def test_what_a_file_cannot_say_is_named(self):
        for name, part in REFUSED.items():
            with self.subTest(name):
                self.refused(2, part, GOLDEN / name, self.out, "F32")
                self.assertEqual(list(self.out.parent.iterdir()), [])

    def test_tokenizers_of_folders_stay_what_they_are(self):
        """what the file keeps of tokenizer.json, and what GGUF's own keys say to programs that know only those"""
        for name in ("byte-gpt-2", "byte-llama-bpe", "byte-qwen2", "byte-qwen35", "byte-gpt-4o", "byte-tekken", "byte-deepseek", "byte-smollm",
                     "char-llama", "byte-whitespace"):  # fmt: skip
            with self.subTest(name):
                recorded = json.loads((TOKENIZERS / f"{name}.json").read_text(encoding="utf-8"))
                folder = pathlib.Path(self.folder.name) / "folder"
                write_tiny_llama(folder, recorded["tokenizer"])
                done = quantize(folder, self.out, "F32")
                self.assertEqual(done.returncode, 0, done.stderr)
                cases = recorded["cases"]
                self.assertEqual(token_ids(self.out, cases), [case[3] for case in cases])
                content = self.out.read_bytes()
                if name == "byte-whitespace":  # no name of GGUF splits so
                    self.assertIn("other programs", done.stdout + done.stderr)
                else:
                    plain = [case for case in cases if not case[1]]  # special tokens are the folder's configuration's
                    self.out.write_bytes(content.replace(b"tokenizer.huggingface.", b"tokenizer.another_one."))
                    self.assertEqual(token_ids(self.out, plain), [case[3] for case in plain])
                    if recorded["pre"]:
                        wanted = recorded["pre"].encode()
                        self.assertIn(b"tokenizer.ggml.pre" + struct.pack("<IQ", 8, len(wanted)) + wanted, content)
                self.out.unlink()
                shutil.rmtree(folder)

    def test_quantised_folders_too(self):
        for name in ("quant-awq", "quant-mxfp4-gpt-oss", "quant-fp8-deepseek-v3"):
            with self.subTest(name):
                self.write(GOLDEN / name, "F32")
                self.hold(cases_of(GOLDEN / name / "cases.json"), 1e-3, *EXACT)
                self.out.unlink()

    def test_files_of_every_kind_are_near_the_model(self):
        cases = cases_of(GOLDEN / "quant" / "Q8_0.cases.json")
        for kind, mean in (("F16", 2e-3), ("BF16", 0.01), ("Q8_0", 0.02), ("Q6_K", 0.06), ("Q5_K_M", 0.15), ("Q4_K_M", 0.3), ("Q4_K_S", 0.3),
                           ("Q4_0", 0.4), ("Q3_K_M", 0.7), ("Q2_K", 1.5), ("MXFP4", 0.06)):  # fmt: skip
            with self.subTest(kind):
                self.write(GOLDEN / "quant" / "Q8_0.gguf", kind)
                self.hold(cases, mean, *EXACT)
                self.out.unlink()

    def test_split_files_become_one(self):
        self.write(GOLDEN / "gguf" / "llama-split-00001-of-00002.gguf", "F32")
        self.hold(cases_of(GOLDEN / "llama" / "cases.json"), 1e-3, *EXACT)

    def refused(self, status, part, *arguments, **options):
        done = quantize(*arguments, **options)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertIn(part, done.stderr)

    def test_refusals(self):
        source = GOLDEN / "gguf" / "llama.gguf"
        self.refused(2, "the types are: F32, F16", source, self.out, "Q4_X")
        self.refused(2, "no such file", source.with_name("no.gguf"), self.out, "Q8_0")
        self.assertEqual(list(self.out.parent.iterdir()), [])
        self.out.write_text("precious")
        self.refused(2, "is there already", source, self.out, "Q8_0")
        self.assertEqual(self.out.read_text(), "precious")
        self.refused(1, "cannot be written", source, self.out / "below", "Q8_0")

    def test_a_damaged_source_leaves_nothing(self):
        damaged = pathlib.Path(self.folder.name) / "damaged.gguf"
        damaged.write_bytes((GOLDEN / "gguf" / "llama.gguf").read_bytes()[:-1000])
        self.refused(2, "cut short", damaged, self.out, "Q8_0")
        self.assertEqual(list(self.out.parent.iterdir()), [damaged])

    def test_a_tensor_of_the_wrong_shape_is_named(self):
        content = (GOLDEN / "gguf" / "llama.gguf").read_bytes()
        name = b"blk.1.attn_k.weight"
        at = content.index(name) + len(name) + 4  # behind the number of axes
        self.assertEqual(struct.unpack_from("<QQ", content, at), (32, 32))
        damaged = pathlib.Path(self.folder.name) / "damaged.gguf"
        damaged.write_bytes(content[:at] + struct.pack("<QQ", 64, 16) + content[at + 16 :])
        self.refused(2, 'tensor "blk.1.attn_k.weight" has shape [16, 64]; the model\'s sizes ask for [32, 32]', damaged, self.out, "Q8_0")
        self.assertEqual(list(self.out.parent.iterdir()), [damaged])

    def test_a_full_disk_leaves_nothing(self):
        def limit():  # writing further fails, as on a full disk
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

        self.refused(1, "nothing is left", GOLDEN / "gguf" / "llama.gguf", self.out, "F32", preexec_fn=limit)
        self.assertEqual(list(self.out.parent.iterdir()), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
