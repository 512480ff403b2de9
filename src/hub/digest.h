// Digest: the two names the Hub gives to contents. A file in Git LFS is named by the SHA-256 of its bytes (64 digits),
// any other one by Git's blob id (40): the SHA-1 of "blob SIZE\0" and its bytes (Pro Git, "Git Objects").
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weir::hub {

// 40 or 64 lower-case hexadecimal digits.
bool is_content_id(std::string_view id);

class Digest {
 public:
  // Of the kind that `id` is of; `bytes`: how long the contents will be.
  Digest(std::string_view id, std::int64_t bytes);
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void add(std::span<const std::byte> data);
  // The id of what was added; call once.
  std::string id();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::hub
