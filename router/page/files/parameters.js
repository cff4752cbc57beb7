// The fields beside the chat, and the request that they make together with its messages.

import {make} from "./dom.js";
import {panel} from "./parts.js";

const BESIDE = {none: "nothing", choice: "a second choice (n = 2)", seed: "the same with another seed"};

function field(id, label, control, hint) {
  const note = hint && make("span", {class: "more", id: `${id}-hint`}, hint);
  control.id = id;
  if (hint) control.setAttribute("aria-describedby", `${id}-hint`);
  return make("p", {class: "field"}, make("label", {for: id}, label), control, note);
}

function number(options) {
  return make("input", {type: "number", inputmode: "decimal", ...options});
}

// JSON of a text field, or an error that names the field.
function jsonOf(control, name, wanted) {
  const text = control.value.trim();
  if (text === "") return undefined;
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${name} is no JSON: ${error.message}`);
  }
  const kind = Array.isArray(value) ? "array" : value === null ? "null" : typeof value;
  if (kind !== wanted) throw new Error(`${name} must be a JSON ${wanted}`);
  return value;
}

// A number field's value; undefined if it is empty, so that the server's default holds.
function numberOf(control, name) {
  if (control.validity.badInput) throw new Error(`${name} is no number`);
  return control.value === "" ? undefined : Number(control.value);
}

// Tools as OpenAI has them; a bare function is one too.
function toolOf(tool) {
  return tool?.type === undefined && tool?.name !== undefined ? {type: "function", function: tool} : tool;
}

export function parameterFields() {
  const system = make("textarea", {rows: 2, placeholder: "You are a helpful assistant."});
  const temperature = number({min: 0, max: 2, step: 0.1, placeholder: "the model's"});
  const topP = number({min: 0, max: 1, step: 0.05, placeholder: "the model's"});
  const maxTokens = number({min: 1, step: 1, value: 256});
  const seed = make("input", {type: "text", inputmode: "numeric", pattern: "-?[0-9]*", placeholder: "drawn anew"});
  const stop = make("textarea", {rows: 2, placeholder: "one text a line"});
  const beside = make("select", {}, ...Object.entries(BESIDE).map(([value, words]) => make("option", {value}, words)));
  const json = {rows: 4, class: "code", spellcheck: "false"};
  const schema = make("textarea", {...json, placeholder: '{"type": "object", "properties": {…}}'});
  const tools = make("textarea", {...json, placeholder: '[{"name": "get_weather", "parameters": {…}}]'});
  const element = panel("parameters-title", "Parameters", {class: "panel parameters"},
    field("system", "System prompt", system),
    make("div", {class: "pairs"}, field("temperature", "Temperature", temperature), field("top-p", "Top p", topP),
      field("max-tokens", "Most tokens", maxTokens), field("seed", "Seed", seed)),
    field("stop", "Stop texts", stop), field("beside", "Beside the answer", beside),
    make("details", {}, make("summary", {}, "Hold it to a schema"),
      field("schema", "JSON schema", schema, "Sent as response_format json_schema.")),
    make("details", {}, make("summary", {}, "Let it call tools"),
      field("tools", "Tools, a JSON array", tools, "Functions with name, description and parameters.")));
  const controls = {system, temperature, topP, maxTokens, seed, stop, beside, schema, tools};
  return {
    element,
    // What stands in the fields, for restore().
    values: () => Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value])),
    restore(values) {
      for (const [name, control] of Object.entries(controls)) control.value = values[name] ?? control.value;
    },
    beside: () => beside.value,
    // The body of the request for `messages`, without `stream`. Throws an Error that names the field that is wrong.
    body(messages) {
      const given = system.value.trim() === "" ? [] : [{role: "system", content: system.value}];
      const body = {messages: [...given, ...messages]};
      const set = (name, value) => {
        if (value !== undefined) body[name] = value;
      };
      set("temperature", numberOf(temperature, "Temperature"));
      set("top_p", numberOf(topP, "Top p"));
      set("max_completion_tokens", numberOf(maxTokens, "Most tokens"));
      const wantedSeed = seed.value.trim();
      if (!Number.isSafeInteger(Number(wantedSeed))) throw new Error("Seed must be a whole number below 2^53");
      set("seed", wantedSeed === "" ? undefined : Number(wantedSeed));
      const stops = stop.value.split("\n").filter((line) => line !== "");
      set("stop", stops.length ? stops : undefined);
      const form = jsonOf(schema, "The schema", "object");
      set("response_format", form && {type: "json_schema", json_schema: {name: "answer", schema: form}});
      set("tools", jsonOf(tools, "The field of tools", "array")?.map(toolOf));
      set("n", beside.value === "choice" ? 2 : undefined);
      return body;
    },
  };
}
