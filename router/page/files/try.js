// Try it: a chat with the model, its parameters beside it, and the request as a command.

import {announce} from "./announcer.js";
import {addToChoice, answerElement, errorBox, keptChoice, messageOf, newChoice, restoredChoice} from "./answer.js";
import {forgetChat, keepChat, keptChat} from "./chat_store.js";
import {streamChat} from "./chat_stream.js";
import {copyButton} from "./clipboard.js";
import {copyPanel} from "./copy.js";
import {make, setText} from "./dom.js";
import {parameterFields} from "./parameters.js";
import {newRequestId, remember} from "./sent.js";

const OF_PAGE = {stream: true, stream_options: {include_usage: true}, logprobs: true, top_logprobs: 5, return_timings: true};
const SEEDS = 2 ** 31;
const NEAR_END_PX = 120;
const KEPT = "Messages stay in this browser tab, also over a reload, until you choose New chat or close the tab. The router"
  + " stores no text.";
const NOT_KEPT = "This chat is lost when the page is reloaded: it is too long to be kept, or this browser stores nothing. The"
  + " router stores no text.";

function anySeed() {
  return crypto.getRandomValues(new Uint32Array(1))[0] % SEEDS;
}

// The bodies of the requests for one question: two where a second answer of another seed is wanted beside the first. Each has a
// seed that can be typed into its field again.
function bodiesOf(given, beside) {
  const body = {...given, seed: given.seed ?? anySeed()};
  return beside === "seed" ? [body, {...body, seed: (body.seed + 1) % SEEDS}] : [body];
}

// An answer is {name, record, choice, outcome, shown}: a choice of a request and its element. The outcome is what streamChat()
// returned, and `running` before. `more` is what is known of it.
function newAnswer(name, record, choice, onShown, more = {}) {
  return {name, record, choice, outcome: undefined, running: true, ...more, shown: answerElement(name, record, onShown)};
}

// What is sent and where it is shown: a list of answers for each body, one of them for each choice.
function newRequests(bodies, onShown) {
  const several = bodies.length > 1 || bodies[0].n > 1;
  let number = 0;
  return bodies.map((body) => {
    const choices = Array.from({length: body.n ?? 1}, newChoice);
    const record = {id: newRequestId(), at: Date.now() / 1000, body, choices, isJson: body.response_format !== undefined};
    remember(record);
    return choices.map((choice) => newAnswer(several ? `Answer ${++number}` : "Answer", record, choice, onShown));
  });
}

// Streams the answer of a request of newRequests() into its record and its elements.
async function streamInto(answers, signal, onProgress) {
  const {record} = answers[0];
  const began = performance.now();
  const outcome = await streamChat(record.body, record.id, signal, (chunk) => {
    record.usage = chunk.usage ?? record.usage;
    for (const part of chunk.choices ?? []) {
      const answer = answers[part.index];
      if (!answer) continue;
      record.firstMs ??= performance.now() - began;
      addToChoice(answer.choice, part);
      answer.shown.update(answer.choice);
    }
    onProgress();
  });
  await Promise.all(answers.map((answer) => {
    answer.outcome = outcome;
    answer.running = false;
    return answer.shown.finish(answer.choice, outcome);
  }));
  return outcome;
}

// Returns the parts of an answer that are kept over a reload. A running answer is kept as a stopped one.
function keptAnswer({name, record, choice, outcome, running, chosen}) {
  return {name, id: record.id, firstMs: record.firstMs, isJson: record.isJson, choice: keptChoice(choice), chosen,
    outcome: running ? {stopped: true} : outcome};
}

