// Pre-tokenizer scanners: hand-written, linear, non-recursive equivalents of the split patterns that model families
// use.
//
// A scanner returns the end of the piece that begins at text[begin] (begin < text.size(), result > begin). Pieces cover
// the text: what a pattern does not match becomes a piece of its own, as behaviour "Isolated" has it. Look-ahead sees
// the text's end as the end. Cost: constant work per character. Any bytes are accepted.
#pragma once

#include <cstddef>
#include <string_view>

namespace weir::text {

using Scanner = std::size_t (*)(std::string_view text, std::size_t begin);

// \p{N} | \P{N}+ : every numeric character alone.
std::size_t scan_each_number(std::string_view text, std::size_t begin);
// \p{N}{1,3} | \P{N}+
std::size_t scan_numbers_by_three(std::string_view text, std::size_t begin);

std::size_t scan_gpt2(std::string_view text, std::size_t begin);
std::size_t scan_llama3(std::string_view text, std::size_t begin);
std::size_t scan_qwen2(std::string_view text, std::size_t begin);
std::size_t scan_qwen35(std::string_view text, std::size_t begin);
std::size_t scan_gpt4o(std::string_view text, std::size_t begin);
std::size_t scan_tekken(std::string_view text, std::size_t begin);

// DeepSeek V3 and later, after scan_numbers_by_three: runs of CJK ideographs and kana, then words and symbols.
std::size_t scan_deepseek_cjk(std::string_view text, std::size_t begin);
std::size_t scan_deepseek_words(std::string_view text, std::size_t begin);

// The scanner that splits exactly as this pattern of a tokenizer.json with behaviour "Isolated" does; null for unknown
// patterns.
Scanner scanner_for_pattern(std::string_view pattern);

}  // namespace weir::text
