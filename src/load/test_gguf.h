// Builds GGUF files in memory for tests, valid ones and others. Test code only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weir::load::test {

class Bytes {
 public:
  template <class T>
  Bytes& put(T value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    data_.insert(data_.end(), begin, begin + sizeof(T));
    return *this;
  }
  Bytes& text(std::string_view s) {
    put<std::uint64_t>(s.size());
    return raw(std::as_bytes(std::span(s)));
  }
  Bytes& raw(std::span<const std::byte> bytes) {
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Bytes& pad(std::size_t alignment) {
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  std::size_t size() const { return data_.size(); }
  const std::vector<std::byte>& data() const { return data_; }

 private:
  std::vector<std::byte> data_;
};

struct TestTensor {
  std::string name;
  std::vector<std::int64_t> dims;  // as in the file: contiguous axis first
  std::int32_t type = 0;
  std::vector<std::byte> data;
  std::uint64_t offset = ~std::uint64_t{0};  // of the tensor data; all ones: after the tensor before
};

class GgufBuilder {
 public:
  std::uint32_t magic = 0x46554747, version = 3;
  std::uint64_t alignment = 32;
  std::vector<std::pair<std::string, Bytes>> pairs;  // key, type and value
  std::vector<TestTensor> tensors;
  std::uint64_t tensor_count = ~std::uint64_t{0}, pair_count = ~std::uint64_t{0};  // all ones: the true ones

  GgufBuilder& set(std::string key, Bytes value) {
    for (auto& [k, v] : pairs) {
      if (k == key) {
        v = std::move(value);
        return *this;
      }
    }
    pairs.emplace_back(std::move(key), std::move(value));
    return *this;
  }
  GgufBuilder& u32(std::string key, std::uint32_t v) {
    return set(std::move(key), Bytes().put<std::int32_t>(4).put(v));
  }
  GgufBuilder& u16(std::string key, std::uint16_t v) {
    return set(std::move(key), Bytes().put<std::int32_t>(2).put(v));
  }
  GgufBuilder& i32(std::string key, std::int32_t v) { return set(std::move(key), Bytes().put<std::int32_t>(5).put(v)); }
  GgufBuilder& f32(std::string key, float v) { return set(std::move(key), Bytes().put<std::int32_t>(6).put(v)); }
  GgufBuilder& string(std::string key, std::string_view v) {
    return set(std::move(key), Bytes().put<std::int32_t>(8).text(v));
  }
  GgufBuilder& strings(std::string key, const std::vector<std::string>& v) {
    Bytes bytes;
    bytes.put<std::int32_t>(9).put<std::int32_t>(8).put<std::uint64_t>(v.size());
    for (const auto& s : v) bytes.text(s);
    return set(std::move(key), std::move(bytes));
  }
  template <class T>
  GgufBuilder& array(std::string key, std::int32_t type, const std::vector<T>& v) {
    Bytes bytes;
    bytes.put<std::int32_t>(9).put(type).put<std::uint64_t>(v.size());
    for (const T x : v) bytes.put(x);
    return set(std::move(key), std::move(bytes));
  }
  GgufBuilder& erase(std::string_view key) {
    std::erase_if(pairs, [&](const auto& pair) { return pair.first == key; });
    return *this;
  }
  TestTensor& tensor(std::string_view name) {
    for (auto& t : tensors) {
      if (t.name == name) return t;
    }
    return tensors.emplace_back(TestTensor{std::string(name), {}, 0, {}});
  }
  // An F32 tensor; dims as in the file.
  TestTensor& f32_tensor(std::string_view name, std::vector<std::int64_t> dims) {
    TestTensor& t = tensor(name);
    std::size_t elements = 1;
    for (const auto d : dims) elements *= static_cast<std::size_t>(d);
    t.dims = std::move(dims);
    t.data.resize(elements * sizeof(float));
    return t;
  }

  // The part before the tensor data, padded.
  Bytes header() const {
    Bytes out;
    out.put(magic).put(version);
    out.put<std::uint64_t>(tensor_count == ~std::uint64_t{0} ? tensors.size() : tensor_count);
    out.put<std::uint64_t>(pair_count == ~std::uint64_t{0} ? pairs.size() : pair_count);
    for (const auto& [key, value] : pairs) out.text(key).raw(value.data());
    std::uint64_t next = 0;
    for (const auto& t : tensors) {
      out.text(t.name).put<std::uint32_t>(static_cast<std::uint32_t>(t.dims.size()));
      for (const auto d : t.dims) out.put(d);
      out.put(t.type).put<std::uint64_t>(t.offset == ~std::uint64_t{0} ? next : t.offset);
      next = (next + t.data.size() + alignment - 1) / alignment * alignment;
    }
    return out.pad(alignment);
  }
  std::vector<std::byte> build() const {
    Bytes out = header();
    for (const auto& t : tensors) out.pad(alignment).raw(t.data);
    return out.data();
  }
};

// A whole model: one layer, hidden 32, 4 heads sharing 2, FFN 48, 10 tokens, tied.
inline GgufBuilder tiny_gguf(const std::string& arch = "llama") {
  GgufBuilder b;
  b.string("general.architecture", arch).string("general.name", "tiny");
  b.u32(arch + ".block_count", 1).u32(arch + ".context_length", 64).u32(arch + ".embedding_length", 32);
  b.u32(arch + ".feed_forward_length", 48)
      .u32(arch + ".attention.head_count", 4)
      .u32(arch + ".attention.head_count_kv", 2);
  b.f32(arch + ".attention.layer_norm_rms_epsilon", 1e-5f);
  b.string("tokenizer.ggml.model", "gpt2");
  b.strings("tokenizer.ggml.tokens", {"a", "b", "c", "d", "e", "f", "g", "h", "<|im_end|>", "<s>"});
  b.array<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 1, 1, 1, 1, 1, 3, 3});
  b.u32("tokenizer.ggml.eos_token_id", 8).u32("tokenizer.ggml.bos_token_id", 9);
  b.f32_tensor("token_embd.weight", {32, 10});
  b.f32_tensor("blk.0.attn_norm.weight", {32});
  b.f32_tensor("blk.0.attn_q.weight", {32, 32});
  b.f32_tensor("blk.0.attn_k.weight", {32, 16});
  b.f32_tensor("blk.0.attn_v.weight", {32, 16});
  b.f32_tensor("blk.0.attn_output.weight", {32, 32});
  b.f32_tensor("blk.0.ffn_norm.weight", {32});
  b.f32_tensor("blk.0.ffn_gate.weight", {32, 48});
  b.f32_tensor("blk.0.ffn_up.weight", {32, 48});
  b.f32_tensor("blk.0.ffn_down.weight", {48, 32});
  b.f32_tensor("output_norm.weight", {32});
  if (arch == "qwen2") {
    b.f32_tensor("blk.0.attn_q.bias", {32});
    b.f32_tensor("blk.0.attn_k.bias", {16});
    b.f32_tensor("blk.0.attn_v.bias", {16});
  }
  if (arch == "qwen3" || arch == "gemma3") {
    b.f32_tensor("blk.0.attn_q_norm.weight", {8});
    b.f32_tensor("blk.0.attn_k_norm.weight", {8});
  }
  if (arch == "gemma3") {
    b.f32_tensor("blk.0.post_attention_norm.weight", {32});
    b.f32_tensor("blk.0.post_ffw_norm.weight", {32});
  }
  return b;
}

}  // namespace weir::load::test
