// Fleet: one glance says whether it is well; below it the figures with their last 15 minutes, each worker, and what happened.

import {adviceView} from "./advice.js";
import {announce} from "./announcer.js";
import {make, setAttribute, setText, syncList} from "./dom.js";
import {eventList} from "./events.js";
import {ago, bytes, count, counted, duration, perSecond} from "./format.js";
import {panel, remark} from "./parts.js";
import {sparkline} from "./sparkline.js";
import {verdictBadge, workerBadge} from "./states.js";
import {newlyRefused, verdict} from "./verdict.js";
import {workerTable} from "./workers.js";

const A_MINUTE_S = 60;
const HISTORY_EACH_MS = 5000;  // the router adds a point that often
const NEWS_S = 10;

const minutes = (seconds) => `${Math.max(1, Math.round(seconds / 60))} min`;

// A figure with the curve of `list` of /page/history; `write` makes a text of one of its values.
function figure(name, list, write) {
  const value = make("span", {class: "value"});
  const more = make("span", {class: "more"});
  const peak = make("span", {class: "more peak"});
  const line = sparkline();
  return {
    element: make("div", {class: "figure", "data-figure": list}, make("h3", {}, name), value, more, line.element, peak),
    set(text, extra) {
      setText(value, text);
      setText(more, extra);
    },
    // `last` is the present value, if one is known beside the history.
    draw(history, now, last) {
      const points = (history.at ?? []).map((at, index) => ({at, value: history[list]?.[index]}));
      const recent = points.filter(({at}) => at <= now && now - at <= history.length_s);
      if (last !== undefined) recent.push({at: now, value: last});
      const shown = line.show(recent, now);
      setText(peak, shown ? `at most ${write(shown.most)} in ${minutes(shown.seconds)}` : "");
    },
  };
}

// The newest time to first token that the history has: {at, value}, or undefined.
function newestFirstToken(history) {
  const index = (history.ttft_ms ?? []).findLastIndex((value) => typeof value === "number");
  return index < 0 ? undefined : {at: history.at[index], value: history.ttft_ms[index]};
}

function routerRow() {
  const badge = workerBadge();
  const name = make("strong");
  const text = make("span", {class: "muted"});
  return {
    element: make("li", {}, badge.element, name, text),
    update(router) {
      badge.set(router.state);
      setText(name, router.name);
      const refused = Object.entries(router.refused ?? {}).filter(([, number]) => number > 0)
        .map(([why, number]) => `${count(number)} ${why.replaceAll("_", " ")}`);
      setText(text, remark(`up ${duration(1000 * router.uptime_s)}`, `${count(router.running)} running`,
        `${count(router.waiting)} waiting`, counted(router.streams_behind, "slow reader"),
        `refused: ${refused.length ? refused.join(", ") : "none"}`));
    },
  };
}

export function fleetView() {
  const badge = verdictBadge();
  const title = make("h1", {id: "verdict"}, "Asking the router…");
  const summary = make("p", {class: "muted", id: "summary"});
  const tokens = figure("Tokens out", "tokens_per_second", perSecond);
  const firstToken = figure("Time to first token", "ttft_ms", duration);
  const prompts = figure("Prompt tokens in", "prompt_tokens_per_second", perSecond);
  const handoffs = figure("Hand-offs", "handoffs_per_second", perSecond);
  const requests = figure("Requests of this router", "running", count);
  const routers = make("ul", {class: "routers", id: "routers"});
  const workers = workerTable();
  const advice = adviceView();
  const advicePanel = panel("advice-title", "What the load needs", {hidden: true}, advice.element);
  const events = eventList();
  const verdictBox = make("section", {class: "verdict", "data-level": "idle", "aria-label": "State of the fleet"},
    badge.element, make("div", {}, title, summary));
  const element = make("div", {class: "fleet"},
    verdictBox,
    make("section", {class: "figures", "aria-label": "Figures of the last five seconds"},
      tokens.element, firstToken.element, prompts.element, handoffs.element, requests.element),
    panel("workers-title", "Workers", {}, workers.element),
    advicePanel,
    panel("events-title", "What happened", {class: "panel events-panel"}, events.element),
    panel("routers-title", "Routers", {}, routers));

  const minute = [];  // fleets of the last minute, oldest first
  let said;
  let fleetNow;  // the last report about the fleet
  let history = {};  // the router's last answer
  let historyAt = -Infinity;  // when it was asked for

  function judge(fleet) {
    minute.push(fleet);
    while (minute.length > 1 && fleet.now - minute[0].now > A_MINUTE_S) minute.shift();
    const found = verdict(fleet, newlyRefused(minute[0], fleet));
    setAttribute(verdictBox, "data-level", found.level);
    badge.set(found.level, {good: "well", warn: "check", bad: "trouble"}[found.level]);
    setText(title, found.title);
    setText(summary, found.text);
    if (said !== undefined && said !== found.title) announce(found.title);
    said = found.title;
  }

  function measure(fleet) {
    const sum = (name) => (fleet.routers ?? []).reduce((total, router) => total + (router[name] ?? 0), 0);
    tokens.set(perSecond(fleet.tokens_per_second), "all answers together");
    prompts.set(perSecond(fleet.prompt_tokens_per_second), "computed, not cached");
    handoffs.set(perSecond(fleet.handoffs_per_second), `${bytes(fleet.handoff_bytes_per_second)}/s of KV cache`);
    requests.set(`${count(sum("running"))} running`, `${count(sum("waiting"))} waiting`);
    const first = newestFirstToken(history);
    firstToken.set(duration(first?.value),
      first === undefined ? "no first token in 15 min" : fleet.now - first.at < NEWS_S ? "mean of 5 s" : ago(first.at, fleet.now));
    tokens.draw(history, fleet.now, fleet.tokens_per_second);
    prompts.draw(history, fleet.now, fleet.prompt_tokens_per_second);
    handoffs.draw(history, fleet.now, fleet.handoffs_per_second);
    requests.draw(history, fleet.now, sum("running"));
    firstToken.draw(history, fleet.now);
  }

  return {
    title: () => "Fleet",
    element,
    open() {},
    path() {
      if (performance.now() - historyAt < HISTORY_EACH_MS) return undefined;
      historyAt = performance.now();
      return "/page/history";
    },
    update(answer) {
      history = answer.data ?? history;
      if (fleetNow) measure(fleetNow);
    },
    updateFleet(fleet) {
      fleetNow = fleet;
      judge(fleet);
      measure(fleet);
      workers.update(fleet);
      advicePanel.hidden = !advice.update(fleet);
      events.update(fleet);
      syncList(routers, fleet.routers ?? [], (router) => router.name, routerRow, (row, router) => row.update(router));
    },
  };
}
