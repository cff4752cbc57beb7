// The table of workers. A worker whose state changed while the page watched says so for a while.

import {make, setAttribute, setStyle, setText, syncList} from "./dom.js";
import {ago, bytes, clock, count, duration, percent, perSecond} from "./format.js";
import {cell, remark, tableHead} from "./parts.js";
import {workerBadge} from "./states.js";

const NEWS_S = 60;
const COLUMNS = ["Worker", "State", "Running", "Waiting", "KV blocks", "Tokens", "Hand-offs"];
const ORDER = {prefill: 0, decode: 1};

// A bar of blocks by state, and its figures in words.
function blocksBar() {
  const parts = {used: make("span", {class: "used"}), cached: make("span", {class: "cached"})};
  const text = make("span", {class: "more"});
  return {
    element: make("div", {class: "blocks"}, make("div", {class: "bar", "aria-hidden": "true"}, parts.used, parts.cached), text),
    set(blocks) {
      for (const [name, part] of Object.entries(parts)) {
        setStyle(part, "width", blocks?.total ? `${(100 * (blocks[name] ?? 0) / blocks.total).toFixed(2)}%` : "0%");
      }
      setText(text, blocks?.total
        ? remark(`${percent(blocks.used / blocks.total)} used`, `${percent(blocks.cached / blocks.total)} cached`,
          `of ${count(blocks.total)}`)
        : "not told yet");
    },
  };
}

function workerRow() {
  const name = make("strong", {class: "name"});
  const about = make("span", {class: "more name"});
  const badge = workerBadge();
  const problem = make("span", {class: "problem more"});
  const heard = make("span", {class: "more"});
  const address = make("span", {class: "more name"});
  const running = make("span");
  const waiting = make("span");
  const bar = blocksBar();
  const tokens = make("span");
  const whose = make("span", {class: "more"});
  const handoffs = make("span");
  const rate = make("span", {class: "more"});
  const exposed = make("span", {class: "more"});
  const element = make("tr", {},
    make("th", {scope: "row"}, make("div", {class: "cell"}, name, about, address)),
    cell("State", badge.element, problem, heard), cell("Running", running), cell("Waiting", waiting),
    cell("KV blocks", bar.element), cell("Tokens", tokens, whose), cell("Hand-offs", handoffs, rate, exposed));
  let state;
  let changedAt;
  return {
    element,
    update(worker, now) {
      if (state !== undefined && state !== worker.state) changedAt = now;
      state = worker.state;
      const news = changedAt !== undefined && now - changedAt < NEWS_S;
      element.classList.toggle("news", news);
      setAttribute(element, "data-worker", worker.name);
      setAttribute(element, "data-state", worker.state);
      setText(name, worker.name);
      setText(about, remark(worker.role, worker.weights, worker.kv_dtype && `${worker.kv_dtype} KV`));
      setText(address, worker.address ?? "");
      badge.set(worker.state);
      const left = worker.state === "draining" && `${count(worker.in_flight)} left to finish`;
      setText(problem, remark(worker.problem ?? left, news && `since ${clock(changedAt)}, ${ago(changedAt, now)}`));
      setText(running, count(worker.running));
      setText(waiting, count(worker.waiting));
      bar.set(worker.blocks);
      setText(tokens, perSecond(worker.tokens_per_second));
      setText(whose, worker.role === "prefill" ? "prompts" : "answers");
      setText(handoffs, perSecond(worker.handoffs_per_second));
      setText(rate, worker.handoff_bytes_per_second === undefined ? "" : `${bytes(worker.handoff_bytes_per_second)}/s`);
      setText(exposed, worker.exposed_transfer_ms === undefined ? "" : `${duration(worker.exposed_transfer_ms)} exposed`);
      setText(heard, worker.silent_ms === undefined ? "not heard yet" : `heard ${duration(worker.silent_ms)} ago`);
    },
  };
}

export function workerTable() {
  const body = make("tbody", {id: "workers"});
  const none = make("p", {class: "note"},
    "No worker yet. A worker joins when its address stands in --prefill or --decode of the router.");
  const table = make("table", {class: "workers"}, tableHead(COLUMNS), body);
  return {
    element: make("div", {}, none, table),
    update(fleet) {
      const workers = [...fleet.workers ?? []].sort((one, other) => (ORDER[one.role] ?? 2) - (ORDER[other.role] ?? 2));
      none.hidden = workers.length > 0;
      table.hidden = workers.length === 0;
      syncList(body, workers, (worker) => worker.address ?? worker.name, workerRow, (row, worker) => row.update(worker, fleet.now));
    },
  };
}
