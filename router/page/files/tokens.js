// The tokens of an answer, coloured by how likely the model held each; the alternatives of the one that has the focus.

import {make, roveFocus, setStyle} from "./dom.js";
import {count, percent} from "./format.js";
import {panel, tableHead} from "./parts.js";

const MOST_SHOWN = 2000;
const STEPS = [
  {from: 0.9, word: "90 % and more"},
  {from: 0.5, word: "50 to 90 %"},
  {from: 0.2, word: "20 to 50 %"},
  {from: 0.05, word: "5 to 20 %"},
  {from: 0, word: "below 5 %"},
];

const stepOf = (logprob) => STEPS.findIndex(({from}) => Math.exp(logprob) >= from);

// The token as it can be seen: white space by a sign of its own.
function visible(text) {
  return text.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣") || "∅";
}

function alternatives(token) {
  const rows = (token.top_logprobs ?? []).map((rival) => {
    const bar = make("span", {class: "bar-part"});
    setStyle(bar, "width", `${(100 * Math.exp(rival.logprob)).toFixed(1)}%`);
    const chosen = rival.token === token.token;
    return make("tr", {class: chosen ? "chosen" : ""}, make("th", {scope: "row", class: "code"}, visible(rival.token)),
      make("td", {}, percent(Math.exp(rival.logprob))), make("td", {}, rival.logprob.toFixed(3)),
      make("td", {class: "likelihood", "aria-hidden": "true"}, bar), make("td", {}, chosen ? "chosen" : ""));
  });
  const head = make("p", {}, make("strong", {class: "code"}, visible(token.token)),
    ` was held ${percent(Math.exp(token.logprob))} likely (log-probability ${token.logprob.toFixed(3)})`);
  return [head, make("table", {class: "figures-table"},
    tableHead(["Token", "Likely", "Log-probability", "", ""]), make("tbody", {}, ...rows))];
}

function choicePanel(choice, index, several) {
  const detail = make("div", {class: "alternatives", "aria-live": "off"},
    make("p", {class: "muted"}, "Point at a token, or go there with Tab and the arrow keys, to see what else the model might have said."));
  const marks = choice.tokens.slice(0, MOST_SHOWN).map((token, place) => {
    const show = () => detail.replaceChildren(...alternatives(token));
    return make("span", {class: "token", "data-step": stepOf(token.logprob), tabindex: place === 0 ? "0" : "-1", role: "img",
      "aria-label": `${token.token} ${percent(Math.exp(token.logprob))}`, focus: show, click: show, pointerenter: show}, token.token);
  });
  const name = several ? `Tokens of answer ${index + 1}` : "Tokens of the answer";
  const text = make("div", {class: "tokens", role: "group", "aria-label": name}, ...marks);
  roveFocus(text, ".token");
  const cut = choice.tokens.length > MOST_SHOWN
    ? make("p", {class: "muted"}, `The first ${count(MOST_SHOWN)} of ${count(choice.tokens.length)} tokens.`) : null;
  return make("div", {}, several ? make("h3", {}, `Answer ${index + 1}`) : null, text, cut, detail);
}

function legend() {
  return make("ul", {class: "legend", "aria-label": "Colours"},
    ...STEPS.map(({word}, index) => make("li", {},
      make("span", {class: "token", "data-step": index, "aria-hidden": "true"}, "abc"), word)));
}

// `record` is undefined for a request that this page did not send.
export function tokensPanel(record) {
  const shown = (...children) => panel("tokens-title", "Tokens", {}, ...children);
  if (!record) {
    return shown(make("p", {class: "note"}, "The router keeps no text. Tokens are shown here for requests that were sent from"
      + " this page, while it is open."));
  }
  const choices = record.choices.filter((choice) => choice.tokens.length > 0);
  if (choices.length === 0) return shown(make("p", {class: "note"}, "No token has come yet."));
  return shown(legend(), ...choices.map((choice, index) => choicePanel(choice, index, choices.length > 1)));
}
