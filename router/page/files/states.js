// States of workers and requests: each has a word, a level and a shape, so that no colour says anything alone.

import {draw, make, setAttribute, setText} from "./dom.js";

// level: good, busy (something goes on), warn (needs a look), bad (is not used), idle.
const WORKERS = {
  ready: {level: "good", shape: "disc"},
  starting: {level: "busy", shape: "ring"},
  draining: {level: "warn", shape: "down"},
  suspected: {level: "warn", shape: "up"},
  unreachable: {level: "bad", shape: "cross"},
  quarantined: {level: "bad", shape: "square"},
  stuck: {level: "bad", shape: "diamond"},
  refused: {level: "bad", shape: "barred"},
  serving: {level: "good", shape: "disc"},
};
const REQUESTS = {
  queued: {level: "idle", shape: "ring"},
  prefill: {level: "busy", shape: "right"},
  transfer: {level: "busy", shape: "right"},
  decode: {level: "busy", shape: "right"},
  done: {level: "good", shape: "disc"},
  failed: {level: "bad", shape: "cross"},
  cancelled: {level: "warn", shape: "square"},
};
const EVENTS = {
  worker_up: {word: "up", level: "good", shape: "up"},
  worker_down: {word: "down", level: "bad", shape: "cross"},
  worker_draining: {word: "draining", level: "warn", shape: "down"},
  quarantined: {word: "quarantined", level: "bad", shape: "square"},
  refused: {word: "refused", level: "warn", shape: "barred"},
  retried: {word: "retried", level: "warn", shape: "ring"},
  resumed: {word: "resumed", level: "good", shape: "right"},
  failed: {word: "failed", level: "bad", shape: "cross"},
  cancelled: {word: "cancelled", level: "idle", shape: "square"},
};
const UNHEARD_OF = {level: "idle", shape: "ring"};
const VERDICTS = {good: "disc", warn: "up", bad: "cross", idle: "ring"};

const SHAPES = {
  disc: "M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2z",
  ring: "M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2zm0 3a3 3 0 1 1 0 6 3 3 0 1 1 0-6z",
  down: "M2 4h12L8 14z",
  up: "M8 2l6 10H2z",
  right: "M4 2l10 6-10 6z",
  cross: "M4 2l4 4 4-4 2 2-4 4 4 4-2 2-4-4-4 4-2-2 4-4-4-4z",
  square: "M3 3h10v10H3z",
  diamond: "M8 1l7 7-7 7-7-7z",
  barred: "M8 2a6 6 0 1 0 0 12A6 6 0 1 0 8 2zM4 7h8v2H4z",
};

export const workerLevel = (state) => (WORKERS[state] ?? UNHEARD_OF).level;
export const isUnderWay = (state) => ["queued", "prefill", "transfer", "decode"].includes(state);

// The request's error, unless it says no more than the state beside it, as CANCELLED does.
export const errorBeyondState = ({error, state}) => (error?.toLowerCase() === state ? undefined : error);

// A shape with a word. `set` changes both; the word is all that a screen reader gets.
class Badge {
  constructor() {
    this.path = draw("path", {"fill-rule": "evenodd"});
    this.word = make("span");
    this.element = make("span", {class: "badge"},
      draw("svg", {viewBox: "0 0 16 16", "aria-hidden": "true"}, this.path), this.word);
  }

  set({level, shape}, word) {
    setAttribute(this.path, "d", SHAPES[shape]);
    setAttribute(this.element, "data-level", level);
    setText(this.word, word);
  }
}

function badgeOf(table) {
  return () => {
    const badge = new Badge();
    return {element: badge.element, set: (state) => badge.set(table[state] ?? UNHEARD_OF, table[state]?.word ?? String(state))};
  };
}

export const workerBadge = badgeOf(WORKERS);
export const requestBadge = badgeOf(REQUESTS);
export const eventBadge = badgeOf(EVENTS);

export function verdictBadge() {
  const badge = new Badge();
  return {element: badge.element, set: (level, word) => badge.set({level, shape: VERDICTS[level]}, word)};
}
