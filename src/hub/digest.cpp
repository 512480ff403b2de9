#include "hub/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace weir::hub {
namespace {

constexpr std::size_t kGitDigits = 40, kLfsDigits = 64;

}  // namespace

bool is_content_id(std::string_view id) {
  return (id.size() == kGitDigits || id.size() == kLfsDigits) &&
         std::ranges::all_of(id, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(std::string_view id, std::int64_t bytes) : state_(std::make_unique<State>()) {
  const bool git = id.size() == kGitDigits;
  CHECK(state_->context != nullptr &&
        EVP_DigestInit_ex(state_->context, git ? EVP_sha1() : EVP_sha256(), nullptr) == 1);
  if (git) {
    const std::string header = fmt::format("blob {}", bytes);
    add(std::as_bytes(std::span(header.c_str(), header.size() + 1)));  // with the zero that ends it
  }
}

Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::add(std::span<const std::byte> data) {
  CHECK(EVP_DigestUpdate(state_->context, data.data(), data.size()) == 1);
}

std::string Digest::id() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> value;
  unsigned size = 0;
  CHECK(EVP_DigestFinal_ex(state_->context, value.data(), &size) == 1);
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", value[i]);
  return text;
}

}  // namespace weir::hub
