// One streamed chat completion: the events of the answer as they come, and an end that is reported once.

import {errorOf} from "./router_api.js";

const MOST_LINE = 1 << 22;  // characters of an event: no answer of ours is longer

// The `data:` of server-sent events, in order. Comments (the router's pings) are left out.
async function* eventsOf(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      rest += decoder.decode(value, {stream: true});
      const lines = rest.split("\n");
      rest = lines.pop();
      if (rest.length > MOST_LINE) throw new Error("an event of the answer is too long");
      for (const line of lines) {
        if (line.startsWith("data:")) yield line.slice("data:".length).trim();
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// A chunk as an object. Seeds have 64 bits, more than a number here: they stay the text that they are. A quote within a string is
// escaped, so only a member of that name is found.
function parseChunk(data) {
  return JSON.parse(data.replace(/"seed":(-?\d+)/g, '"seed":"$1"'));
}

// Streams the answer of `body`. `onChunk` gets each chunk. Resolves to undefined when the answer is whole, to {error} when it is
// not, and to {stopped: true} when `signal` was aborted.
export async function streamChat(body, requestId, signal, onChunk) {
  try {
    const response = await fetch("/v1/chat/completions", {
      method: "POST",
      headers: {"content-type": "application/json", "x-request-id": requestId},
      body: JSON.stringify(body),
      signal,
    });
    if (!response.ok) return {error: await errorOf(response)};
    for await (const data of eventsOf(response.body)) {
      if (data.startsWith("[DONE]")) return undefined;
      const chunk = parseChunk(data);
      if (chunk.error) return {error: {status: response.status, requestId, ...chunk.error}};
      onChunk(chunk);
    }
    return {error: {message: "The answer broke off: the connection was closed before its end.", requestId}};
  } catch (error) {
    if (signal.aborted) return {stopped: true};
    return {error: {message: `The router could not be reached: ${error.message}`, requestId}};
  }
}
