// One request: what became of it, where its time went, what was cached and sent, and the tokens where this page has them.

import {make, setText} from "./dom.js";
import {ago, bytes, count, counted, dateAndClock, duration, percent} from "./format.js";
import {panel, remark, tableHead} from "./parts.js";
import {sentFromHere} from "./sent.js";
import {errorBeyondState, isUnderWay, requestBadge} from "./states.js";
import {tokensPanel} from "./tokens.js";
import {waterfall} from "./waterfall.js";

// The stages that follow one another, in order.
const STAGES = [
  ["queue_ms", "Queue of the router"],
  ["prefill_queue_ms", "Queue of the prefill worker"],
  ["prefill_ms", "Prefill"],
  ["exposed_kv_transfer_ms", "Transfer after the prefill (exposed)"],
  ["decode_queue_ms", "Queue of the decode worker"],
  ["decode_ms", "Decode"],
];
const BESIDE = [
  ["kv_transfer_ms", "Transfer in all, most of it beside the prefill"],
  ["time_to_first_token_ms", "Time to first token"],
];

function row(key, name, ms, total) {
  return make("tr", {"data-timing": key, "data-ms": ms}, make("th", {scope: "row"}, name),
    make("td", {}, duration(ms)), make("td", {}, total ? percent(ms / total) : "–"));
}

// What the stages leave of the total. It is negative where they overlap: a decode worker may begin while the prefill worker still
// waits for the report that all has arrived.
function restOf(timings, rest) {
  if (rest < 0) return "Decode beside the end of the transfer";
  return timings.attempts > 1 ? "The rest: lost attempts, network, router" : "The rest: network, router";
}

function timingsTable(timings) {
  const total = timings.total_ms;
  const stages = STAGES.filter(([key]) => timings[key] !== undefined);
  const spent = stages.reduce((sum, [key]) => sum + timings[key], 0);
  const rows = stages.map(([key, name]) => row(key, name, timings[key], total));
  if (total !== undefined) {
    rows.push(row("rest_ms", restOf(timings, total - spent), total - spent, total));
    rows.push(row("total_ms", "Total", total, total));
  }
  const beside = BESIDE.filter(([key]) => timings[key] !== undefined)
    .map(([key, name]) => row(key, name, timings[key], total));
  return make("table", {class: "figures-table"},
    tableHead(["Stage", "Time", "Of the total"]),
    make("tbody", {}, ...rows), make("tbody", {class: "beside"}, ...beside));
}

function fact(name, value) {
  return make("div", {}, make("dt", {}, name), make("dd", {}, value));
}

function facts(request, now) {
  const transfer = request.transfer ?? {};
  const timings = request.timings ?? {};
  const cached = request.cached_tokens ? `${count(request.cached_tokens)} of them were cached` : "none was cached";
  const list = [
    fact("Received", remark(dateAndClock(request.received), now && ago(request.received, now))),
    fact("Prompt", request.prompt_tokens === undefined ? "–" : `${counted(request.prompt_tokens, "token")}, ${cached}`),
    fact("Answer", remark(counted(request.output_tokens, "token"), request.finish && `finish: ${request.finish}`)),
    fact("First token after", duration(request.ttft_ms ?? timings.time_to_first_token_ms)),
    fact("Total", duration(request.total_ms ?? timings.total_ms)),
    fact("Workers", timings.local_prefill ? `${request.decode_worker ?? "–"}, which computed the prompt itself`
      : [request.prefill_worker, request.decode_worker].filter(Boolean).join(" → ") || "–"),
  ];
  if (transfer.bytes !== undefined) {
    list.push(fact("Sent", remark(`${bytes(transfer.bytes)} of KV cache`, transfer.wire_dtype,
      counted(transfer.messages, "message"), transfer.bytes_resent && `${bytes(transfer.bytes_resent)} of it again`)));
    if (transfer.bytes_saved) list.push(fact("Not sent", `${bytes(transfer.bytes_saved)}: the decode worker held it already`));
  }
  if (timings.exact !== undefined) {
    list.push(fact("Exact", timings.exact ? "yes: the tokens of an undisturbed run" : "no: an undisturbed run's tokens may differ"));
  }
  return list;
}

export function requestPanel() {
  const badge = requestBadge();
  const title = make("h1", {class: "name code"});
  const error = make("p", {class: "note problem", role: "status"});
  const list = make("dl", {class: "facts"});
  const picture = waterfall();
  const table = make("div", {class: "timings", id: "timings"});
  const tokens = make("div");
  const found = make("div", {}, make("div", {class: "panel"}, list),
    panel("waterfall-title", "Where the time went", {}, picture.element, table));
  const element = make("div", {class: "request"},
    make("p", {}, make("a", {href: "#/requests"}, "← All requests")),
    make("div", {class: "panel-head"}, title, badge.element), error, found, tokens);
  let id;
  let done = false;
  let shownTokens;
  let last;

  function showTokens() {
    const record = sentFromHere(id);
    const size = record?.choices.reduce((sum, choice) => sum + choice.tokens.length, 0);
    if (shownTokens === size && tokens.firstChild) return;
    shownTokens = size;
    tokens.replaceChildren(tokensPanel(record));
  }

  return {
    element,
    open(newId) {
      if (newId === id) {
        showTokens();
        return;
      }
      id = newId;
      done = false;
      last = undefined;
      shownTokens = undefined;
      found.hidden = true;
      error.hidden = true;
      setText(title, id);
      showTokens();
      badge.set("asking…");
    },
    settled: () => done,
    update(answer, now) {
      if (answer.trouble) {
        done = answer.trouble === "missing" && last !== undefined;
        if (done) return;
        badge.set(answer.trouble === "missing" ? "unknown" : "not told");
        error.hidden = false;
        setText(error, answer.trouble === "missing"
          ? "The router does not know this request, or has forgotten it: it keeps the last 256." : answer.error.message);
        found.hidden = true;
        return;
      }
      const request = answer.data;
      if (request.id !== id) return;  // a late answer about the previously shown request
      last = request;
      done = !isUnderWay(request.state);
      found.hidden = false;
      badge.set(request.state);
      error.hidden = !errorBeyondState(request);
      setText(error, errorBeyondState(request) ?? "");
      list.replaceChildren(...facts(request, now));
      picture.update(request);
      table.replaceChildren(...(request.timings ? [timingsTable(request.timings)] : []));
      showTokens();
    },
  };
}
