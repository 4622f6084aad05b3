#!/usr/bin/env python3
"""Writes the expected outputs of tests/parity/templates and tests/unit/template with Hugging Face's own renderer.

    python3 tests/oracle/template_goldens.py        needs: transformers (or jinja2 >= 3.1.6 alone, see environment())

Reads   tests/parity/templates/*.jinja              real chat templates
        tests/unit/template/snippets.json           [source, context] pairs, one language feature each
Writes  tests/parity/templates/conversations.json   the contexts
        tests/parity/templates/goldens/NAME.json    {context name: output, or {"error": type, "message": text}}
        tests/unit/template/snippet_goldens.json    the same, a list in the order of the snippets
"""
import datetime
import json
import pathlib

import transformers.utils.chat_template_utils as hf

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEMPLATES = ROOT / "parity" / "templates"
SNIPPETS = ROOT / "unit" / "template"


class FixedDatetime(datetime.datetime):
    """strftime_now asks for the time; the C++ tests pass 1783242487 seconds in UTC."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 7, 5, 9, 8, 7)


hf.datetime = FixedDatetime

# --- conversations

SYSTEM = {"role": "system", "content": "You answer in one line."}
USER = {"role": "user", "content": "What is the weather in Zürich?"}
ASSISTANT = {"role": "assistant", "content": "It is 21 °C and sunny."}
AGAIN = {"role": "user", "content": "And tomorrow?"}

WEATHER_TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "Looks up the weather of a place.",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "The city's name, e.g. \"Zürich\" & <others>"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "description": "of temperature", "default": "celsius"},
        "days": {"type": "integer", "description": "how many", "default": 1}},
        "required": ["place"]}}}
RICH_TOOL = {"type": "function", "function": {
    "name": "book", "description": "Books a trip.",
    "parameters": {"type": "object", "properties": {
        "stops": {"type": "array", "items": {"type": "string"}, "description": "in order"},
        "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}, "description": "costs"},
        "options": {"type": "object", "properties": {"window": {"type": "boolean", "description": "seat"}}, "required": ["window"], "description": "wishes"},
        "either": {"type": ["string", "null"], "description": "may be null"},
        "one": {"oneOf": [{"type": "string", "description": "a name"}, {"type": "number", "default": 3}], "description": "of two"},
        "price": {"type": "number", "description": "at most", "nullable": True}},
        "required": ["stops", "options"]},
    "return": {"type": "string", "description": "the booking's number"}}}

def call(arguments, name="get_weather", id="abcde1234"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}

ARGUMENTS = {"place": "Zürich", "days": 2}
CALL_NULL = {"role": "assistant", "content": None, "tool_calls": [call(ARGUMENTS)]}
CALL_EMPTY = {"role": "assistant", "content": "", "tool_calls": [call(ARGUMENTS)]}
CALL_MISSING = {"role": "assistant", "tool_calls": [call(ARGUMENTS)]}
RESULT = {"role": "tool", "name": "get_weather", "tool_call_id": "abcde1234", "content": "{\"degrees\": 21.5}"}
ODD = "a > b & c < d, 'quotes' \"double\" é \\ back\tTab 你好 🙂\u200d\u2028 {{ x }} {% y %} <|im_end|>"
ODD_ARGUMENTS = {"b": "x > y & z 'q' é", "a": [1, 2.5, True, None, {"k": "ü\n"}], "big": 12345678901234567, "e": 1e-07, "f": 100000.0}

def conversations():
    plain = {
        "user": [USER],
        "system": [SYSTEM, USER],
        "turns": [SYSTEM, USER, ASSISTANT, AGAIN],
        "turns-no-system": [USER, ASSISTANT, AGAIN, ASSISTANT, {"role": "user", "content": "Thanks."}],
        "ends-with-assistant": [USER, ASSISTANT],
        "odd": [{"role": "system", "content": "  " + ODD + "\n\n"}, {"role": "user", "content": "\n " + ODD + " \n"},
                {"role": "assistant", "content": " \u3000" + ODD + "\u00a0 "}, AGAIN],
        "empty-content": [{"role": "system", "content": ""}, {"role": "user", "content": ""}],
        "two-users": [USER, AGAIN],
        "two-assistants": [SYSTEM, USER, ASSISTANT, ASSISTANT],
        "assistant-first": [ASSISTANT, USER],
        "late-system": [USER, SYSTEM, AGAIN],
        "null-content": [USER, {"role": "assistant", "content": None}, AGAIN],
        "list-content": [{"role": "user", "content": [{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "nice?"}]}],
        "list-text": [{"role": "system", "content": [{"type": "text", "text": "Be brief."}]}, {"role": "user", "content": [{"type": "text", "text": "Hi <b>"}]},
                      {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]}],
        "thinking": [USER, {"role": "assistant", "content": "<think>\nHm, \"clouds\".\n</think>\n\nSunny."}, AGAIN,
                     {"role": "assistant", "content": "<think>a</think>b"}],
        "reasoning": [USER, {"role": "assistant", "content": "Sunny.", "reasoning_content": "The sky is blue."}, AGAIN],
        "unknown-role": [{"role": "critic", "content": "No."}],
        "no-messages": [],
    }
    tools = {
        "tools": [SYSTEM, USER],
        "tool-call": [SYSTEM, USER, CALL_EMPTY, RESULT],
        "tool-call-null": [USER, CALL_NULL, RESULT, ASSISTANT, AGAIN],
        "tool-call-missing": [USER, CALL_MISSING, RESULT],
        "tool-odd": [USER, {"role": "assistant", "content": "", "tool_calls": [call(ODD_ARGUMENTS)]},
                     {"role": "tool", "name": "get_weather", "tool_call_id": "abcde1234", "content": json.dumps({"b": "> & ' é", "a": 1}, ensure_ascii=False)}],
        "tool-text-arguments": [USER, {"role": "assistant", "content": "Let me see.", "tool_calls": [call("{\"b\": 1, \"a\": \"é\"}")]}, RESULT],
        "tool-two-calls": [USER, {"role": "assistant", "content": "Both.", "tool_calls": [call({"place": "Bern"}), call({}, "book", "xyz987654")]},
                           RESULT, {"role": "tool", "name": "book", "tool_call_id": "xyz987654", "content": "ok"}, ASSISTANT],
        "tool-mapping-result": [USER, CALL_EMPTY, {"role": "tool", "tool_call_id": "abcde1234", "content": {"degrees": 21, "sky": "é > '"}}],
    }
    out = {}
    for name, messages in plain.items():
        for prompt in (True, False):
            out[name + ("" if prompt else "-closed")] = {"messages": messages, "add_generation_prompt": prompt}
    del out["unknown-role-closed"]
    for name, messages in tools.items():
        out[name] = {"messages": messages, "tools": [WEATHER_TOOL, RICH_TOOL] if name == "tools" else [WEATHER_TOOL], "add_generation_prompt": name != "tool-call"}
    out["tools-null"] = {"messages": [USER], "tools": None, "documents": None, "add_generation_prompt": True}
    out["tool-call-no-tools"] = {"messages": [USER, CALL_NULL, RESULT], "add_generation_prompt": True}
    out["no-thinking"] = {"messages": [SYSTEM, USER], "enable_thinking": False, "thinking": False, "add_generation_prompt": True}
    out["with-thinking"] = {"messages": [USER], "enable_thinking": True, "thinking": True, "thinking_budget": 600, "add_generation_prompt": True}
    out["dated"] = {"messages": [USER], "date_string": "01 Jan 2025", "tools_in_user_message": False, "tools": [WEATHER_TOOL], "add_generation_prompt": True}
    out["documents"] = {"messages": [USER], "documents": [{"doc_id": 7, "title": "Sky", "text": "Blue & 'bright'."}], "controls": {"length": "short", "citations": True}, "add_generation_prompt": True}
    out["built-in-tools"] = {"messages": [USER, {"role": "assistant", "tool_calls": [call({"query": "sky"}, "brave_search")]}], "builtin_tools": ["brave_search", "code_interpreter"], "add_generation_prompt": True}
    out["keep-thinking"] = {"messages": plain["thinking"], "keep_past_thinking": True, "use_json_tooldef": True, "tools": [WEATHER_TOOL], "add_generation_prompt": True}
    for context in out.values():
        context.setdefault("bos_token", "<s>")
        context.setdefault("eos_token", "</s>")
    return out


def render(source, context):
    try:
        return hf._compile_jinja_template(source).render(**json.loads(json.dumps(context)))
    except Exception as error:  # the reference's own words
        return {"error": type(error).__name__, "message": str(error)}


def dump(path, value):
    """One entry a line."""
    path.parent.mkdir(exist_ok=True)
    if isinstance(value, dict):
        body = ",\n".join(json.dumps(k) + ": " + json.dumps(v, ensure_ascii=False) for k, v in value.items())
        text = "{\n" + body + "\n}\n"
    else:
        text = "[\n" + ",\n".join(json.dumps(v, ensure_ascii=False) for v in value) + "\n]\n"
    path.write_text(text, encoding="utf-8", newline="")


def main():
    contexts = conversations()
    dump(TEMPLATES / "conversations.json", contexts)
    rendered = errors = 0
    for path in sorted(TEMPLATES.glob("*.jinja")):
        with open(path, encoding="utf-8", newline="") as file:
            source = file.read()
        outputs = {name: render(source, context) for name, context in contexts.items()}
        dump(TEMPLATES / "goldens" / (path.stem + ".json"), outputs)
        errors += sum(isinstance(o, dict) for o in outputs.values())
        rendered += len(outputs)
    print(f"{rendered} renderings, {errors} of them errors")
    if (SNIPPETS / "snippets.json").exists():
        snippets = json.loads((SNIPPETS / "snippets.json").read_text(encoding="utf-8"))
        outputs = [render(source, context) for source, context in snippets]
        dump(SNIPPETS / "snippet_goldens.json", outputs)
        print(f"{len(outputs)} snippets, {sum(isinstance(o, dict) for o in outputs)} of them errors")


if __name__ == "__main__":
    main()
