// A parsed regular expression -> instructions for the matcher in regex.cpp.
//
// The program is a list of bodies: the expression itself, and one for each look-around and atomic group in it. A body's
// splits are numbered, so that the matcher can keep a bit for each of them and each position.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "text/tokenizer/regex_syntax.h"

namespace weir::text {

struct RegexInstr {
  enum class Op : std::uint8_t {
    kChar,        // a: code point
    kSet,         // a: set
    kRun,         // a: set, b: least, c: most; takes as many as it can and gives none back
    kSplit,       // first a, then b; c: number of the split within its body
    kJump,        // a
    kAnchor,      // a: Anchor
    kLook,        // a: body, b: negative
    kLookBehind,  // a: first body, b: negative, c: how many bodies (alternatives of fixed length)
    kAtomic,      // a: body
    kEnd,
  };
  Op op;
  std::uint32_t a = 0, b = 0, c = 0;
};

struct RegexBody {
  enum class Kind : std::uint8_t { kMain, kLook, kAtomic };
  Kind kind = Kind::kMain;
  std::uint32_t start = 0;
  std::uint32_t splits = 0;
  std::uint32_t back = 0;  // look-behind: characters to step back
};

struct RegexProgram {
  std::vector<RegexInstr> code;
  std::vector<RegexBody> bodies;  // 0: main
  std::vector<CharSet> sets;
  CharSet word;  // of \b
};

Result<RegexProgram> compile_regex(ParsedRegex parsed);

}  // namespace weir::text
