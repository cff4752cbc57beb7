// Refusals, kills, resumes: the newest first, at most what the router keeps.

import {make, setAttribute, setText, syncList} from "./dom.js";
import {ago, clock} from "./format.js";
import {eventBadge} from "./states.js";

const MOST = 200;
const NEWS_S = 10;

function eventRow(event) {
  const badge = eventBadge();
  badge.set(event.kind);
  const age = make("span", {class: "more"});
  const about = make("span", {class: "more name"});
  if (event.worker) about.append(event.worker);
  if (event.request) {
    if (event.worker) about.append(" · ");
    about.append(make("a", {href: `#/requests/${encodeURIComponent(event.request)}`}, event.request));
  }
  const element = make("li", {"data-kind": event.kind},
    make("span", {class: "when"}, make("time", {datetime: new Date(event.at * 1000).toISOString()}, clock(event.at)), age),
    badge.element, make("span", {class: "what"}, make("span", {}, event.text ?? ""), about));
  return {
    element,
    update(_, now) {
      setText(age, ago(event.at, now));
      setAttribute(element, "class", now - event.at < NEWS_S ? "news" : "");
    },
  };
}

export function eventList() {
  const list = make("ol", {class: "events", id: "events", tabindex: "0", "aria-labelledby": "events-title"});
  const none = make("p", {class: "note"}, "Nothing yet: no worker came or went, no request was refused, retried or failed.");
  return {
    element: make("div", {}, none, list),
    update(fleet) {
      const events = (fleet.events ?? []).slice(-MOST).reverse();
      none.hidden = events.length > 0;
      list.hidden = events.length === 0;
      syncList(list, events, (event) => `${event.number}@${event.at}`, eventRow, (row, event) => row.update(event, fleet.now));
    },
  };
}
