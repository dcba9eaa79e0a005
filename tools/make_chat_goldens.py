#!/usr/bin/env python3
"""Makes tests/golden/chat/templates.json: chat templates and what Jinja2 makes of them.

  pip install jinja2 && python3 tools/make_chat_goldens.py tests/golden/chat/templates.json
The templates use what the templates of models use; transformers renders with these settings.
"""
import datetime
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
    # In the style of Gemma 3's: contents may be lists of parts, a system message goes before the first
    # user's.
    "gemma": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set before = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set before = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set before = "" -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\n' + (before if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<start_of_image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{ '<start_of_turn>model\n' }}
{%- endif -%}
""",
    # In the style of Llama 3.1's: tools in the user's turn, built-in ones named in the system's.
    "llama-3": """{{- bos_token }}
{%- if custom_tools is defined %}{% set tools = custom_tools %}{% endif %}
{%- if not tools_in_user_message is defined %}{% set tools_in_user_message = true %}{% endif %}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}{% set date_string = strftime_now("%d %b %Y") %}
    {%- else %}{% set date_string = "26 Jul 2024" %}{% endif %}
{%- endif %}
{%- if not tools is defined %}{% set tools = none %}{% endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}{% set messages = messages[1:] %}
{%- else %}{% set system_message = "" %}{% endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{%- if builtin_tools is defined or tools is not none %}{{- "Environment: ipython\n" }}{% endif %}
{%- if builtin_tools is defined %}
    {{- "Tools: " + builtin_tools | reject('equalto', 'code_interpreter') | join(", ") + "\n\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\n\n" }}
{{- system_message + "<|eot_id|>" }}
{%- if tools_in_user_message and not tools is none %}
    {%- if messages | length != 0 %}
        {%- set first = messages[0]['content']|trim %}{% set messages = messages[1:] %}
    {%- else %}{{- raise_exception("no first user message") }}{% endif %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\nFunctions:\n\n' -}}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- "\n\n" }}{% endfor %}
    {{- first + "<|eot_id|>" }}
{%- endif %}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}{{- raise_exception("one call at a time") }}{% endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n{"name": "' + tool_call.name + '", "parameters": ' }}
        {{- tool_call.arguments | tojson }}{{- "}<|eot_id|>" }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}{{- message.content }}{% endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}
""",
    # In the style of Qwen 2.5's and 3's: tools in the system's turn, calls and results in tags.
    "qwen": """{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] }}
    {%- else %}{{- 'You are a helpful assistant.' }}{%- endif %}
    {{- "\n\n# Tools\n\n<tools>" }}
    {%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}{{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}{{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}{{- '\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}{{- tool_call.name }}{{- '", "arguments": ' }}
            {{- tool_call.arguments if tool_call.arguments is string else tool_call.arguments | tojson }}{{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\n<tool_response>\n' }}{{- message.content }}{{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}{{- '<|im_end|>\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- endif %}
""",
    # In the style of Mistral's: turns without tools are counted, and the last user's turn gets them.
    "mistral": """{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, conversation roles must alternate user/assistant/user/assistant/...") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[AVAILABLE_TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}{{- ", " }}{%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" }}{%- endif %}
            {%- endfor %}
            {{- "[/AVAILABLE_TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " + system_message + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST] " + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[TOOL_CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = tool_call.function|tojson %}
            {{- out[:-1] }}
            {%- if not tool_call.id is defined or tool_call.id|length != 9 %}
                {{- raise_exception("Tool call IDs should be alphanumeric strings with length 9!") }}
            {%- endif %}
            {{- ', "id": "' + tool_call.id + '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " + message["content"]|trim + eos_token}}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {{- '[TOOL_RESULTS] {"content": ' + message.content|string + ", " }}
        {{- '"call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
""",
    # In the style of DeepSeek R1's and QwQ's: thoughts are left out of earlier answers, and the prompt opens
    # the next one, whatever was asked for.
    "reasoner": """{{ bos_token }}
{%- for message in messages %}
    {%- if message.role == 'assistant' %}
        {%- set said = message.content.split('</think>')[-1] if '</think>' in message.content else message.content %}
        {{- '<|im_start|>assistant\n' + said + eos_token }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n<think>\n' }}{%- endif %}
""",
    # In the style of Kimi K2's: turns without new lines, tools declared in a turn of their own.
    "kimi": """{%- if tools -%}
    {{ '<|im_system|>tool_declare<|im_middle|>' + tools | tojson + '<|im_end|>' }}
{%- endif -%}
{%- if messages[0].role != 'system' -%}
    {{ '<|im_system|>system<|im_middle|>Be helpful.<|im_end|>' }}
{%- endif -%}
{%- for message in messages -%}
    {%- set kind = message.role if message.role in ['user', 'assistant'] else 'system' -%}
    {{ '<|im_' ~ kind ~ '|>' ~ (message.get('name') or message.role) ~ '<|im_middle|>' }}
    {%- if message.content is string -%}
        {{ message.content }}
    {%- elif message.content is not none -%}
        {%- for part in message.content -%}{{ part['text'] }}{%- endfor -%}
    {%- endif -%}
    {{ '<|im_end|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_assistant|>assistant<|im_middle|>' }}{%- endif -%}
""",
    # In the style of Kimi K2-Thinking's: macros write turns, and a loop is left at the last answer.
    "kimi-macros": """{%- macro content_of(message) -%}
    {%- set all = message.get('content') -%}
    {%- if all is string -%}
      {{ all }}
    {%- elif all is not none -%}
      {% for part in all -%}
        {% if part['type'] == 'image' -%}
          <image>
        {% else -%}
          {{ part['text'] }}
        {%- endif -%}
      {%- endfor -%}
    {%- endif -%}
{%- endmacro -%}

{% macro opening(message, kind='system') -%}
  {%- if message.role in ['user', 'assistant'] -%}{%- set kind = message.role -%}{%- endif -%}
  <|im_{{ kind }}|>{{ message.get('name') or message['role'] }}<|im_middle|>
{%- endmacro -%}

{%- macro calls_of(message) -%}
  {%- for call in message['tool_calls'] -%}
    <call {{ call['id'] }}>{% if call['function']['arguments'] is string %}{{ call['function']['arguments'] }}{% else %}{{ call['function']['arguments'] | tojson }}{% endif %}</call>
  {%- endfor -%}
{%- endmacro -%}

{%- set seen = namespace(answer=-1) -%}
{%- for i in range(messages|length-1, -1, -1) -%}
    {%- if messages[i]['role'] != 'assistant' -%}{%- continue -%}{%- endif -%}
    {%- if not messages[i].get('tool_calls') -%}
        {%- set seen.answer = i -%}
        {%- break -%}
    {%- endif -%}
{%- endfor -%}
{%- for message in messages[:seen.answer+1] -%}
  {{opening(message)}}
  {%- if message['role'] == 'assistant' -%}
    <think></think>{{content_of(message)}}
    {%- if message.get('tool_calls') -%}
      {{calls_of(message)}}
    {%- endif -%}
  {%- else -%}
    {{content_of(message=message)}}
  {%- endif -%}
  <|im_end|>
{%- endfor -%}
{%- for message in messages[seen.answer+1:] -%}
  {{opening(kind='system', message=message)}}
  {%- if message['role'] == 'assistant' -%}
    <think>{{ message.get('reasoning_content', '') }}</think>{{content_of(message)}}{{calls_of(message)}}
  {%- else -%}
    {{content_of(message)}}
  {%- endif -%}
  <|im_end|>
{%- endfor -%}
{%- if add_generation_prompt -%}
  <|im_assistant|>assistant<|im_middle|>
{%- endif -%}
""",
    # In the style of gpt-oss's: a macro that calls itself over a schema, the date, names that a macro sets
    # for itself alone, and answers in channels.
    "channels": """{%- macro kind_of(schema, required=[], nested=false) -%}
    {%- if schema.type == "array" -%}
        {%- set inner = kind_of(schema['items'] or {}, nested=true) -%}
        {{- "list of " + inner if inner|length < 30 else "list" }}
    {%- elif schema.type is defined and schema.type is iterable and schema.type is not string -%}
        {{- schema.type | join(" | ") }}
    {%- elif schema.enum -%}
        {{- '"' + schema.enum|join('" or "') + '"' }}
    {%- elif schema.type == "object" and schema.properties -%}
        {{- "{" }}
        {%- for name, each in schema.properties.items() -%}
            {%- if loop.index > 3 and nested -%}{{- ", ..." }}{%- break -%}{%- endif -%}
            {{- ("" if loop.first else ", ") + name + ("" if name in required else "?") + ": " }}
            {{ kind_of(each, each.required or [], true) }}
            {%- if each.default is defined %}
                {{- " = " + each.default|tojson }}
            {%- endif -%}
        {%- endfor -%}
        {{- "}" }}
    {%- else -%}
        {{- schema.type or "any" }}
    {%- endif -%}
{%- endmacro -%}

{%- macro system_message() -%}
    {%- if effort is not defined %}
        {%- set effort = "medium" %}
    {%- endif %}
    {{- "Date: " + strftime_now("%Y-%m-%d, %B %d %H:%M") + "\n" }}
    {{- "Reasoning: " + effort }}
{%- endmacro -%}

{%- macro message(who, text, channel=none) -%}
    {{- "<|start|>" + who }}
    {%- if channel is not none -%}{{- "<|channel|>" + channel }}{%- endif -%}
    {{- "<|message|>" + text }}
{%- endmacro -%}

{{- message("system", system_message()) + "<|end|>" }}
{{- effort is defined }}
{%- if messages[0].role == "system" or messages[0].role == "developer" %}
    {%- set instructions = messages[0].content %}
    {%- set rest = messages[1:] %}
{%- else %}
    {%- set instructions = "" %}
    {%- set rest = messages %}
{%- endif %}
{%- if instructions or tools %}
    {{- "<|start|>developer<|message|>" + instructions }}
    {%- for tool in tools or [] %}
        {%- set tool = tool.function %}
        {{- "\ntype " + tool.name + " = (_: " + kind_of(tool.parameters, tool.parameters.required or []) + ") => any;" }}
    {%- endfor %}
    {{- "<|end|>" }}
{%- endif %}
{%- set last = namespace(name=none) %}
{%- for each in rest -%}
    {%- if each.role == 'assistant' and "tool_calls" in each -%}
        {%- set is_answered = namespace(yes=false) %}
        {%- for later in rest[loop.index:] %}
            {%- if later.role == 'assistant' and "tool_calls" not in later %}
                {%- set is_answered.yes = true %}
                {%- break %}
            {%- endif %}
        {%- endfor %}
        {%- set call = each.tool_calls[0].function %}
        {{- message("assistant to=functions." + call.name, call.arguments|tojson, channel="commentary json") + "<|call|>" }}
        {{- "" if is_answered.yes else "?" }}
        {%- set last.name = call.name %}
    {%- elif each.role == 'assistant' -%}
        {{- message(channel="final", text=each.content, who="assistant") }}
        {{- "<|return|>" if loop.last and not add_generation_prompt else "<|end|>" }}
        {%- set last.name = none %}
    {%- elif each.role == 'tool' -%}
        {%- if last.name is none %}
            {{- raise_exception("a result of no call") }}
        {%- endif %}
        {{- message("functions." + last.name + " to=assistant", each.content|tojson, "commentary") + "<|end|>" }}
    {%- else -%}
        {{- message("user", each.content) + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
<|start|>assistant
{%- endif -%}
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
SCHEMA = {"type": "object", "required": ["city"], "properties": {
    "city": {"type": "string"}, "unit": {"enum": ["C", "F"], "default": "C"}, "days": {"type": ["integer", "null"]},
    "at": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
    "more": {"type": "array", "items": {"type": "object", "required": ["b"], "properties": {
        "a": {}, "b": {"type": "boolean", "default": True}, "c": {"type": "object"}, "d": {}, "e": {}}}}}}
NESTED = [{"type": "function", "function": {"name": "g", "parameters": SCHEMA}}]
CALLED = [{"role": "assistant", "content": "", "tool_calls": [
              {"id": "call12345", "type": "function",
               "function": {"name": "f", "arguments": "{\"x\": \"<|im_end|>\"}"}}]},
          {"role": "tool", "tool_call_id": "call12345", "content": "42"},
          {"role": "assistant", "content": "It is 42."}, {"role": "user", "content": "Thanks"}]
CASES = [
    dict(messages=TALK, add_generation_prompt=True),
    dict(messages=[SYSTEM] + TALK, add_generation_prompt=True),
    dict(messages=TALK[:1], add_generation_prompt=False),
    dict(messages=THOUGHT, add_generation_prompt=True, enable_thinking=False),
    dict(messages=TALK[:1], add_generation_prompt=True, tools=TOOLS),
    dict(messages=[TALK[0], TALK[0]], add_generation_prompt=True),
    dict(messages=[SYSTEM, TALK[0]] + CALLED, add_generation_prompt=True, tools=TOOLS),
    dict(messages=[TALK[0]] + CALLED[:2], add_generation_prompt=True, tools=NESTED),
]


NOW = datetime.datetime(2026, 2, 3, 4, 5, 6)


def raise_exception(message):
    raise TemplateError(message)


def main(out):
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                extensions=["jinja2.ext.loopcontrols"])
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = NOW.strftime
    environment.filters["tojson"] = lambda x, indent=None: json.dumps(
        x, ensure_ascii=False, indent=indent)
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
