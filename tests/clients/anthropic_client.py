"""The official anthropic package, unmodified, against a running server.

    tests/clients/anthropic_client.py BASE_URL MODEL
"""
import sys

import anthropic


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def main():
    base_url, model = sys.argv[1:]
    client = anthropic.Anthropic(base_url=base_url.removesuffix("/v1"), api_key="none", max_retries=0, timeout=120)
    messages = [{"role": "user", "content": "A whale?"}]
    greedy = {"extra_body": {"temperature": 0}}  # not every version of the package has the argument
    whole = client.messages.create(model=model, max_tokens=24, messages=messages, system="Be short.", **greedy)
    check(whole.stop_reason in ("end_turn", "max_tokens"), whole.stop_reason)
    text = "".join(block.text for block in whole.content if block.type == "text")
    print("whole: well")

    with client.messages.stream(model=model, max_tokens=24, messages=messages, system="Be short.", **greedy) as stream:
        streamed = "".join(stream.text_stream)
        final = stream.get_final_message()
    check(streamed == text, "streamed text differs")
    check(final.stop_reason == whole.stop_reason, "streamed end differs")
    check(final.usage.output_tokens == whole.usage.output_tokens, "streamed usage differs")
    print("streamed: well")

    tool = {"name": "weather", "description": "of a city",
            "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
    answered = client.messages.create(
        model=model, max_tokens=8, tools=[tool],
        messages=[{"role": "user", "content": "Weather?"},
                  {"role": "assistant", "content": [
                      {"type": "text", "text": "I look."},
                      {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}]},
                  {"role": "user", "content": [
                      {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain"}]}])
    check(answered.usage.output_tokens >= 0, "tools")
    print("tools: well")

    try:
        client.messages.create(model=model, max_tokens=8, messages=messages, extra_body={"temperature": 3})
        raise AssertionError("not refused")
    except anthropic.BadRequestError as error:
        check("temperature" in str(error), error)
    print("errors: well")


main()
