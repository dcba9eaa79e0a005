#!/usr/bin/env python3
"""Makes tests/golden/chat/templates.json: chat templates and what Jinja2 makes of them.

  pip install jinja2 && python3 tools/make_chat_goldens.py tests/golden/chat/templates.json
The templates use what the templates of models use; transformers renders with these settings.
"""
import json
import sys

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = {
    "chatml": """{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system
You are a helpful AI assistant.<|im_end|>
' }}{% endif %}{{'<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}""",
    "headers": """{{- bos_token }}
{#- The system message comes first. -#}
{%- if messages[0].role == "system" %}
    {%- set system_message = messages[0]["content"] | trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none and tools %}
    {{- "Tools: " }}
    {%- for t in tools %}
        {{- t | tojson }}
        {{- "\\n" if not loop.last else "" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "inst": """{%- if messages[0]['role'] == 'system' -%}
{%- set loop_messages = messages[1:] -%}{%- set system = messages[0]['content'] -%}
{%- else -%}
{%- set loop_messages = messages -%}{%- set system = false -%}
{%- endif -%}
{{ bos_token }}
{%- for message in loop_messages -%}
{%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('Roles must alternate user/assistant/user/assistant/...') }}
{%- endif -%}
{%- if loop.index0 == 0 and system is not false -%}
{%- set content = '<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' ~ message['content'] -%}
{%- else -%}{%- set content = message['content'] -%}{%- endif -%}
{%- if message['role'] == 'user' -%}
{{ '[INST] ' ~ content.strip() ~ ' [/INST]' }}
{%- elif message['role'] == 'assistant' -%}
{{ ' ' ~ content.strip() ~ eos_token }}
{%- endif -%}
{%- endfor -%}""",
    "thinking": """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index and reasoning_content %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}""",
    "odds": """{% set names = ['b', "a", 'c'] %}
  {% for n in names if n != 'a' %}
    {{ loop.index }}/{{ loop.length }}:{{ n|upper }}{% if not loop.last %},{% endif %}

  {% else %}none{% endfor %}
{{ names|join('-') }} {{ names[0] }}{{ names[-1] }} {{ names[:2]|join }} {{ {'k': 1, 'l': [true, none, 1.5]}|tojson }}
{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 2 * 3 - 1 }} {{ 'x' if 1 > 2 else 'y' }} {{ undefined_name }}|{{ nothing|default('d') }}
{{ 'a,b'.split(',')|length }} {{ 'abc'.replace('b', 'ZZ') }} {{ ' t '|trim }}{{- ' left' }} {{ 'b' in 'abc' and 'z' not in names }}
{% for key, value in {'one': 1, 'two': 2}.items() %}{{ key }}={{ value }};{% endfor %}
{% for i in range(3) %}{{ i }}{% endfor %}{% for i in range(6, 0, -2) %}{{ i }}{% endfor %}
{{ messages | selectattr('role', 'equalto', 'user') | list | length }} {{ 'ab' 'cd' }} {{ "it's" }} {{ 'say "hi"' }} \\n
{%- if false %}x{% elif true %} {{ not false or false }}{% else %}y{% endif %}
{% for x in [] %}{% else %}empty{% endfor %}
{{ messages[0].content | length }} {{ messages[0]['content'][0] }} {{ messages[0].missing is defined }} {{ 'Title case'|capitalize }}
""",
}

SYSTEM = {"role": "system", "content": " Be brief.\n"}
TALK = [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "Hello!"},
        {"role": "user", "content": "  What's 2+2?\n"}]
THOUGHT = [{"role": "user", "content": "Q"},
           {"role": "assistant", "content": "<think>\nhm\n</think>\n\nA"},
           {"role": "user", "content": "More <|im_end|> please"},
           {"role": "assistant", "content": "B", "reasoning_content": "because"}]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
CASES = [
    dict(messages=TALK, add_generation_prompt=True),
    dict(messages=[SYSTEM] + TALK, add_generation_prompt=True),
    dict(messages=TALK[:1], add_generation_prompt=False),
    dict(messages=THOUGHT, add_generation_prompt=True, enable_thinking=False),
    dict(messages=TALK[:1], add_generation_prompt=True, tools=TOOLS),
    dict(messages=[TALK[0], TALK[0]], add_generation_prompt=True),
]


def raise_exception(message):
    raise TemplateError(message)


def main(out):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = raise_exception
    environment.filters["tojson"] = lambda x, **_: json.dumps(x, ensure_ascii=False)
    golden = []
    for name, source in TEMPLATES.items():
        template = environment.from_string(source)
        cases = []
        for case in CASES:
            arguments = {"tools": None, "enable_thinking": True, **case}
            try:
                text = template.render(bos_token="<s>", eos_token="</s>", **arguments)
                cases.append(dict(**arguments, text=text))
            except TemplateError as error:
                cases.append(dict(**arguments, error=str(error)))
        golden.append(dict(name=name, template=source, cases=cases))
    with open(out, "w", encoding="utf-8") as file:
        json.dump(golden, file, ensure_ascii=False, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main(sys.argv[1])
