#!/usr/bin/env python3
"""Writes tests/golden/templates/*.jsonl: templates of our own and what Jinja2 makes of them with transformers' settings.

Needs Jinja2 3.1.6. The environment below is transformers' (5.x) as its documentation describes it: the immutable sandbox,
trim_blocks, lstrip_blocks, loop controls, {% generation %}, tojson by json.dumps, raise_exception and strftime_now.
"""

import copy
import datetime
import json
import os

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateError, TemplateSyntaxError, UndefinedError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from template_cases import CONVERSATIONS, TEMPLATES, VARIANTS, WEATHER
from template_units import UNITS

TAG = "CONTINUE_FINAL_MESSAGE_TAG "
NOW = "2026-07-04T12:05:09"


class Raised(Exception):
    pass


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_run"), [], [], body).set_lineno(line)

    def _run(self, caller):
        return caller()


class PublicNamespace(Namespace):
    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"underscore: {name}")

    def __init__(*args, **kwargs):
        Namespace.__init__(*args, **kwargs)
        for name in dict(*args[1:], **kwargs):
            PublicNamespace.check(name)

    def __setitem__(self, name, value):
        PublicNamespace.check(name)
        Namespace.__setitem__(self, name, value)


def environment(now):
    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise Raised(str(message))

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: datetime.datetime.fromisoformat(now).strftime(f)
    env.globals["namespace"] = PublicNamespace
    return env


def outcome(render):
    try:
        return {"expected": render()}
    except Raised as e:
        return {"error": str(e), "error_kind": "raise_exception"}
    except UndefinedError as e:
        return {"error": str(e), "error_kind": "undefined"}
    except TemplateSyntaxError as e:
        return {"error": str(e), "error_kind": "syntax"}
    except SecurityError as e:
        return {"error": str(e), "error_kind": "security"}
    except TemplateError as e:
        return {"error": str(e), "error_kind": "runtime"}
    except Exception as e:
        return {"error": str(e), "error_kind": f"python:{type(e).__name__}"}


def normalize(message):
    message = {k: v for k, v in message.items() if v is not None}
    for name in ("reasoning_content", "thinking", "reasoning"):
        if name in message:
            value = message[name]
            if "thinking" not in message:
                message = {"thinking": value, **message}
            message["reasoning_content"] = value
            break
    return message


def render_chat(source, request):
    messages = [normalize(m) for m in copy.deepcopy(request["messages"])]
    kwargs = dict(request["kwargs"])
    prompt = kwargs.pop("add_generation_prompt", False)
    field = kwargs.pop("continue_final_message", False)
    if field:
        field = "content" if field is True else field
        if prompt or field not in messages[-1] or field not in source:
            raise ValueError("cannot continue")
        final = messages[-1][field]
        if isinstance(final, list):
            part = [p for p in final if "text" in p][-1]
            final = part["text"]
            part["text"] += TAG
        else:
            for name in ("thinking", "reasoning_content", "reasoning") if field != "content" else (field,):
                if messages[-1].get(name) == final:
                    messages[-1][name] = final + TAG
    variables = {k: v for k, v in (("bos_token", request["bos_token"]), ("eos_token", request["eos_token"])) if v is not None}
    variables.update(documents=None, **kwargs)
    variables.update(messages=messages, tools=request["tools"], add_generation_prompt=prompt)
    text = environment(request["now"]).from_string(source).render(**variables)
    if field:
        if TAG.strip() not in text or final.strip() not in text:
            raise ValueError("the message is not in the text")
        at = text.rindex(TAG.strip())
        text = text[:at] if text[at:at + len(TAG)] == TAG else text[:at].rstrip()
    return text


def main():
    assert jinja2.__version__ == "3.1.6", jinja2.__version__
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "templates")
    os.makedirs(folder, exist_ok=True)
    for name, source in TEMPLATES.items():
        with open(os.path.join(folder, name + ".jinja"), "w", encoding="utf-8") as f:
            f.write(source)
    count = 0
    with open(os.path.join(folder, "chats.jsonl"), "w", encoding="utf-8") as f:
        for name, source in TEMPLATES.items():
            for conversation, messages in CONVERSATIONS.items():
                for variant, kwargs in VARIANTS.items():
                    if variant == "continue_reasoning" and conversation not in ("reasoning", "thinking", "one"):
                        continue
                    tools = [WEATHER] if conversation == "tools" else None
                    request = {"template": name, "case": f"{conversation}:{variant}", "messages": messages, "tools": tools,
                               "kwargs": kwargs, "bos_token": "<bos>", "eos_token": None, "now": NOW}
                    request.update(outcome(lambda: render_chat(source, request)))
                    f.write(json.dumps(request, ensure_ascii=False) + "\n")
                    count += 1
    with open(os.path.join(folder, "units.jsonl"), "w", encoding="utf-8") as f:
        for group, templates in UNITS.items():
            for i, entry in enumerate(templates):
                template, context = entry if isinstance(entry, tuple) else (entry, {})
                unit = {"name": f"{group}/{i}", "template": template, "context": context, "now": NOW}
                unit.update(outcome(lambda: environment(NOW).from_string(template).render(**context)))
                f.write(json.dumps(unit, ensure_ascii=False) + "\n")
                count += 1
    print(f"{count} cases with Jinja2 {jinja2.__version__}")


if __name__ == "__main__":
    main()
