// An answer as it comes: its text, calls of tools, figures and error. It is the element of one choice of a request.

import {copyButton} from "./clipboard.js";
import {make, setText} from "./dom.js";
import {counted, duration, perSecond} from "./format.js";
import {markdownView} from "./markdown_view.js";

// What has come of a choice.
export function newChoice() {
  return {text: "", reasoning: "", calls: [], tokens: [], tokenCount: 0, finish: undefined, timings: undefined, seed: undefined};
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
  const tokens = part.logprobs?.content ?? [];
  choice.tokens.push(...tokens);
  choice.tokenCount += tokens.length;
  choice.finish = part.finish_reason ?? choice.finish;
  choice.timings = part.timings ?? choice.timings;
  choice.seed = part.seed ?? choice.seed;
}

// Returns the parts of a choice that are kept over a reload: all but its tokens. restoredChoice() is the inverse.
export function keptChoice({text, reasoning, calls, tokenCount, finish, timings, seed}) {
  const {time_to_first_token_ms, decode_ms} = timings ?? {};
  return {text, reasoning, calls, tokenCount, finish, timings: {time_to_first_token_ms, decode_ms}, seed};
}

export const restoredChoice = (kept) => ({...newChoice(), ...kept});

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
  if (choice.tokenCount) parts.push(counted(choice.tokenCount, "token"));
  const timings = choice.timings ?? {};
  const first = timings.time_to_first_token_ms ?? sent.firstMs;
  if (first !== undefined) parts.push(`first token after ${duration(first)}`);
  if (timings.decode_ms > 0 && choice.tokenCount > 1) {
    parts.push(perSecond(1000 * (choice.tokenCount - 1) / timings.decode_ms, "tokens"));
  }
  if (choice.finish) parts.push(`finish: ${choice.finish}`);
  if (choice.seed !== undefined) parts.push(`seed ${choice.seed}`);
  return parts.join(" · ");
}

function callCard(call) {
  return make("div", {class: "call"}, make("strong", {class: "code"}, call.function.name), make("pre", {}, call.function.arguments));
}

// Shows a text in `element` as it is, with the methods of markdownView().
function textView(element, onShown) {
  const node = document.createTextNode("");
  element.append(node);
  const update = (text) => {
    if (text.startsWith(node.data)) {
      node.appendData(text.slice(node.data.length));
    } else {
      node.data = text;
    }
    onShown();
  };
  return {update, finish: async (text) => update(text)};
}

// `sent` is the record of sent.js that the choice is part of, with `isJson` for an answer that is no Markdown. `onShown` is called
// when the element has grown.
export function answerElement(name, sent, onShown) {
  const thought = make("pre", {class: "reasoning"});
  const thinking = make("details", {hidden: true}, make("summary", {}, "Reasoning"), thought);
  const text = make("div", {class: sent.isJson ? "text" : "text markdown"});
  const view = sent.isJson ? textView(text, onShown) : markdownView(text, onShown);
  const calls = make("div");
  const about = make("p", {class: "more about"});
  const link = make("a", {href: `#/requests/${encodeURIComponent(sent.id)}`}, "where its time went");
  const end = make("div");
  let whole = "";
  const copy = copyButton("the answer", () => whole);
  copy.hidden = true;
  let offered;
  const element = make("article", {class: "answer waits", "aria-label": name, "aria-busy": "true"},
    make("div", {class: "head"}, make("p", {class: "who"}, name), copy), thinking, text, calls, end, about);
  function showRest(choice) {
    thinking.hidden = choice.reasoning === "";
    setText(thought, choice.reasoning);
    if (choice.calls.length) calls.replaceChildren(...choice.calls.filter(Boolean).map(callCard));
    if (choice.text || choice.reasoning || choice.calls.length) element.classList.remove("waits");
    setText(about, figures(choice, sent));
  }
  return {
    element,
    update(choice) {
      showRest(choice);
      view.update(choice.text);
    },
    // Resolves when the whole answer is shown.
    async finish(choice, outcome) {
      element.classList.remove("waits");
      showRest(choice);
      whole = choice.text;
      copy.hidden = whole === "";
      about.append(about.textContent ? " · " : "", link);
      if (outcome?.error) end.append(errorBox(outcome.error));
      if (outcome?.stopped) end.append(make("p", {class: "note"}, "Stopped."));
      await view.finish(whole);
      element.setAttribute("aria-busy", "false");
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
