// The page's frame: which view is shown, what is read from the router each second, and what is said when that fails.

import {announce} from "./announcer.js";
import {setText} from "./dom.js";
import {fleetView} from "./fleet.js";
import {clock, duration} from "./format.js";
import {kvView} from "./kv.js";
import {requestsView} from "./requests.js";
import {readJson} from "./router_api.js";
import {keepTheme} from "./theme.js";
import {tryView} from "./try.js";

const EACH_MS = 1000;
const WHERE_REFUSED_MS = 10000;
const GONE_AFTER = 2;  // failures in a row: a single one is no news

// A view is {title, element, open(argument), path(): what to read besides the fleet or undefined, update(answer),
// updateFleet(fleet)}. `element` is made once, so a chat survives a look at the fleet.
const views = {fleet: fleetView(), requests: requestsView(), try: tryView(), kv: kvView()};
const content = document.getElementById("content");
const banner = document.getElementById("banner");
const pulse = document.getElementById("pulse");

let shown;
let misses = 0;
let goneSince;
let timer;
let turn = 0;  // answers of an earlier turn come too late

function place() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  let argument = rest.join("/");
  try {
    argument = decodeURIComponent(argument);
  } catch {
    argument = "";
  }
  return Object.hasOwn(views, name) ? {name, argument} : {name: "fleet", argument: ""};
}

function show() {
  const {name, argument} = place();
  const first = shown === undefined;
  shown = views[name];
  shown.open(argument);
  if (content.firstElementChild !== shown.element) content.replaceChildren(shown.element);
  document.title = `${shown.title(argument)} · Baton`;
  for (const link of document.querySelectorAll("nav [data-view]")) {
    if (link.dataset.view === name) {
      link.setAttribute("aria-current", "page");
    } else {
      link.removeAttribute("aria-current");
    }
  }
  if (!first) {
    content.focus({preventScroll: true});
    window.scrollTo(0, 0);
  }
  poll();
}

// Shows the banner, or without a title hides it. It is announced once, though its text goes on counting.
function tell(title, text) {
  if (title === undefined) {
    banner.hidden = true;
    return;
  }
  if (banner.hidden) announce(title);
  setText(banner, `${title} ${text}`);
  banner.hidden = false;
}

function arrived(answer) {
  if (answer.data) {
    if (goneSince !== undefined) announce("The router answers again.");
    misses = 0;
    goneSince = undefined;
    document.body.classList.remove("stale");
    tell();
    setText(pulse, `${answer.data.model ?? ""} · ${clock(answer.data.now)}`);
    setText(document.getElementById("about"), `Baton ${answer.data.version ?? ""}`);
    for (const view of Object.values(views)) view.updateFleet?.(answer.data);
    return EACH_MS;
  }
  if (answer.trouble === "denied") {
    document.body.classList.add("stale");
    tell("The router does not show this page to you.",
      `${answer.error.message} (${answer.error.status}). It is open to this machine itself and to an`
      + " operator's key: load the page again, give any name, and the key as password.");
    return WHERE_REFUSED_MS;
  }
  ++misses;
  goneSince ??= Date.now() / 1000;
  if (misses < GONE_AFTER) return EACH_MS;
  document.body.classList.add("stale");
  const why = answer.trouble === "gone" ? "The router does not answer"
    : `The router answers with an error (${answer.error.status})`;
  const since = duration(1000 * Math.floor(Date.now() / 1000 - goneSince));
  tell(`${why} since ${clock(goneSince)}.`,
    `For ${since} now; what stands below is what it said last. Asking again each second.`);
  return EACH_MS;
}

async function poll() {
  clearTimeout(timer);
  if (document.hidden) return;
  const own = ++turn;
  const view = shown;
  const path = view.path?.();
  const [fleet, detail] = await Promise.all([readJson("/page/fleet"), path ? readJson(path) : undefined]);
  if (own !== turn) return;
  const pause = arrived(fleet);
  if (detail !== undefined && detail.trouble !== "gone") view.update(detail, fleet.data?.now);
  timer = setTimeout(poll, pause);
}

// By itself the link would change what stands behind #, and with that the view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  content.focus();
});
keepTheme(document.getElementById("theme"));
window.addEventListener("hashchange", show);
document.addEventListener("visibilitychange", poll);
show();
