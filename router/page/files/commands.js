// A request as commands that a terminal takes as they stand. Pure: bodies in, text out. JSON goes through a quoted here-document,
// where nothing needs an escape: a line of JSON is never the word that ends it.

const KEY = "${BATON_API_KEY:-none}";

// {origin: "http://127.0.0.1:8080", grpc: "127.0.0.1:50051", model: "SmolLM2", secure: whether TLS is used}
function modelled(body, router) {
  return router.model ? {model: router.model, ...body} : body;
}

export function asCurl(body, router) {
  return [
    `curl -N ${router.origin}/v1/chat/completions \\`,
    `  -H 'Content-Type: application/json' -H "Authorization: Bearer ${KEY}" --data-binary @- <<'JSON'`,
    JSON.stringify({...modelled(body, router), stream: true}, null, 2),
    "JSON",
  ].join("\n");
}

// JSON's literals are Python's but for three words; its strings are Python's as they are.
function toPython(value, indent = "") {
  const inner = `${indent}    `;
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]";
    return `[\n${value.map((each) => `${inner}${toPython(each, inner)},\n`).join("")}${indent}]`;
  }
  if (typeof value === "object") {
    const entries = Object.entries(value).filter(([, each]) => each !== undefined);
    if (entries.length === 0) return "{}";
    return `{\n${entries.map(([name, each]) => `${inner}${JSON.stringify(name)}: ${toPython(each, inner)},\n`).join("")}${indent}}`;
  }
  return JSON.stringify(value);
}

export function asPython(body, router) {
  const fields = Object.entries(modelled(body, router)).map(([name, value]) => `    ${name}=${toPython(value, "    ")},`);
  return [
    "import os", "", "from openai import OpenAI", "",
    `client = OpenAI(base_url=${JSON.stringify(`${router.origin}/v1`)}, api_key=os.environ.get("BATON_API_KEY", "none"))`,
    "answer = client.chat.completions.create(", ...fields, ")",
    "for choice in answer.choices:", "    print(choice.message.content or choice.message.tool_calls)",
  ].join("\n");
}

function grpcMessage(message) {
  const made = {role: message.role, content: message.content ?? ""};
  if (message.tool_call_id) made.toolCallId = message.tool_call_id;
  if (message.tool_calls) {
    made.toolCalls = message.tool_calls.map((call) => ({id: call.id, name: call.function.name, arguments: call.function.arguments}));
  }
  return made;
}

// The same request as baton.v1.GenerateRequest in protobuf's JSON.
function grpcRequest(body) {
  const made = {chat: {messages: body.messages.map(grpcMessage)}, samplingParams: {}, stream: true};
  const sampling = made.samplingParams;
  const take = (name, value) => {
    if (value !== undefined) sampling[name] = value;
  };
  take("temperature", body.temperature);
  take("topP", body.top_p);
  take("maxTokens", body.max_completion_tokens);
  take("seed", body.seed === undefined ? undefined : BigInt.asUintN(64, BigInt(body.seed)).toString());
  take("stop", body.stop);
  take("n", body.n);
  if (body.tools) {
    made.chat.tools = body.tools.map(({function: tool}) => ({
      name: tool.name, description: tool.description, parameters: tool.parameters && JSON.stringify(tool.parameters),
    }));
  }
  if (body.response_format) made.responseFormat = {jsonSchema: JSON.stringify(body.response_format.json_schema.schema)};
  return made;
}

export function asGrpcurl(body, router) {
  return [
    `grpcurl ${router.secure ? "" : "-plaintext "}-H "authorization: Bearer ${KEY}" -d @ \\`,
    `  ${router.grpc} baton.v1.GenerationService/Generate <<'JSON'`,
    JSON.stringify(grpcRequest(body), null, 2),
    "JSON",
  ].join("\n");
}
