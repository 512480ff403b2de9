// What a template may cost. Templates come out of model files and are hostile until proven otherwise: each of these
// numbers turns an endless loop, a memory bomb or a stack overflow into an error.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weir::text::jinja {

// The longest templates of real models are below 64 KiB; this leaves room and keeps parsing in milliseconds.
constexpr std::size_t kMaxTemplateBytes = 1 << 20;

// Nesting of parentheses, brackets and unary operators while parsing; CPython's tokenizer stops at 200 as well, so
// Jinja does.
constexpr int kMaxParseDepth = 200;
// Nesting of {% for %}, {% if %} ... CPython refuses more than 100 levels of indentation, Jinja emits two a block at
// most.
constexpr int kMaxBlockDepth = 100;
// Height of an expression tree. Chains such as a + b + c + ... grow to the left without nesting.
constexpr int kMaxExpressionHeight = 1000;

// Resolving names copies the names known so far at each {% if %}. Real templates have below 100 variables and 500
// conditions.
constexpr std::size_t kMaxNamesPerScope = 2000;
constexpr std::size_t kMaxResolverWork = 5'000'000;

// Nested evaluations at run time (expressions inside statements inside macro calls ...): bounds the stack to a few
// hundred KiB.
constexpr int kMaxEvalDepth = 1500;
// Macros calling macros, recursive loops included; CPython's recursion limit ends Jinja's at about 250.
constexpr int kMaxCallDepth = 200;
// Lists inside dicts inside lists ...; printing, comparing and freeing values recurses this deep.
constexpr int kMaxValueDepth = 400;

// A step is one expression node, statement or loop iteration, some 50 ns. The base allows any sane template over a
// small request, the second number lets long conversations run: real templates need 10 to 300 steps for each value they
// are given.
constexpr std::uint64_t kBaseSteps = 2'000'000;
constexpr std::uint64_t kStepsPerInputValue = 4'000;

// Bytes of text and containers made in one rendering, freed or not. Real templates copy their input fewer than ten
// times.
constexpr std::uint64_t kBaseWorkBytes = 128u << 20;
constexpr std::uint64_t kWorkBytesPerInputByte = 64;
// One text or one output. A prompt of a million tokens has about 4 MB.
constexpr std::size_t kMaxTextBytes = 64u << 20;
// Jinja's sandbox has the same limit (MAX_RANGE).
constexpr std::int64_t kMaxRangeLength = 100'000;
// One list, tuple or dict; twice the length of the longest range and as many messages as any context window holds.
constexpr std::size_t kMaxItems = 1u << 20;

}  // namespace weir::text::jinja
