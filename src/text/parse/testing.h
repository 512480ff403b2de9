// For the tests of this folder and of others: a whole reply through an OutputParser, cut as the caller likes.
#pragma once

#include <ostream>

#include "text/parse/output_parser.h"

namespace weir::text::parse::testing {

struct Call {
  std::string name, arguments, id = {};
  bool operator==(const Call&) const = default;
};

struct Parsed {
  std::string content, reasoning;
  std::vector<Call> calls;
  bool operator==(const Parsed&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Parsed& p) {
  out << "content '" << p.content << "' reasoning '" << p.reasoning << "'";
  for (const auto& call : p.calls) out << " call " << call.name << '(' << call.arguments << ") id '" << call.id << "'";
  return out;
}

inline Parsed collect(const Delta& whole) {
  Parsed out{whole.content, whole.reasoning, {}};
  for (const auto& call : whole.calls) out.calls.push_back({call.name, call.arguments, call.id});
  return out;
}

inline Parsed parse(const std::shared_ptr<const ReplySyntax>& syntax, const std::vector<std::string_view>& pieces) {
  OutputParser parser(syntax);
  Delta whole;
  for (const auto piece : pieces) {
    Delta delta;
    parser.feed(piece, false, delta);
    whole.append(std::move(delta));
  }
  Delta last;
  parser.finish(last);
  whole.append(std::move(last));
  return collect(whole);
}

inline std::shared_ptr<ReplySyntax> syntax_of(OutputFormat format, Json tools = nullptr) {
  auto syntax = std::make_shared<ReplySyntax>();
  syntax->format = std::make_shared<OutputFormat>(std::move(format));
  syntax->tools = ToolSchemas(std::move(tools));
  syntax->calls = true;
  return syntax;
}

}  // namespace weir::text::parse::testing
