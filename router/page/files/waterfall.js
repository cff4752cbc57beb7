// The waterfall of a request: its attempts below each other, each with a lane for every stage. All positions are parts of one
// axis, from the arrival to the last thing that happened.

import {make, roveFocus, setStyle, setText} from "./dom.js";
import {bytes, count, duration} from "./format.js";

const LANES = {
  queue: "Queue",
  prefill_queue: "Prefill's queue",
  prefill: "Prefill",
  transfer: "Transfer",
  decode_queue: "Decode's queue",
  decode: "Decode",
};
const MOST_SPANS = 600;
const TICKS = 5;

// A round number of milliseconds such that about TICKS of them make `total`.
function tickStep(total) {
  const rough = Math.max(total, 1e-3) / TICKS;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * ([1, 2, 5, 10].find((factor) => factor * power >= rough) ?? 10);
}

function describe(span, lane) {
  const parts = [LANES[lane] ?? lane];
  if (span.label) parts.push(span.label);
  if (span.layers) {
    const [first, last] = span.layers;
    parts.push(first === last ? `layer ${first}` : `layers ${first} to ${last}`);
  }
  if (span.tokens !== undefined) parts.push(`${count(span.tokens)} tokens`);
  if (span.bytes !== undefined) parts.push(bytes(span.bytes));
  parts.push(`${duration(span.end_ms - span.start_ms)}, from ${duration(span.start_ms)} to ${duration(span.end_ms)}`);
  return parts.join(" · ");
}

function place(element, start, end, whole) {
  setStyle(element, "left", `${(100 * start / whole).toFixed(3)}%`);
  setStyle(element, "width", `${(100 * Math.max(0, end - start) / whole).toFixed(3)}%`);
  return element;
}

function axis(whole) {
  const step = tickStep(whole);
  const ticks = [];
  for (let at = 0; at <= whole * 1.0001; at += step) {
    const tick = make("span", {class: "tick"}, duration(at));
    setStyle(tick, "left", `${(100 * at / whole).toFixed(3)}%`);
    if (at > whole * 0.9) tick.classList.add("last");
    ticks.push(tick);
  }
  return make("div", {class: "lane axis", "aria-hidden": "true"},
    make("span"), make("div", {class: "track"}, ...ticks), make("span"));
}

function laneRow(lane, spans, whole, marks, tell) {
  const start = Math.min(...spans.map((span) => span.start_ms));
  const end = Math.max(...spans.map((span) => span.end_ms));
  const bars = spans.map((span, index) => {
    const text = describe(span, lane);
    const bar = make("span", {class: `span ${index % 2 ? "odd" : "even"}`, role: "img", tabindex: "-1",
      "aria-label": text, title: text, focus: () => tell(text), pointerenter: () => tell(text)});
    return place(bar, span.start_ms, span.end_ms, whole);
  });
  const lines = marks.map(({at, name}) => place(make("span", {class: "mark-line", title: name}), at, at, whole));
  return make("div", {class: "lane", "data-lane": lane, "data-start-ms": start, "data-end-ms": end},
    make("span", {class: "lane-name"}, LANES[lane] ?? lane), make("div", {class: "track"}, ...lines, ...bars),
    make("span", {class: "lane-time"}, duration(end - start)));
}

function attemptHead(attempt, several) {
  const way = attempt.local_prefill ? `${attempt.decode_worker ?? "–"}, prompt computed there`
    : [attempt.prefill_worker, attempt.decode_worker].filter(Boolean).join(" → ") || "no workers yet";
  return make("h3", {class: "attempt"}, several ? `Attempt ${attempt.number}: ${way}` : way,
    attempt.failure ? make("span", {class: "problem"}, ` ended: ${attempt.failure}`) : "");
}

// The lanes of one attempt in the order of the stages; lanes that this page does not know come last.
function lanesOf(spans) {
  const lanes = new Map(Object.keys(LANES).map((lane) => [lane, []]));
  for (const span of spans) {
    if (!lanes.has(span.lane)) lanes.set(span.lane, []);
    lanes.get(span.lane).push(span);
  }
  return [...lanes].filter(([, found]) => found.length > 0);
}

export function waterfall() {
  const detail = make("p", {class: "detail muted", id: "span-detail"});
  const chart = make("div", {class: "waterfall", id: "waterfall", role: "group",
    "aria-label": "Waterfall; arrow keys go from span to span"});
  roveFocus(chart, ".span");
  let drawn;

  function render(request) {
    const spans = (request.spans ?? []).slice(0, MOST_SPANS);
    const tries = request.tries?.length ? request.tries : [{number: 1}];
    const first = request.ttft_ms;
    const ends = [...spans, ...tries].map((each) => each.end_ms ?? 0);
    const whole = Math.max(request.total_ms ?? 0, first ?? 0, ...ends, 1e-3);
    const marks = first === undefined ? [] : [{at: first, name: `first token after ${duration(first)}`}];
    const rows = [axis(whole)];
    for (const attempt of tries) {
      rows.push(attemptHead(attempt, tries.length > 1 || attempt.failure));
      for (const [lane, found] of lanesOf(spans.filter((span) => (span.try ?? 1) === attempt.number))) {
        rows.push(laneRow(lane, found, whole, marks, (text) => setText(detail, text)));
      }
    }
    chart.replaceChildren(...rows);
    const bar = chart.querySelector(".span");
    if (bar) bar.tabIndex = 0;
    setText(detail, spans.length === 0 ? "No stage has ended yet." : [
      first === undefined ? "" : `The line is the first token, after ${duration(first)}.`,
      "Point at a span, or go there with Tab and the arrow keys.",
      request.spans.length > MOST_SPANS ? `Only the first ${count(MOST_SPANS)} spans are drawn.` : "",
    ].join(" "));
  }

  return {
    element: make("div", {}, chart, detail),
    update(request) {
      const now = JSON.stringify([request.spans, request.tries, request.total_ms, request.ttft_ms]);
      if (now === drawn) return;  // what has the focus stays
      drawn = now;
      render(request);
    },
  };
}
