// The page's requests to the router. An answer is {data}, or {trouble: "gone" | "denied" | "missing" | "failed", ...}.

const PATIENCE_MS = 4000;

// The error in OpenAI's envelope, or what can be said without one.
export async function errorOf(response) {
  const text = await response.text();
  let error = {};
  try {
    error = JSON.parse(text).error ?? {};
  } catch {
    error = {message: text.slice(0, 2000)};
  }
  return {
    status: response.status,
    message: error.message || response.statusText || "no message",
    type: error.type,
    code: error.code,
    param: error.param,
    requestId: response.headers.get("x-request-id") ?? undefined,
    retryAfterMs: response.headers.get("retry-after-ms") ?? undefined,
  };
}

function troubleOf(status) {
  if (status === 401 || status === 403) return "denied";
  return status === 404 ? "missing" : "failed";
}

export async function readJson(path) {
  try {
    const response = await fetch(path, {cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS)});
    if (!response.ok) return {trouble: troubleOf(response.status), error: await errorOf(response)};
    return {data: await response.json()};
  } catch (error) {
    return {trouble: "gone", error: {message: String(error.message ?? error)}};
  }
}
