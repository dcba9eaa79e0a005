// The official @anthropic-ai/sdk package, unmodified, against a running server.
//     node tests/clients/anthropic_client.mjs BASE_URL MODEL    (where the package is found)
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(pathToFileURL(process.cwd() + "/"));
const { default: Anthropic } = await import(pathToFileURL(require.resolve("@anthropic-ai/sdk")));

const [baseURL, model] = process.argv.slice(2);
const client = new Anthropic({ baseURL: baseURL.replace(/\/v1$/, ""), apiKey: "none", maxRetries: 0 });
const messages = [{ role: "user", content: "A whale?" }];
const common = { model, messages, max_tokens: 24, temperature: 0 };
const textOf = (message) => message.content.map((block) => block.text ?? "").join("");

const whole = await client.messages.create(common);
const stream = client.messages.stream(common);
let text = "";
stream.on("text", (piece) => (text += piece));
const final = await stream.finalMessage();
assert.equal(text, textOf(whole));
assert.equal(final.stop_reason, whole.stop_reason);
assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
console.log("whole and streamed: well");

const tool = {
  name: "weather",
  strict: true,
  input_schema: {
    type: "object",
    properties: { city: { type: "string", maxLength: 8 } },
    required: ["city"],
    additionalProperties: false,
  },
};
const asked = await client.messages.create({
  ...common,
  max_tokens: 200,
  tools: [tool],
  tool_choice: { type: "any", disable_parallel_tool_use: true },
});
assert.equal(asked.stop_reason, "tool_use");
assert.deepEqual(asked.content.map(({ type, name }) => [type, name]), [["tool_use", "weather"]]);
assert.deepEqual(Object.keys(asked.content[0].input), ["city"]);
const answered = await client.messages.create({
  ...common,
  tools: [tool],
  messages: [
    ...messages,
    { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "weather", input: { city: "Oslo" } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "rain" }] },
  ],
});
const read = ({ usage }) => usage.input_tokens + usage.cache_read_input_tokens;
assert.ok(read(answered) > read(whole));
console.log("tools: well");

await assert.rejects(client.messages.create({ ...common, temperature: 3 }), (error) => {
  assert.ok(error instanceof Anthropic.BadRequestError);
  assert.match(error.message, /temperature/);
  return true;
});
await assert.rejects(client.messages.create({ ...common, model: "another" }), Anthropic.NotFoundError);
console.log("errors: well");
