// Bodies of /v1/chat/completions and /apply-template.
#include "api/request_fields.h"

namespace weir::api {
namespace {

template <class... Args>
tl::unexpected<Error> bad_message(std::size_t i, std::string_view field, fmt::format_string<Args...> format,
                                  Args&&... args) {
  return fail_at(fmt::format("messages[{}]{}{}", i, field.empty() ? "" : ".", field), ErrorCode::kInvalidArgument,
                 "messages[{}]: {}", i, fmt::format(format, std::forward<Args>(args)...));
}

// A list of text parts becomes one text, as templates made for text expect it.
Status flatten_content(std::size_t i, Json& content) {
  std::string text;
  for (const Json& part : content) {
    const Json* type = part.is_object() ? Fields(part).find("type") : nullptr;
    if (!type || !type->is_string())
      return bad_message(i, "content", "a content part must be an object with a string type");
    const auto& name = type->get_ref<const std::string&>();
    if (name != "text" && name != "refusal") {
      return fail_at("messages", ErrorCode::kUnsupported,
                     "messages[{}]: content of type '{}' is not supported; this model reads text", i,
                     name.substr(0, 40));
    }
    const Json* value = Fields(part).find(name);
    if (!value || !value->is_string())
      return bad_message(i, "content", "a content part of type {0} must have a string {0}", name);
    if (!text.empty()) text.push_back('\n');
    text += value->get_ref<const std::string&>();
  }
  content = std::move(text);
  return {};
}

// OpenAI sends a call's arguments as JSON text; templates expect the object. Text that is none stays text: models write
// such arguments (cut off by max_tokens, say), clients keep them in the history, and refusing them here would refuse
// every later request of that chat.
Status parse_tool_calls(std::size_t i, Json& calls) {
  if (!calls.is_array()) return bad_message(i, "tool_calls", "tool_calls must be a list, not {}", describe_json(calls));
  for (Json& call : calls) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    if (!call.is_object() || function == call.end() || !function->is_object()) {
      return bad_message(i, "tool_calls", "a tool call must be an object with a function");
    }
    const Json* name = Fields(*function).find("name");
    if (!name || !name->is_string())
      return bad_message(i, "tool_calls", "the function of a tool call must have a string name");
    const auto arguments = function->find("arguments");
    if (arguments == function->end() || arguments->is_null()) continue;
    if (arguments->is_string()) {
      const auto& text = arguments->get_ref<const std::string&>();
      auto parsed = text.empty() ? Result<Json>(Json::object()) : parse_json(text);
      if (parsed && parsed->is_object()) *arguments = std::move(*parsed);
    } else if (!arguments->is_object()) {
      return bad_message(i, "tool_calls", "the arguments of a tool call must be JSON text, not {}",
                         describe_json(*arguments));
    }
  }
  return {};
}

Status parse_message(std::size_t i, Json& message) {
  if (!message.is_object()) return bad_message(i, "", "a message must be an object, not {}", describe_json(message));
  const Fields fields(message);
  const Json* role = fields.find("role");
  if (!role || !role->is_string() || role->get_ref<const std::string&>().empty())
    return bad_message(i, "role", "a message must have a string role");
  const bool has_calls = fields.find("tool_calls") != nullptr;
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) {
    if (!has_calls && *role != "assistant") return bad_message(i, "content", "content is missing");
    // Templates join the content to other text, which nothing but a string allows.
    message["content"] = "";
  } else if (content->is_array()) {
    WEIR_RETURN_IF_ERROR(flatten_content(i, *content));
  } else if (!content->is_string()) {
    return bad_message(i, "content", "content must be a string or a list of text parts, not {}",
                       describe_json(*content));
  }
  for (const char* name : {"name", "tool_call_id", "reasoning_content", "reasoning", "thinking"}) {
    const Json* value = fields.find(name);
    if (value && !value->is_string())
      return bad_message(i, name, "{} must be a string, not {}", name, describe_json(*value));
  }
  if (has_calls) WEIR_RETURN_IF_ERROR(parse_tool_calls(i, message["tool_calls"]));
  return {};
}

