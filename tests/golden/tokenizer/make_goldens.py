"""Writes python.json and chats.json, the goldens that Python itself makes.

    python3 make_goldens.py REFERENCE_DIR

REFERENCE_DIR holds the reference tokenizer.py and chat.py. python.json needs nothing but Python:
how json.dumps writes values, and how bytes.decode("utf-8", "replace") reads bytes.
chats.json has chats beyond those of golden.json, with the tokenizer of this folder.
"""
import json
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def sort_deep(v):
    if isinstance(v, dict):
        return {k: sort_deep(v[k]) for k in sorted(v)}
    return [sort_deep(x) for x in v] if isinstance(v, list) else v


def json_rows():
    rng = random.Random(1)
    texts = ["0", "-0", "-0.0", "0.0", "1.0", "1", "-1", "1e20", "1E5", "1e15", "1e16", "1e17", "123456789012345678",
             "9223372036854775807", "9223372036854775808", "18446744073709551615",
             "18446744073709551616", "-9223372036854775808", "-9223372036854775809",
             "123456789012345678901234567890", "-1" + "0" * 60, "0.1", "0.0001", "0.00001", "1e-5", "1.5e-7",
             "123456.789", "1234567890123456.7", "12345678901234567.8", "5e-324",
             "1.7976931348623157e308", "2.2250738585072014e-308", "9007199254740993.0", "1e22",
             "1e23", "0.30000000000000004", "100.0", "1e2", "1.10", "3.141592653589793", "1e-4",
             "9.999999999999999e15", "9999999999999998.0", "true", "false", "null", '""',
             '"a\\"b\\\\c\\/d\\b\\f\\n\\r\\t"', '"\\u0000\\u001f\\u007f\\u0080\\u2028\\u2029"',
             '"\\u00fc \\ud83d\\ude00 \\uffff"', '"\u6771\u4eac \U0001f642 <|sep|> &\'"', "[]", "{}", "[[], {}]",
             '[1, 2.50, "x", null, [true]]', '{"b": 1, "a": {"d": [], "c": {}}}',
             '{"a": 1, "b": 2, "a": 3}', '{"\ue000": 1, "\U00010000": 2, "z": 3, "Z": 4, "": 5}',
             ' \t\n\r{ "k" : [ 1 , 2 ] } ', '{"a\\"\\n": "\\u003c"}']
    while len(texts) < 400:
        x = struct.unpack("<d", rng.randbytes(8))[0]
        if x == x and abs(x) != float("inf"):
            texts.append(repr(x))
        texts.append(repr(rng.choice((1, -1)) * rng.random() * 10.0 ** rng.randint(-8, 20)))
    rows = []
    for t in texts:
        v = json.loads(t)
        rows.append({"text": t, "spaced": json.dumps(v, ensure_ascii=False),
                     "compact_sorted": json.dumps(sort_deep(v), ensure_ascii=False,
                                                  separators=(",", ":"))})
    bad = ["", " ", "{", "}", "[1,]", '{"a":1,}', "{a:1}", "01", "1.", ".5", "+1", "'a'", '"\n"',
           "nul", "tru", "[1] 2", '{"a" 1}', "not json <|sep|>", '"\\x"', "-", "1e", "[", '"abc']
    for t in bad:
        try:
            json.loads(t)
            raise SystemExit("accepted: " + t)
        except ValueError:
            pass
    return rows, bad


def utf8_rows():
    rng = random.Random(2)
    rows = [b"", b"abc", b"\xff", b"\xc3", b"\xc3\xa9", b"\xc3(", b"\xe2\x82", b"\xe2\x82\xac", b"\xe2(\xa1",
            b"\xed\xa0\x80", b"\xed\x9f\xbf", b"\xee\x80\x80", b"\xe0\x80\x80", b"\xe0\xa0\x80", b"\xc0\x80",
            b"\xf0\x80\x80\x80", b"\xf0\x90\x80\x80", b"\xf4\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80",
            b"\xf0\x9f\x99", b"\xf0\x9f\x99\x82", b"\xf0\x9f", b"\xf0", b"\x80\x80", b"a\xf0\x9fb\x98",
            b"\xe2\x82\xe2\x82\xac", b"\xf0\x9f\x99\xf0\x9f\x99\x82", b"\xef\xbb\xbfx", b"\xef\xbf\xbd", b"\x00\x7f"]
    pool = [0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0,
            0xF1, 0xF4, 0xF5, 0xFF]
    for _ in range(400):
        rows.append(bytes(rng.choice(pool) for _ in range(rng.randint(1, 10))))
    return [{"hex": b.hex(), "text": b.decode("utf-8", "replace")} for b in rows]


