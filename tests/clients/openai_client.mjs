// The official openai package of npm, unmodified, against a running server.
//     node tests/clients/openai_client.mjs BASE_URL MODEL    (where the package is found)
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const { default: OpenAI, toFile } = await import(pathToFileURL(require.resolve("openai")));

const [baseURL, model] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "A whale?" }];
const common = { model, messages, max_completion_tokens: 24, seed: 3, reasoning_effort: "none" };

const whole = await client.chat.completions.create(common);
let text = "";
let finish;
const stream = await client.chat.completions.create({ ...common, stream: true, stream_options: { include_usage: true } });
for await (const chunk of stream) {
  text += chunk.choices[0]?.delta.content ?? "";
  finish = chunk.choices[0]?.finish_reason ?? finish;
}
assert.equal(text, whole.choices[0].message.content);
assert.equal(finish, whole.choices[0].finish_reason);
console.log("chat, streamed and whole: well");

const tool = {
  type: "function",
  function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } },
};
const call = { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city": "Oslo"}' } };
const answered = await client.chat.completions.create({
  ...common,
  tools: [tool],
  messages: [
    ...messages,
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "call_1", content: "rain" },
  ],
});
assert.ok(answered.usage.prompt_tokens > whole.usage.prompt_tokens);
console.log("tools: well");

const ship = await client.chat.completions.create({
  ...common,
  max_completion_tokens: 200,
  response_format: {
    type: "json_schema",
    json_schema: {
      name: "ship",
      schema: {
        type: "object",
        properties: { kind: { enum: ["brig", "sloop"] } },
        required: ["kind"],
        additionalProperties: false,
      },
    },
  },
});
assert.ok(["brig", "sloop"].includes(JSON.parse(ship.choices[0].message.content).kind));
console.log("structured answers: well");

const line = JSON.stringify({
  custom_id: "one",
  method: "POST",
  url: "/v1/chat/completions",
  body: { model, messages, max_completion_tokens: 8 },
});
const file = await client.files.create({ file: await toFile(Buffer.from(line), "in.jsonl"), purpose: "batch" });
let batch = await client.batches.create({
  input_file_id: file.id,
  endpoint: "/v1/chat/completions",
  completion_window: "24h",
});
for (let i = 0; i < 600 && !["completed", "failed"].includes(batch.status); ++i) {
  await new Promise((done) => setTimeout(done, 100));
  batch = await client.batches.retrieve(batch.id);
}
assert.equal(batch.status, "completed");
const output = await (await client.files.content(batch.output_file_id)).text();
assert.equal(JSON.parse(output).custom_id, "one");
console.log("batch: well");

await assert.rejects(client.chat.completions.create({ ...common, temperature: 7 }), (error) => {
  assert.ok(error instanceof OpenAI.BadRequestError);
  assert.equal(error.param, "temperature");
  return true;
});
await assert.rejects(client.chat.completions.create({ ...common, model: "another" }), OpenAI.NotFoundError);
console.log("errors: well");