Status check_tool(std::size_t i, const Json& tool) {
  const std::string where = fmt::format("tools[{}]", i);
  const Json* type = tool.is_object() ? Fields(tool).find("type") : nullptr;
  const Json* function = tool.is_object() ? Fields(tool).find("function") : nullptr;
  if (!type || *type != "function")
    return fail_at(where, ErrorCode::kInvalidArgument, "{} must be an object of type \"function\"", where);
  if (!function || !function->is_object())
    return fail_at(where, ErrorCode::kInvalidArgument, "{} must have an object function", where);
  const Json* name = Fields(*function).find("name");
  if (!name || !name->is_string() || name->get_ref<const std::string&>().empty()) {
    return fail_at(where, ErrorCode::kInvalidArgument, "{}.function must have a string name", where);
  }
  const Json* parameters = Fields(*function).find("parameters");
  if (!parameters) return {};
  if (!parameters->is_object()) {
    return fail_at(where, ErrorCode::kInvalidArgument, "{}.function.parameters must be a JSON Schema object, not {}",
                   where, describe_json(*parameters));
  }
  auto status = check_json_schema(*parameters, where + ".function.parameters");
  if (!status) status.error().param = where;
  return status;
}

Status parse_tool_choice(const Fields& fields, Json& tools) {
  const Json* choice = fields.find("tool_choice");
  if (!choice) return {};
  const auto refuse = [](std::string_view what) {
    return fail_at("tool_choice", ErrorCode::kUnsupported,
                   "tool_choice {} is not supported yet; use \"auto\" or \"none\"", what);
  };
  if (choice->is_string()) {
    const auto& name = choice->get_ref<const std::string&>();
    if (name == "none") tools = nullptr;
    if (name == "none" || name == "auto") return {};
    if (name != "required") {
      return fail_at(
          "tool_choice", ErrorCode::kInvalidArgument,
          "tool_choice must be \"none\", \"auto\", \"required\" or an object that names a function, not '{}'",
          name.substr(0, 40));
    }
    if (tools.is_null())
      return fail_at("tool_choice", ErrorCode::kInvalidArgument, "tool_choice is \"required\" but there are no tools");
    return refuse("\"required\"");
  }
  const Json* function = choice->is_object() ? Fields(*choice).find("function") : nullptr;
  const Json* name = function && function->is_object() ? Fields(*function).find("name") : nullptr;
  if (!name || !name->is_string()) {
    return fail_at("tool_choice", ErrorCode::kInvalidArgument,
                   "tool_choice must be a string or {{\"type\": \"function\", \"function\": {{\"name\": ...}}}}");
  }
  const bool known = tools.is_array() && std::any_of(tools.begin(), tools.end(), [&](const Json& tool) {
                       return tool["function"]["name"] == *name;
                     });
  if (!known) {
    return fail_at("tool_choice", ErrorCode::kInvalidArgument,
                   "tool_choice names the function '{}', which is not among the tools",
                   name->get<std::string>().substr(0, 80));
  }
  return refuse("of a named function");
}

Result<Json> parse_tools(const Fields& fields) {
  Json tools = nullptr;
  if (const Json* list = fields.find("tools")) {
    if (!list->is_array())
      return fail_at("tools", ErrorCode::kInvalidArgument, "tools must be a list, not {}", describe_json(*list));
    for (std::size_t i = 0; i < list->size(); ++i) WEIR_RETURN_IF_ERROR(check_tool(i, (*list)[i]));
    if (!list->empty()) tools = *list;
  }
  WEIR_RETURN_IF_ERROR(parse_tool_choice(fields, tools));
  return tools;
}

tl::unexpected<Error> said_twice(const char* name) {
  return fail_at(name, ErrorCode::kInvalidArgument,
                 "{0} and chat_template_kwargs.{0} say different things; give one of them", name);
}

// A setting of the template that can be a field of the request or one of its chat_template_kwargs; `out` keeps its
// value where it is neither.
Status template_flag(const Fields& fields, const Json& kwargs, const char* name, bool& out) {
  bool in_kwargs = out;
  WEIR_RETURN_IF_ERROR(Fields(kwargs, "chat_template_kwargs.").boolean(name, in_kwargs));
  const bool both = fields.find(name) && Fields(kwargs).find(name);
  out = in_kwargs;
  WEIR_RETURN_IF_ERROR(fields.boolean(name, out));
  if (both && out != in_kwargs) return said_twice(name);
  return {};
}

// A field of the request that templates know as a variable.
Status template_variable(const Fields& fields, const char* name, bool right_type, const char* type, Json& kwargs) {
  const Json* value = fields.find(name);
  if (!value) return {};
  if (!right_type)
    return fail_at(name, ErrorCode::kInvalidArgument, "{} must be {}, not {}", name, type, describe_json(*value));
  const Json* in_kwargs = Fields(kwargs).find(name);
  if (in_kwargs && *in_kwargs != *value) return said_twice(name);
  kwargs[name] = *value;
  return {};
}

