#include "kv/hash_prefix_index.h"

// The interface that OpenSSL 3 prefers allocates for every digest.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace weir::kv {

static_assert(std::endian::native == std::endian::little, "names are digests of little-endian integers");

struct HashPrefixIndex::Hasher {
  SHA256_CTX context;

  void start() { CHECK(SHA256_Init(&context) == 1); }
  void add(const void* data, std::size_t bytes) { CHECK(SHA256_Update(&context, data, bytes) == 1); }
  // The length first, so that no two pairs of strings run together into the same bytes.
  void add(std::string_view text) {
    const std::uint64_t length = text.size();
    add(&length, sizeof length);
    add(text.data(), text.size());
  }
  BlockName finish() {
    BlockName name;
    static_assert(sizeof name.bytes == SHA256_DIGEST_LENGTH);
    CHECK(SHA256_Final(name.bytes.data(), &context) == 1);
    return name;
  }
};

HashPrefixIndex::HashPrefixIndex(std::string_view model_id, int block_tokens, std::uint32_t num_blocks)
    : hasher_(std::make_unique<Hasher>()),
      model_id_(model_id),
      block_tokens_(static_cast<std::size_t>(block_tokens)),
      buckets_(std::bit_ceil(std::max<std::size_t>(num_blocks, 1)), kEnd),
      entries_(num_blocks),
      tokens_(num_blocks * block_tokens_) {
  CHECK(block_tokens > 0, "{} tokens per block", block_tokens);
}

HashPrefixIndex::~HashPrefixIndex() = default;

BlockName HashPrefixIndex::root(std::string_view salt) {
  const auto block_tokens = static_cast<std::uint64_t>(block_tokens_);
  hasher_->start();
  hasher_->add(model_id_);
  hasher_->add(&block_tokens, sizeof block_tokens);
  hasher_->add(salt);
  return hasher_->finish();
}

BlockName HashPrefixIndex::child(const BlockName& parent, std::span<const TokenId> block_tokens) {
  CHECK(block_tokens.size() == block_tokens_, "{} tokens in a block of {}", block_tokens.size(), block_tokens_);
  hasher_->start();
  hasher_->add(parent.bytes.data(), parent.bytes.size());
  hasher_->add(block_tokens.data(), block_tokens.size_bytes());
  return hasher_->finish();
}

std::optional<BlockId> HashPrefixIndex::find(const BlockName& name, int group,
                                             std::span<const TokenId> block_tokens) const {
  const std::uint32_t block = lookup(name, group);
  if (block == kEnd || !std::ranges::equal(tokens_of(block), block_tokens)) return std::nullopt;
  return BlockId{block};
}

bool HashPrefixIndex::insert(BlockId block, const BlockName& name, int group, std::span<const TokenId> block_tokens) {
  CHECK(group >= 0 && block_tokens.size() == block_tokens_, "group {}, {} tokens", group, block_tokens.size());
  CHECK(!contains(block), "block {} already has a name", value(block));
  if (lookup(name, group) != kEnd) return false;
  std::uint32_t& first = buckets_[bucket(name, group)];
  entries_[value(block)] = {name, group, first};
  first = value(block);
  std::ranges::copy(block_tokens, tokens_.begin() + static_cast<std::ptrdiff_t>(value(block) * block_tokens_));
  ++size_;
  return true;
}

void HashPrefixIndex::erase(BlockId block) {
  CHECK(contains(block), "block {} has no name", value(block));
  Entry& entry = entries_[value(block)];
  std::uint32_t* link = &buckets_[bucket(entry.name, entry.group)];
  while (*link != value(block)) {
    CHECK(*link != kEnd, "block {} is missing from its bucket", value(block));
    link = &entries_[*link].next;
  }
  *link = entry.next;
  entry = {};
  --size_;
}

std::size_t HashPrefixIndex::bucket(const BlockName& name, int group) const {
  std::uint64_t digest = 0;
  std::memcpy(&digest, name.bytes.data(), sizeof digest);
  return (digest + static_cast<std::uint64_t>(group)) & (buckets_.size() - 1);
}

std::uint32_t HashPrefixIndex::lookup(const BlockName& name, int group) const {
  std::uint32_t block = buckets_[bucket(name, group)];
  while (block != kEnd && !(entries_[block].group == group && entries_[block].name == name))
    block = entries_[block].next;
  return block;
}

std::span<const TokenId> HashPrefixIndex::tokens_of(std::uint32_t block) const {
  return std::span(tokens_).subspan(block * block_tokens_, block_tokens_);
}

void HashPrefixIndex::check_integrity() const {
  std::uint32_t linked = 0;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::uint32_t block = buckets_[b]; block != kEnd; block = entries_[block].next) {
      CHECK(entries_[block].group != kNoEntry, "block {} is in a bucket but has no name", block);
      CHECK(bucket(entries_[block].name, entries_[block].group) == b, "block {} is in the wrong bucket", block);
      CHECK(lookup(entries_[block].name, entries_[block].group) == block, "block {} shares its name", block);
      CHECK(++linked <= size_, "a bucket runs in a circle");
    }
  }
  CHECK(linked == size_, "{} names in the table, {} counted", linked, size_);
}

Result<PrefixIndexKind> parse_prefix_index(std::string_view name) {
  if (name == "hash") return PrefixIndexKind::kHash;
  if (name == "radix") {
    return fail_at("prefix-index", ErrorCode::kUnsupported,
                   "--prefix-index radix: this build has no radix tree yet; use --prefix-index hash");
  }
  return fail_at("prefix-index", ErrorCode::kInvalidArgument, "--prefix-index '{}' is unknown; use --prefix-index hash",
                 name);
}

std::unique_ptr<PrefixIndex> make_prefix_index(PrefixIndexKind kind, std::string_view model_id, int block_tokens,
                                               std::uint32_t num_blocks) {
  if (kind == PrefixIndexKind::kNone) return nullptr;
  CHECK(kind == PrefixIndexKind::kHash, "prefix index kind {}", static_cast<int>(kind));
  return std::make_unique<HashPrefixIndex>(model_id, block_tokens, num_blocks);
}

}  // namespace weir::kv
