// Fleet: one glance says whether it is well; below it the figures, each worker, and what happened.

import {adviceView} from "./advice.js";
import {announce} from "./announcer.js";
import {make, setAttribute, setText, syncList} from "./dom.js";
import {eventList} from "./events.js";
import {bytes, count, counted, duration, perSecond} from "./format.js";
import {panel, remark} from "./parts.js";
import {sparkline} from "./sparkline.js";
import {verdictBadge, workerBadge} from "./states.js";
import {newlyRefused, verdict} from "./verdict.js";
import {workerTable} from "./workers.js";

const A_MINUTE_S = 60;

function figure(name) {
  const value = make("span", {class: "value"});
  const more = make("span", {class: "more"});
  const line = sparkline();
  return {
    element: make("div", {class: "figure"}, make("h3", {}, name), value, line.element, more),
    set(number, text, extra) {
      setText(value, text);
      setText(more, extra);
      line.add(number);
    },
  };
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
  const tokens = figure("Tokens out");
  const prompts = figure("Prompt tokens in");
  const handoffs = figure("Hand-offs");
  const requests = figure("Requests");
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
      tokens.element, prompts.element, handoffs.element, requests.element),
    panel("workers-title", "Workers", {}, workers.element),
    advicePanel,
    panel("events-title", "What happened", {class: "panel events-panel"}, events.element),
    panel("routers-title", "Routers", {}, routers));

  const minute = [];  // fleets of the last minute, oldest first
  let said;

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
    tokens.set(fleet.tokens_per_second, perSecond(fleet.tokens_per_second), "all answers together");
    prompts.set(fleet.prompt_tokens_per_second, perSecond(fleet.prompt_tokens_per_second), "computed, not cached");
    handoffs.set(fleet.handoffs_per_second, perSecond(fleet.handoffs_per_second),
      `${bytes(fleet.handoff_bytes_per_second)}/s of KV cache`);
    requests.set(sum("running"), `${count(sum("running"))} running`, `${count(sum("waiting"))} waiting`);
  }

  return {
    title: () => "Fleet",
    element,
    open() {},
    updateFleet(fleet) {
      judge(fleet);
      measure(fleet);
      workers.update(fleet);
      advicePanel.hidden = !advice.update(fleet);
      events.update(fleet);
      syncList(routers, fleet.routers ?? [], (router) => router.name, routerRow, (row, router) => row.update(router));
    },
  };
}