Result<Json> parse_template_kwargs(const Fields& fields) {
  Json kwargs = Json::object();
  if (const Json* given = fields.find("chat_template_kwargs")) {
    if (!given->is_object()) {
      return fail_at("chat_template_kwargs", ErrorCode::kInvalidArgument,
                     "chat_template_kwargs must be an object, not {}", describe_json(*given));
    }
    for (const char* name : {"messages", "tools"}) {
      if (given->contains(name))
        return fail_at("chat_template_kwargs", ErrorCode::kInvalidArgument, "chat_template_kwargs cannot replace {}",
                       name);
    }
    kwargs = *given;
  }
  const Json *documents = fields.find("documents"), *effort = fields.find("reasoning_effort");
  WEIR_RETURN_IF_ERROR(template_variable(fields, "documents", documents && documents->is_array(), "a list", kwargs));
  WEIR_RETURN_IF_ERROR(
      template_variable(fields, "reasoning_effort", effort && effort->is_string(), "a string", kwargs));
  bool continue_final = false;
  WEIR_RETURN_IF_ERROR(template_flag(fields, kwargs, "continue_final_message", continue_final));
  bool add_generation_prompt = !continue_final;
  WEIR_RETURN_IF_ERROR(template_flag(fields, kwargs, "add_generation_prompt", add_generation_prompt));
  if (continue_final && add_generation_prompt) {
    return fail_at("continue_final_message", ErrorCode::kInvalidArgument,
                   "continue_final_message and add_generation_prompt cannot both be true");
  }
  kwargs["add_generation_prompt"] = add_generation_prompt;
  kwargs.erase("continue_final_message");
  if (continue_final) kwargs["continue_final_message"] = true;
  return kwargs;
}

}  // namespace

Result<ChatInput> parse_chat_input(const Json& body) {
  WEIR_RETURN_IF_ERROR(check_object(body));
  const Fields fields(body);
  const Json* messages = fields.find("messages");
  if (!messages) return fail_at("messages", ErrorCode::kInvalidArgument, "messages is missing");
  if (!messages->is_array())
    return fail_at("messages", ErrorCode::kInvalidArgument, "messages must be a list, not {}",
                   describe_json(*messages));
  if (messages->empty())
    return fail_at("messages", ErrorCode::kInvalidArgument, "messages is empty; at least one message is needed");
  ChatInput out;
  out.messages = *messages;
  for (std::size_t i = 0; i < out.messages.size(); ++i) WEIR_RETURN_IF_ERROR(parse_message(i, out.messages[i]));
  WEIR_TRY(out.tools, parse_tools(fields));
  WEIR_TRY(out.kwargs, parse_template_kwargs(fields));
  return out;
}

Result<ChatRequest> parse_chat_request(const Json& body, const ParseContext& context) {
  WEIR_RETURN_IF_ERROR(check_object(body));
  const Fields fields(body);
  ChatRequest out;
  auto& generation = out.generation;
  generation.chat = true;
  generation.add_special_tokens = false;  // the template writes them
  WEIR_RETURN_IF_ERROR(parse_generation_fields(fields, context, generation));
  WEIR_RETURN_IF_ERROR(fields.boolean("include_reasoning", generation.include_reasoning));
  WEIR_RETURN_IF_ERROR(fields.boolean("parallel_tool_calls", generation.parallel_tool_calls));
  if (generation.echo)
    return fail_at("echo", ErrorCode::kUnsupported, "echo is not supported for chats; use /v1/completions");
  WEIR_RETURN_IF_ERROR(
      fields.integer("max_completion_tokens", 0, std::numeric_limits<std::int64_t>::max(), generation.max_tokens));
  bool logprobs = false;
  WEIR_RETURN_IF_ERROR(fields.boolean("logprobs", logprobs));
  std::int64_t top = 0;
  WEIR_RETURN_IF_ERROR(fields.integer("top_logprobs", 0, kMaxLogprobs, top));
  if (top > 0 && !logprobs)
    return fail_at("top_logprobs", ErrorCode::kInvalidArgument, "top_logprobs needs \"logprobs\": true");
  if (logprobs) generation.logprobs = static_cast<int>(top);
  WEIR_TRY(out.chat, parse_chat_input(body));
  return out;
}

}  // namespace weir::api