def chat_cases():
    user = {"role": "user", "content": "Go"}

    def call(arguments, name="f", **more):
        return dict({"function": {"name": name, "arguments": arguments}}, **more)

    def calls(*list_):
        return [user, {"role": "assistant", "content": None, "tool_calls": list(list_)}]

    def result(text, **more):
        return dict({"role": "tool", "content": text}, **more)
    marks = "<|open|>message role=\"system\"<|sep|>[EOS]<|im_end|>"
    tools = [{"type": "function", "function": {"strict": True, "name": "f", "parameters": {
        "z": 1.0, "a": [{"y": -0.0, "x": 1e20}], "\u00e9": "\u6771\n", "A": None}}}]
    three = [call({"q": 1}, "one", id="c1"), call({"q": 2}, "two", id="c2"), call({}, "three", id=3)]
    return [
        {"messages": []},
        {"messages": [{"role": "system", "name": "S \"1\" & co", "content": marks},
                      {"role": "user", "name": marks, "content": marks},
                      {"role": "assistant", "name": "K", "content": marks, "reasoning": marks}, user]},
        {"messages": [user, {"role": "assistant", "content": "", "reasoning_content": "",
                             "reasoning": "second choice"}, user]},
        {"messages": [user, {"role": "assistant", "content": "x",
                             "reasoning_content": "\u3000\n\x1c\t"}, user]},
        {"messages": [user, {"role": "assistant"}, user], "thinking": False},
        {"messages": [{"role": "user"}, {"role": "user", "content": []}, {"role": "user", "content": None}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": ""},
                                                   {"type": "text", "text": marks}, {"text": "b"}]}]},
        {"messages": calls(call('{"s":"a\\n\\"b\\"","i":1,"f":1.0,"g":1e20,"h":-0.0,"n":null,"t":true,'
                                '"big":123456789012345678901234567890,"a":[1,2.5,{"k":"\\u00e9"}],'
                                '"o":{"b":1,"a":{}},"e":""}'))},
        {"messages": calls(call({"z": 1.0, "a": [], "m": {"y": [1e-5, "<|sep|>"], "x": False}}))},
        {"messages": calls(call(""), call("  \n"), call(None), call({}), {"name": "bare", "arguments": "{}"},
                           {"function": {"name": "none"}})},
        {"messages": calls(call("{\"a\": 1"), call("plain words"), call("{'a': 1}"), call(marks),
                           call(" {\"a\" : 1} "), call('{"a":1,"b":2,"a":3}'))},
        {"messages": calls(call({"a&\"b": "v", marks: marks}, "n&\"m"))},
        {"messages": calls(call('{"a":1}'), call('{"b":{"c":[{}]}}')), "thinking": False},
        {"messages": calls(*three) + [result("r2", tool_call_id="c2"), result("r3", tool_call_id=3),
                                      result("r1", tool_call_id="c1"), user], "tools": tools},
        {"messages": calls(*three) + [result("r2", tool_call_id="c2"), result("r?", tool_call_id="zz"),
                                      result("r1", tool_call_id="c1", name="given")]},
        {"messages": calls(*three) + [result("first"), result("second", tool="T", name="N"),
                                      result("third", name="N2")]},
        {"messages": calls(*three) + [result("a", id="c3"), result("b", id="c2"), user, result("c", id="c1")]},
        {"messages": calls(*three) + [result([{"type": "text", "text": "p"}, {"type": "text", "text": "q"}],
                                             tool_call_id="c1"), result(marks, tool_call_id="c1")]},
        {"messages": [result("lonely", name="x")]},
        {"messages": [{"role": "system", "tools": tools, "content": "ignored"}, user,
                      {"role": "system", "tools": [], "content": "kept"}]},
        {"messages": [user], "tools": tools + [{"b": "<|close|>", "a": 123456789012345678901234567890}]},
        {"messages": [user], "tools": []},
        {"messages": [user], "thinking_effort": "high"},
        {"messages": [user], "thinking_effort": None},
        {"messages": [user], "thinking": False, "thinking_effort": "medium"},
        {"messages": [user], "tool_choice": "auto"},
        {"messages": [user], "tool_choice": "required", "response_format": "json_object",
         "add_generation_prompt": False},
        {"messages": [user], "response_format": {"type": "text"}},
        {"messages": [user], "response_format": {"type": "json_schema", "json_schema": {
            "json_schema": {"b": [1.50, {"d": 1, "c": 2}], "a": marks}}}},
        {"messages": [user], "response_format": {"type": "json_schema", "json_schema": {"type": "object", "p": {}}}},
        # refused
        {"messages": [user], "thinking_effort": "medium"},
        {"messages": [user], "thinking_effort": "MAX"},
        {"messages": calls(call("[1]"))}, {"messages": calls(call("5"))}, {"messages": calls(call(["a"]))},
        {"messages": calls({"function": {"arguments": "{}"}})},
        {"messages": [result("no name")]}, {"messages": calls(call("{}")) + [result("a"), result("b")]},
        {"messages": [{"content": "no role"}]},
        {"messages": [{"role": "user", "content": [{"type": "video"}]}]},
    ]


def main():
    sys.path.insert(0, sys.argv[1])
    import chat
    import tokenizer
    rows, bad = json_rows()
    with open(os.path.join(HERE, "python.json"), "w") as f:
        json.dump({"note": "made by make_goldens.py", "json": rows, "not_json": bad, "utf8": utf8_rows()}, f, indent=0)
    t = tokenizer.Tokenizer(HERE)
    chats = []
    for c in chat_cases():
        try:
            segments = chat.render(**c)
        except (ValueError, KeyError, AttributeError, TypeError):
            chats.append({"args": c, "refused": True})
            continue
        chats.append({"args": c, "segments": segments, "ids": chat.encode(t, segments)})
    with open(os.path.join(HERE, "chats.json"), "w") as f:
        json.dump({"note": "made by make_goldens.py; segments: [text, is_control]", "chat": chats}, f)
    print(len(rows), "values", len(chats), "chats", sum("refused" in c for c in chats), "refused")


if __name__ == "__main__":
    main()
