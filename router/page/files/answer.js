// An answer as it comes: its text, calls of tools, figures and error. It is the element of one choice of a request.

import {make, setText} from "./dom.js";
import {counted, duration, perSecond} from "./format.js";

// What has come of a choice.
export function newChoice() {
  return {text: "", reasoning: "", calls: [], tokens: [], finish: undefined, timings: undefined, seed: undefined};
}

// Adds the part of a chunk that is about this choice.
export function addToChoice(choice, part) {
  const delta = part.delta ?? {};
  choice.text += delta.content ?? "";
  choice.reasoning += delta.reasoning_content ?? "";
  for (const piece of delta.tool_calls ?? []) {
    choice.calls[piece.index] ??= {id: "", type: "function", function: {name: "", arguments: ""}};
    const call = choice.calls[piece.index];
    call.id ||= piece.id ?? "";
    call.function.name ||= piece.function?.name ?? "";
    call.function.arguments += piece.function?.arguments ?? "";
  }
  choice.tokens.push(...part.logprobs?.content ?? []);
  choice.finish = part.finish_reason ?? choice.finish;
  choice.timings = part.timings ?? choice.timings;
  choice.seed = part.seed ?? choice.seed;
}

// The message of a conversation that goes on with this choice.
export function messageOf(choice) {
  const message = {role: "assistant", content: choice.text};
  if (choice.calls.length > 0) message.tool_calls = choice.calls;
  return message;
}

// All that is known of an error, so that it can be reported.
export function errorBox(error) {
  const facts = [
    ["status", error.status], ["type", error.type], ["code", error.code], ["field", error.param],
    ["request", error.requestId], ["retry after", error.retryAfterMs && duration(Number(error.retryAfterMs))],
  ].filter(([, value]) => value !== undefined && value !== null && value !== "");
  return make("div", {class: "error", role: "alert"}, make("p", {}, error.message),
    facts.length ? make("p", {class: "more code"}, facts.map(([name, value]) => `${name}: ${value}`).join(" · ")) : null);
}

function figures(choice, sent) {
  const parts = [];
  if (choice.tokens.length) parts.push(counted(choice.tokens.length, "token"));
  const timings = choice.timings ?? {};
  const first = timings.time_to_first_token_ms ?? sent.firstMs;
  if (first !== undefined) parts.push(`first token after ${duration(first)}`);
  if (timings.decode_ms > 0 && choice.tokens.length > 1) {
    parts.push(perSecond(1000 * (choice.tokens.length - 1) / timings.decode_ms, "tokens"));
  }
  if (choice.finish) parts.push(`finish: ${choice.finish}`);
  if (choice.seed !== undefined) parts.push(`seed ${choice.seed}`);
  return parts.join(" · ");
}

function callCard(call) {
  return make("div", {class: "call"}, make("strong", {class: "code"}, call.function.name), make("pre", {}, call.function.arguments));
}

// `sent` is the record of sent.js that the choice is part of.
export function answerElement(name, sent) {
  const thought = make("pre", {class: "reasoning"});
  const thinking = make("details", {hidden: true}, make("summary", {}, "Reasoning"), thought);
  const text = make("div", {class: "text"});
  const node = document.createTextNode("");
  text.append(node);
  const calls = make("div");
  const about = make("p", {class: "more about"});
  const link = make("a", {href: `#/requests/${encodeURIComponent(sent.id)}`}, "where its time went");
  const end = make("div");
  let offered;
  const element = make("article", {class: "answer waits", "aria-label": name, "aria-busy": "true"},
    make("p", {class: "who"}, name), thinking, text, calls, end, about);
  return {
    element,
    update(choice) {
      thinking.hidden = choice.reasoning === "";
      setText(thought, choice.reasoning);
      if (choice.text.startsWith(node.data)) {
        node.appendData(choice.text.slice(node.data.length));
      } else {
        node.data = choice.text;
      }
      if (choice.calls.length) calls.replaceChildren(...choice.calls.filter(Boolean).map(callCard));
      if (choice.text || choice.reasoning || choice.calls.length) element.classList.remove("waits");
      setText(about, figures(choice, sent));
    },
    finish(choice, outcome) {
      element.classList.remove("waits");
      element.setAttribute("aria-busy", "false");
      this.update(choice);
      about.append(about.textContent ? " · " : "", link);
      if (outcome?.error) end.append(errorBox(outcome.error));
      if (outcome?.stopped) end.append(make("p", {class: "note"}, "Stopped."));
    },
    offer(action) {
      offered = make("button", {class: "quiet", type: "button", click: action}, "Go on with this one");
      element.append(offered);
    },
    withdraw() {
      offered?.remove();
    },
  };
}
