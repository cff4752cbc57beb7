// Try it: a chat with the model, its parameters beside it, and the request as a command.

import {announce} from "./announcer.js";
import {addToChoice, answerElement, errorBox, messageOf, newChoice} from "./answer.js";
import {streamChat} from "./chat_stream.js";
import {copyPanel} from "./copy.js";
import {make, setText} from "./dom.js";
import {parameterFields} from "./parameters.js";
import {newRequestId, remember} from "./sent.js";

const OF_PAGE = {stream: true, stream_options: {include_usage: true}, logprobs: true, top_logprobs: 5, return_timings: true};
const SEEDS = 2 ** 31;

function anySeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0] % SEEDS;
}

// The bodies of the requests for one question: two where a second answer of another seed is wanted beside the first. Each has a
// seed that can be typed into its field again.
function bodiesOf(given, beside) {
  const body = {...given, seed: given.seed ?? anySeed()};
  return beside === "seed" ? [body, {...body, seed: (body.seed + 1) % SEEDS}] : [body];
}

// What is sent and where it is shown: {record, shown} for each body, with an element of `shown` for each choice of the record.
function newRequests(bodies) {
  const several = bodies.length > 1 || bodies[0].n > 1;
  let number = 0;
  return bodies.map((body) => {
    const choices = Array.from({length: body.n ?? 1}, newChoice);
    const record = {id: newRequestId(), at: Date.now() / 1000, body, choices};
    remember(record);
    return {record, shown: choices.map(() => answerElement(several ? `Answer ${++number}` : "Answer", record))};
  });
}

// Streams the answer of a request of newRequests() into its record and its elements.
async function streamInto({record, shown}, signal, onProgress) {
  const began = performance.now();
  const outcome = await streamChat(record.body, record.id, signal, (chunk) => {
    record.usage = chunk.usage ?? record.usage;
    for (const part of chunk.choices ?? []) {
      const choice = record.choices[part.index];
      if (!choice) continue;
      record.firstMs ??= performance.now() - began;
      addToChoice(choice, part);
      shown[part.index].update(choice);
    }
    onProgress();
  });
  record.choices.forEach((choice, index) => shown[index].finish(choice, outcome));
  return outcome;
}

