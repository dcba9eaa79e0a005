"""The official openai package, unmodified, against a running server: chat, stream, tools, errors.

    tests/clients/openai_client.py BASE_URL MODEL
"""
import json
import sys
import time

import openai


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def chat(client, model):
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "A whale?"}]
    common = dict(model=model, messages=messages, max_completion_tokens=32, seed=3)
    whole = client.chat.completions.create(**common)
    choice = whole.choices[0]
    check(choice.finish_reason in ("stop", "length"), choice.finish_reason)
    check(whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens, "usage")

    content, reasoning, finish, usage = "", "", None, None
    stream = client.chat.completions.create(**common, stream=True, stream_options={"include_usage": True})
    for chunk in stream:
        usage = chunk.usage or usage
        for each in chunk.choices:
            content += each.delta.content or ""
            reasoning += getattr(each.delta, "reasoning_content", None) or ""
            finish = each.finish_reason or finish
    check(content == (choice.message.content or ""), "streamed text differs")
    check(reasoning == (getattr(choice.message, "reasoning_content", None) or ""), "streamed reasoning differs")
    check(finish == choice.finish_reason, "streamed end differs")
    check(usage.completion_tokens == whole.usage.completion_tokens, "streamed usage differs")

    likely = client.chat.completions.create(**common, logprobs=True, top_logprobs=2, reasoning_effort="none")
    first = likely.choices[0].logprobs.content[0]
    check(first.logprob <= 0 and len(first.top_logprobs) == 2, "logprobs")

    for turn in range(2):  # a conversation that goes on
        messages += [{"role": "assistant", "content": choice.message.content or ""},
                     {"role": "user", "content": "And then?"}]
        more = client.chat.completions.create(**{**common, "messages": messages})
        choice = more.choices[0]
        check(more.usage.prompt_tokens_details.cached_tokens >= 0, "cached")


def tools(client, model):
    weather = {"type": "function", "function": {
        "name": "weather", "description": "The weather in a city", "strict": True,
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 8}},
                       "required": ["city"], "additionalProperties": False}}}
    for choice in ("required", {"type": "function", "function": {"name": "weather"}}):
        asked = client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "Weather?"}], tools=[weather],
            tool_choice=choice, parallel_tool_calls=False, reasoning_effort="none",
            max_completion_tokens=200, seed=1)
        check(asked.choices[0].finish_reason == "tool_calls", asked)
        (call,) = asked.choices[0].message.tool_calls
        check(call.function.name == "weather", call)
        check(list(json.loads(call.function.arguments)) == ["city"], call)
    # A result of a tool goes back, as an agent would send it.
    call = {"id": "call_1", "type": "function",
            "function": {"name": "weather", "arguments": json.dumps({"city": "Oslo"})}}
    answered = client.chat.completions.create(
        model=model, tools=[weather], max_completion_tokens=8, seed=1,
        messages=[{"role": "user", "content": "Weather?"},
                  {"role": "assistant", "content": None, "tool_calls": [call]},
                  {"role": "tool", "tool_call_id": "call_1", "content": "rain"}])
    check(answered.usage.prompt_tokens > 0, "tool result")


def completions(client, model):
    whole = client.completions.create(model=model, prompt="It was on a dreary night", max_tokens=16,
                                      temperature=0, n=1, echo=True)
    text = "".join(chunk.choices[0].text for chunk in client.completions.create(
        model=model, prompt="It was on a dreary night", max_tokens=16, temperature=0, echo=True, stream=True))
    check(text == whole.choices[0].text, "streamed completion differs")
    check(text.startswith("It was on a dreary night"), "echo")


def errors(client, model):
    def refused(kind, **request):
        try:
            client.chat.completions.create(**request)
        except kind as error:
            return error
        raise AssertionError(f"not refused: {request}")

    messages = [{"role": "user", "content": "x"}]
    error = refused(openai.BadRequestError, model=model, messages=messages, temperature=1.5, top_p=7)
    check(error.param == "top_p", error)
    error = refused(openai.NotFoundError, model="another", messages=messages)
    check(error.code == "model_not_found", error)
    error = refused(openai.BadRequestError, model=model, messages=[{"role": "user", "content": "word " * 9000}])
    check(error.code == "context_length_exceeded", error)
    pattern = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "pattern": "a"}}}
    error = refused(openai.BadRequestError, model=model, messages=messages, response_format=pattern)
    check(error.param == "response_format.json_schema.schema.pattern", error)
    try:
        client.files.retrieve("file-none")
        raise AssertionError("found what is not there")
    except openai.NotFoundError:
        pass


def structured(client, model):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10},
                                               "masts": {"type": "integer", "minimum": 1, "maximum": 3}},
              "required": ["name", "masts"], "additionalProperties": False}
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "A ship?"}], seed=4, reasoning_effort="none",
        max_completion_tokens=200,
        response_format={"type": "json_schema", "json_schema": {"name": "ship", "strict": True, "schema": schema}})
    ship = json.loads(answer.choices[0].message.content)
    check(list(ship) == ["name", "masts"] and 1 <= ship["masts"] <= 3, ship)


def batch(client, model):
    lines = [json.dumps({"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions",
                         "body": {"model": model, "max_completion_tokens": 8,
                                  "messages": [{"role": "user", "content": f"Number {i}?"}]}}) for i in range(4)]
    lines.append(json.dumps({"custom_id": "bad", "method": "POST", "url": "/v1/chat/completions",
                             "body": {"model": model, "messages": [], "temperature": 9}}))
    file = client.files.create(file=("in.jsonl", "\n".join(lines).encode()), purpose="batch")
    check(client.files.content(file.id).text == "\n".join(lines), "content")
    made = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
    for _ in range(600):
        made = client.batches.retrieve(made.id)
        if made.status in ("completed", "failed", "cancelled"):
            break
        time.sleep(0.1)
    check(made.status == "completed", made)
    check((made.request_counts.completed, made.request_counts.failed) == (4, 1), made.request_counts)
    done = [json.loads(line) for line in client.files.content(made.output_file_id).text.splitlines()]
    check(sorted(each["custom_id"] for each in done) == ["r0", "r1", "r2", "r3"], done)
    check(all(each["response"]["status_code"] == 200 for each in done), done)
    failed = json.loads(client.files.content(made.error_file_id).text)
    check(failed["custom_id"] == "bad", failed)
    check(made.id in [each.id for each in client.batches.list()], "list")
    check(client.files.delete(file.id).deleted, "delete")


def main():
    base_url, model = sys.argv[1:]
    client = openai.OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=120)
    check([each.id for each in client.models.list()] == [model], "models")
    for part in (chat, tools, completions, structured, batch, errors):
        part(client, model)
        print(f"{part.__name__}: well")


main()
