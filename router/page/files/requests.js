// Requests: the list of the last ones, and one of them in full.

import {make, setAttribute, setText, syncList} from "./dom.js";
import {ago, clock, count, duration} from "./format.js";
import {cell, remark, tableHead} from "./parts.js";
import {requestPanel} from "./request.js";
import {sentFromHere} from "./sent.js";
import {errorBeyondState, isUnderWay, requestBadge} from "./states.js";

const MOST_QUESTION = 60;  // characters
const COLUMNS = ["Request", "State", "Received", "Prompt", "Answer", "First token", "Total", "Workers"];
const FILTERS = {
  all: {word: "all", keeps: () => true},
  running: {word: "under way", keeps: (request) => isUnderWay(request.state)},
  failed: {word: "failed or cancelled", keeps: (request) => ["failed", "cancelled"].includes(request.state)},
  retried: {word: "tried more than once", keeps: (request) => request.attempts > 1},
  page: {word: "sent from this page", keeps: (request) => sentFromHere(request.id) !== undefined},
};

// Returns the beginning of the question in a request that this page sent.
function ofThisPage(id) {
  const record = sentFromHere(id);
  if (!record) return "";
  const question = String(record.body.messages.at(-1)?.content ?? "");
  return `sent from this page: “${question.length > MOST_QUESTION ? `${question.slice(0, MOST_QUESTION)}…` : question}”`;
}

// How the request's time was spent so far, in words.
function ending(request, now) {
  const error = errorBeyondState(request);
  if (error) return error;
  if (isUnderWay(request.state) && request.stage_ms !== undefined) return `for ${duration(request.stage_ms)}`;
  if (isUnderWay(request.state)) return `for ${duration(1000 * (now - request.received))}`;
  return request.finish ? `finish: ${request.finish}` : "";
}

function requestRow({id, received}) {
  const badge = requestBadge();
  const end = make("span", {class: "more name"});
  const age = make("span", {class: "more"});
  const prompt = make("span");
  const cached = make("span", {class: "more"});
  const answer = make("span");
  const attempts = make("span", {class: "more"});
  const first = make("span");
  const total = make("span");
  const workers = make("span", {class: "name"});
  const here = make("span", {class: "more"});
  const element = make("tr", {"data-request": id},
    make("th", {scope: "row"}, make("div", {class: "cell"},
      make("a", {href: `#/requests/${encodeURIComponent(id)}`, class: "name code"}, id), here)),
    cell("State", badge.element, end), cell("Received", make("span", {}, clock(received)), age),
    cell("Prompt", prompt, cached), cell("Answer", answer), cell("First token", first), cell("Total", total),
    cell("Workers", workers, attempts));
  return {
    element,
    update(request, now) {
      badge.set(request.state);
      setAttribute(element, "data-state", request.state);
      setText(end, ending(request, now));
      setText(age, ago(received, now));
      setText(prompt, request.prompt_tokens === undefined ? "–" : `${count(request.prompt_tokens)} tokens`);
      setText(cached, request.cached_tokens ? `${count(request.cached_tokens)} cached` : "");
      setText(answer, request.output_tokens === undefined ? "–" : `${count(request.output_tokens)} tokens`);
      setText(first, duration(request.ttft_ms));
      setText(total, duration(request.total_ms));
      setText(workers, [request.prefill_worker, request.decode_worker].filter(Boolean).join(" → ") || "–");
      setText(attempts, request.attempts > 1 ? `${count(request.attempts)} attempts` : "");
      setText(here, ofThisPage(request.id));
    },
  };
}

function requestList() {
  const body = make("tbody", {id: "requests"});
  const none = make("p", {class: "note"});
  const told = make("p", {class: "muted", id: "request-count"});
  const filter = make("select", {id: "request-filter"},
    ...Object.entries(FILTERS).map(([value, {word}]) => make("option", {value}, word)));
  const table = make("table", {class: "requests"}, tableHead(COLUMNS), body);
  let last = [];
  let lastNow;

  function render() {
    const shown = last.filter(FILTERS[filter.value].keeps);
    none.hidden = shown.length > 0;
    table.hidden = shown.length === 0;
    setText(none, last.length === 0 ? "No request yet. Send one from “Try it”, or with any OpenAI client."
      : "None of the last requests is one of these.");
    const running = last.filter((request) => isUnderWay(request.state)).length;
    setText(told, remark(`${count(shown.length)} of the last ${count(last.length)} shown`, `${count(running)} under way`,
      "the newest first"));
    syncList(body, shown, (request) => request.id, requestRow, (row, request) => row.update(request, lastNow));
  }
  filter.addEventListener("change", render);
  body.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...body.querySelectorAll("th a")];
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    links[Math.max(0, Math.min(links.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))].focus();
  });
  return {
    element: make("section", {class: "panel", "aria-labelledby": "requests-title"},
      make("div", {class: "panel-head"}, make("h1", {id: "requests-title"}, "Requests"),
        make("label", {}, "Show ", filter)), told, none, table),
    update(requests, now) {
      last = requests;
      lastNow = now;
      render();
    },
  };
}

export function requestsView() {
  const list = requestList();
  const one = requestPanel();
  const element = make("div", {class: "requests-view"});
  let id = "";
  return {
    title: (argument) => (argument ? `Request ${argument}` : "Requests"),
    element,
    open(argument) {
      id = argument;
      if (id) one.open(id);
      const shown = id ? one.element : list.element;
      if (element.firstElementChild !== shown) element.replaceChildren(shown);
    },
    path: () => {
      if (!id) return "/page/requests";
      return one.settled() ? undefined : `/page/requests/${encodeURIComponent(id)}`;
    },
    update(answer, now) {
      if (id) {
        one.update(answer, now);
      } else if (answer.data) {
        list.update(answer.data.requests ?? [], now ?? Date.now() / 1000);
      }
    },
  };
}
