// The requests that this page sent, with their texts and tokens. The router keeps none of those: they live here, in memory, until
// the page is left or newer ones take their place.

const MOST_REQUESTS = 48;
const kept = new Map();  // id -> record, oldest first

// An id that the router takes over as the request's own.
export function newRequestId() {
  const random = crypto.getRandomValues(new Uint8Array(8));
  return `page-${[...random].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

// {id, at, body, choices (of answer.js), usage, firstMs: until its first token, as the page saw it}; try.js fills it.
export function remember(record) {
  kept.set(record.id, record);
  if (kept.size > MOST_REQUESTS) kept.delete(kept.keys().next().value);
}

export const sentFromHere = (id) => kept.get(id);