export function tryView() {
  const messages = [];  // messages of the conversation in the API's form
  const entries = [];  // as they are shown: {who, text}, or {answers} of one question
  let pendingCalls = [];  // calls of tools that wait for their result
  let running = [];  // AbortControllers
  let lastTurn;  // {asked: messages, answers, element}
  let atEnd = true;  // the newest text is in sight

  const parameters = parameterFields();
  const log = make("div", {class: "conversation", id: "conversation", tabindex: "0", role: "log", "aria-live": "off",
    "aria-label": "Conversation"});
  const hello = make("p", {class: "note"}, "Ask the model something.");
  log.append(hello);
  const draftLabel = make("label", {for: "draft"}, "Your message");
  const draft = make("textarea", {id: "draft", rows: 3});
  const send = make("button", {type: "submit", class: "main", id: "send"}, "Send");
  const stopAll = () => running.forEach((each) => each.abort());
  const stop = make("button", {type: "button", id: "stop-answer", disabled: true, click: stopAll}, "Stop");
  const retry = make("button", {type: "button", id: "retry", disabled: true}, "Retry");
  const clear = make("button", {type: "button", class: "quiet", id: "clear"}, "New chat");
  const problem = make("div", {id: "form-problem"});
  const keeping = make("p", {class: "more", id: "keeping"}, KEPT);
  const form = make("form", {class: "composer"}, draftLabel, draft, problem,
    make("div", {class: "buttons"}, send, stop, retry, clear,
      make("span", {class: "more"}, "Enter sends, Shift+Enter begins a line")), keeping);
  const model = {};  // {id, grpc} from the router

  // What the next request would be; with an empty draft, that of the last question.
  function bodyNow() {
    const asked = draft.value.trim() === "" ? (lastTurn?.asked ?? []) : [...messages, {role: "user", content: draft.value}];
    return parameters.body(asked);
  }
  const copy = copyPanel(bodyNow, model);

  function keep() {
    if (entries.length === 0) return;
    const kept = keepChat({
      messages, pendingCalls, asked: lastTurn?.asked, unfinished: running.length > 0, fields: parameters.values(), draft: draft.value,
      entries: entries.map((entry) => (entry.answers ? {answers: entry.answers.map(keptAnswer)} : entry)),
    });
    setText(keeping, kept ? KEPT : NOT_KEPT);
  }

  function buttons() {
    const busy = running.length > 0;
    stop.disabled = !busy;
    send.disabled = busy;
    clear.disabled = busy;
    retry.disabled = busy || lastTurn === undefined;
    setText(draftLabel, pendingCalls.length ? `Result of ${pendingCalls[0].function.name}` : "Your message");
  }

  function follow() {
    if (atEnd) log.scrollTop = log.scrollHeight;
  }

  // Runs one of newRequests() to its end.
  async function run(answers) {
    const stopper = new AbortController();
    running.push(stopper);
    buttons();
    const outcome = await streamInto(answers, stopper.signal, follow);
    running = running.filter((each) => each !== stopper);
    return outcome;
  }

  function accept(chosen) {
    messages.splice(0, messages.length, ...lastTurn.asked, messageOf(chosen.choice));
    pendingCalls = [...chosen.choice.calls];
    mark(lastTurn.answers, chosen);
    buttons();
    keep();
  }

  function mark(answers, chosen) {
    for (const answer of answers) {
      answer.chosen = answers.length > 1 && answer === chosen;
      answer.shown.element.classList.toggle("chosen", answer.chosen);
    }
  }

  // The chat goes on with one of the answers of the last turn; without a usable one the next question takes this one's place.
  function settle() {
    const {asked, answers} = lastTurn;
    const usable = answers.find(({choice}) => choice.text || choice.calls.length);
    if (usable) {
      accept(usable);
    } else {
      messages.splice(0, messages.length, ...asked.slice(0, -1));
      keep();
    }
  }

  function offer(answers) {
    if (answers.length > 1) for (const each of answers) each.shown.offer(() => accept(each));
  }

  function showTurn(asked, answers) {
    const element = make("div", {class: `turn answers-${answers.length}`}, ...answers.map(({shown}) => shown.element));
    lastTurn?.answers.forEach(({shown}) => shown.withdraw());
    lastTurn = {asked, answers, element};
    entries.push({answers});
    log.append(element);
  }

  async function ask(asked, bodies) {
    const requests = newRequests(bodies, follow);
    showTurn(asked, requests.flat());
    log.scrollTop = log.scrollHeight;
    const outcomes = await Promise.all(requests.map(run));
    offer(lastTurn.answers);
    settle();
    announce(outcomes.some((outcome) => outcome?.error) ? "The answer failed." : "The answer is complete.");
    follow();
    buttons();
  }

  // The requests for `asked`; undefined, and the reason is shown, if a field is wrong.
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

  function showSaid(who, text) {
    hello.remove();
    entries.push({who, text});
    log.append(make("article", {class: "said", "aria-label": who},
      make("div", {class: "head"}, make("p", {class: "who"}, who), copyButton("the message", () => text)),
      make("div", {class: "text"}, text)));
  }

  // Shows the chat of before a reload.
  function restore(chat) {
    for (const entry of chat.entries) {
      if (!entry.answers) {
        showSaid(entry.who, entry.text);
        continue;
      }
      const answers = entry.answers.map(({name, id, firstMs, isJson, choice, outcome, chosen}) =>
        newAnswer(name, {id, firstMs, isJson}, restoredChoice(choice), follow, {outcome, chosen, running: false}));
      showTurn(chat.asked ?? [], answers);
      for (const {shown, choice, outcome} of answers) shown.finish(choice, outcome).then(follow);
      mark(answers, answers.find(({chosen}) => chosen));
    }
    messages.push(...chat.messages);
    pendingCalls = chat.pendingCalls;
    parameters.restore(chat.fields);
    draft.value = chat.draft;
    if (lastTurn) offer(lastTurn.answers);
    if (chat.unfinished && lastTurn) settle();
    buttons();
  }

  function forget() {
    forgetChat();
    messages.length = 0;
    entries.length = 0;
    pendingCalls = [];
    lastTurn = undefined;
    problem.replaceChildren();
    setText(keeping, KEPT);
    log.replaceChildren(hello);
    buttons();
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = draft.value;
    if (running.length > 0 || text.trim() === "") return;
    const [call, ...others] = pendingCalls;
    const asked = [...messages, call ? {role: "tool", tool_call_id: call.id, content: text} : {role: "user", content: text}];
    const bodies = bodiesFor(asked);
    if (bodies === undefined) return;
    showSaid(call ? `Result of ${call.function.name}` : "You", text);
    draft.value = "";
    messages.splice(0, messages.length, ...asked);
    pendingCalls = others;
    if (others.length > 0) {
      buttons();  // the model waits for the results of all its calls
    } else {
      ask(asked, bodies);
    }
    keep();
  });
  draft.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  retry.addEventListener("click", () => {
    const {asked, answers, element} = lastTurn;
    const bodies = bodiesFor(asked);
    if (bodies === undefined) return;
    element.remove();
    entries.splice(entries.findIndex((entry) => entry.answers === answers), 1);
    messages.splice(0, messages.length, ...asked);
    pendingCalls = [];
    ask(asked, bodies);
  });
  clear.addEventListener("click", () => {
    forget();
    draft.focus();
  });
  log.addEventListener("scroll", () => {
    atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < NEAR_END_PX;
  });
  addEventListener("pagehide", keep);

  const before = keptChat();
  if (before) {
    try {
      restore(before);
    } catch {  // it is none of ours
      forget();
    }
  }

  const element = make("div", {class: "try"},
    make("section", {class: "panel chat", "aria-labelledby": "chat-title"},
      make("h1", {id: "chat-title"}, "Try it"), log, form),
    make("div", {class: "side"}, parameters.element, copy.element));
  return {
    title: () => "Try it",
    element,
    // An element that is put back into the document is at its beginning.
    open() {
      const wasAtEnd = atEnd;
      requestAnimationFrame(() => {
        if (wasAtEnd) log.scrollTop = log.scrollHeight;
      });
    },
    updateFleet(fleet) {
      model.id = fleet.model;
      model.grpc = fleet.grpc_address;
    },
  };
}
