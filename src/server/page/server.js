// Talking to the server: the key, errors, and streams of events.

const apiKey = {
  get value() { return sessionStorage.getItem("sluice.key") || ""; },
  set value(key) { sessionStorage.setItem("sluice.key", key); },
};

/// What went wrong with a request. `status` 0: nobody answered.
class RequestError extends Error {
  constructor(message, status, headers) {
    super(message);
    this.status = status;
    this.retryAfter = headers ? headers.get("Retry-After") : null;
    this.position = headers ? headers.get("X-Queue-Position") : null;
  }
}

async function request(path, options) {
  const headers = { ...(options && options.headers) };
  if (apiKey.value) headers.Authorization = `Bearer ${apiKey.value}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError("The server does not answer.", 0);
  }
  if (response.ok) return response;
  let message = `The server answered ${response.status}.`;
  try { message = (await response.json()).error.message; } catch { /* no words came with it */ }
  throw new RequestError(message, response.status, response.headers);
}

const getJson = async path => (await request(path)).json();

/// Which experts changed since the moment of an earlier answer (server/watch.h has the format).
async function getExperts(since) {
  const bytes = await (await request(`v1/experts?since=${since}`)).arrayBuffer();
  const view = new DataView(bytes), word = index => view.getUint32(4 * index, true);
  const cells = new Uint32Array(bytes.byteLength / 4 - 4);
  for (let i = 0; i < cells.length; ++i) cells[i] = word(i + 4);
  return { layers: word(0), experts: word(1), now: word(2) + word(3) * 2 ** 32, cells };
}

/// Server-sent events of a chat: { place: { before, seconds } } while it waits, then { data }.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", ended = false;
  while (!ended) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new RequestError("The connection to the server broke.", 0);
    }
    if (part.done) throw new RequestError("The server ended in the middle of the answer.", 0);
    rest += part.value;
    for (let end; !ended && (end = rest.indexOf("\n\n")) >= 0;) {
      const event = rest.slice(0, end);
      rest = rest.slice(end + 2);
      const place = /^: (\d+) before this one(?:, about (\d+) s)?/.exec(event);
      if (place) yield { place: { before: +place[1], seconds: place[2] === undefined ? null : +place[2] } };
      if (!event.startsWith("data: ")) continue;
      const data = event.slice(6);
      ended = data === "[DONE]";
      if (!ended) yield { data: JSON.parse(data) };
    }
  }
}