export function tryView() {
  const messages = [];  // of the conversation, as the API has them
  let pendingCalls = [];  // calls of tools that wait for their result
  let running = [];  // AbortControllers
  let lastTurn;

  const parameters = parameterFields();
  const log = make("div", {class: "conversation", id: "conversation", tabindex: "0", role: "log", "aria-live": "off",
    "aria-label": "Conversation"});
  const hello = make("p", {class: "note"}, "Ask the model something. What you write stays in this page and in the answer's way.");
  log.append(hello);
  const draftLabel = make("label", {for: "draft"}, "Your message");
  const draft = make("textarea", {id: "draft", rows: 3});
  const send = make("button", {type: "submit", class: "main", id: "send"}, "Send");
  const stopAll = () => running.forEach((each) => each.abort());
  const stop = make("button", {type: "button", id: "stop-answer", disabled: true, click: stopAll}, "Stop");
  const retry = make("button", {type: "button", id: "retry", disabled: true}, "Retry");
  const clear = make("button", {type: "button", class: "quiet", id: "clear"}, "New chat");
  const problem = make("div", {id: "form-problem"});
  const form = make("form", {class: "composer"}, draftLabel, draft, problem,
    make("div", {class: "buttons"}, send, stop, retry, clear,
      make("span", {class: "more"}, "Enter sends, Shift+Enter begins a line")));
  const model = {};  // {id, grpc}, as the router tells them

  // What the next request would be; with an empty draft, that of the last question.
  function bodyNow() {
    const asked = draft.value.trim() === "" ? (lastTurn?.messages ?? []) : [...messages, {role: "user", content: draft.value}];
    return parameters.body(asked);
  }
  const copy = copyPanel(bodyNow, model);

  function buttons() {
    const busy = running.length > 0;
    stop.disabled = !busy;
    send.disabled = busy;
    clear.disabled = busy;
    retry.disabled = busy || lastTurn === undefined;
    setText(draftLabel, pendingCalls.length ? `Result of ${pendingCalls[0].function.name}` : "Your message");
  }

  function follow() {
    if (log.scrollHeight - log.scrollTop - log.clientHeight < 120) log.scrollTop = log.scrollHeight;
  }

  // Runs one of newRequests() to its end.
  async function run(request) {
    const stopper = new AbortController();
    running.push(stopper);
    buttons();
    const outcome = await streamInto(request, stopper.signal, follow);
    running = running.filter((each) => each !== stopper);
    return outcome;
  }

  function accept(choice, chosen) {
    messages.length = lastTurn.messages.length;
    messages.push(messageOf(choice));
    pendingCalls = [...choice.calls];
    const several = lastTurn.answers.length > 1;
    for (const {element: each} of lastTurn.answers) each.classList.toggle("chosen", several && each === chosen);
    buttons();
  }

  async function ask(asked, bodies) {
    const requests = newRequests(bodies);
    const answers = requests.flatMap(({shown}) => shown);
    const turn = make("div", {class: `turn answers-${answers.length}`}, ...answers.map((each) => each.element));
    lastTurn?.answers.forEach((each) => each.withdraw());
    lastTurn = {messages: asked, answers, turn};
    log.append(turn);
    log.scrollTop = log.scrollHeight;
    const outcomes = await Promise.all(requests.map(run));
    const flat = requests.flatMap(({record, shown}) =>
      record.choices.map((choice, index) => ({choice, shown: shown[index]})));
    if (flat.length > 1) for (const each of flat) each.shown.offer(() => accept(each.choice, each.shown.element));
    const usable = flat.find(({choice}) => choice.text || choice.calls.length);
    if (usable) {
      accept(usable.choice, usable.shown.element);
    } else {
      messages.splice(0, messages.length, ...asked.slice(0, -1));  // the next question takes this one's place
    }
    announce(outcomes.some((outcome) => outcome?.error) ? "The answer failed." : "The answer is complete.");
    follow();
    buttons();
  }

  // The requests for `asked`; undefined, and the reason is shown, where a field is wrong.
  function bodiesFor(asked) {
    problem.replaceChildren();
    try {
      const body = {...(model.id ? {model: model.id} : {}), ...parameters.body(asked), ...OF_PAGE};
      return bodiesOf(body, parameters.beside());
    } catch (error) {
      problem.replaceChildren(errorBox({message: error.message}));
      return undefined;
    }
  }

  function show(who, text) {
    hello.remove();
    log.append(make("article", {class: "said", "aria-label": who},
      make("p", {class: "who"}, who), make("div", {class: "text"}, text)));
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = draft.value;
    if (running.length > 0 || text.trim() === "") return;
    const [call, ...others] = pendingCalls;
    const asked = [...messages, call ? {role: "tool", tool_call_id: call.id, content: text} : {role: "user", content: text}];
    const bodies = bodiesFor(asked);
    if (bodies === undefined) return;
    show(call ? `Result of ${call.function.name}` : "You", text);
    draft.value = "";
    messages.splice(0, messages.length, ...asked);
    pendingCalls = others;
    if (others.length > 0) {
      buttons();  // the model waits for the results of all its calls
    } else {
      ask(asked, bodies);
    }
  });
  draft.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  retry.addEventListener("click", () => {
    const {messages: asked, turn} = lastTurn;
    const bodies = bodiesFor(asked);
    if (bodies === undefined) return;
    turn.remove();
    messages.splice(0, messages.length, ...asked);
    pendingCalls = [];
    ask(asked, bodies);
  });
  clear.addEventListener("click", () => {
    messages.length = 0;
    pendingCalls = [];
    lastTurn = undefined;
    problem.replaceChildren();
    log.replaceChildren(hello);
    buttons();
    draft.focus();
  });

  const element = make("div", {class: "try"},
    make("section", {class: "panel chat", "aria-labelledby": "chat-title"},
      make("h1", {id: "chat-title"}, "Try it"), log, form),
    make("div", {class: "side"}, parameters.element, copy.element));
  return {
    title: () => "Try it",
    element,
    open() {},
    updateFleet(fleet) {
      model.id = fleet.model;
      model.grpc = fleet.grpc_address;
    },
  };
}
