// The request fields that several routes share. For the request parsers only.
#pragma once

#include <cstdint>
#include <string>

#include "api/request_parser.h"

namespace weir::api {

constexpr std::int64_t kMaxLogprobs = 20;  // vLLM's limit

// Sampling, stopping, streaming and what to return: everything of a request but the prompt and logprobs, whose form
// depends on the route.
Status parse_generation_fields(const Fields& fields, const ParseContext& context, GenerationRequest& out);

// response_format and the other ways to constrain the output: text is fine, the rest is checked for its form and then
// refused.
Status check_output_format(const Fields& fields);

// Whether `schema` has the form of a JSON Schema; `where` names it in the error.
Status check_json_schema(const Json& schema, const std::string& where);

Result<TokenId> to_token(const Json& value, const std::string& what, TokenId vocab_size);

// The body must be an object.
Status check_object(const Json& body);

}  // namespace weir::api
