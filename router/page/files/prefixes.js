// The tree of shared prefixes: pages that follow one another alone, reused equally often on the same workers, are one row.

import {make, setStyle, setText} from "./dom.js";
import {count, counted} from "./format.js";
import {tableHead} from "./parts.js";

const COLUMNS = ["Prefix", "Reused", "Tokens", "Reaches", "Held by"];
const MOST_ROWS = 200;
const MOST_DEPTH = 12;  // deeper rows are not indented further

// The router names some of many workers alone.
function heldBy(page) {
  const names = page.workers ?? [];
  const more = (page.holders ?? 0) - names.length;
  return (names.join(", ") || "–") + (more > 0 ? ` and ${count(more)} more` : "");
}

// Rows, each a page with the `tokens` and the number of `pages` that it stands for, and its `level` in the tree: parents
// before their children, the most reused first.
function prefixRows(prefixes) {
  const children = new Map();
  const known = new Set(prefixes.map((each) => each.page));
  for (const each of prefixes) {
    const parent = known.has(each.parent) && each.parent !== each.page ? each.parent : "";
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(each);
  }
  for (const list of children.values()) list.sort((one, other) => other.reused - one.reused || (one.page < other.page ? -1 : 1));
  const rows = [];
  const stack = (children.get("") ?? []).map((page) => ({page, level: 0})).reverse();
  while (stack.length > 0 && rows.length < MOST_ROWS) {
    const {page, level} = stack.pop();
    const row = {...page, pages: 1, level};
    let next = children.get(page.page) ?? [];
    while (next.length === 1 && next[0].reused === row.reused && heldBy(next[0]) === heldBy(row)) {
      row.tokens += next[0].tokens;
      row.depth_tokens = next[0].depth_tokens;
      ++row.pages;
      next = children.get(next[0].page) ?? [];
    }
    rows.push(row);
    for (const each of [...next].reverse()) stack.push({page: each, level: level + 1});
  }
  return rows;
}

function prefixRow(row, most) {
  const bar = make("span", {class: "bar-part"});
  setStyle(bar, "width", `${(100 * row.reused / (most || 1)).toFixed(1)}%`);
  const name = make("span", {class: "code"}, row.page);
  const branch = make("div", {class: "branch"}, name);
  setStyle(branch, "--level", String(Math.min(row.level, MOST_DEPTH)));
  return make("tr", {"data-level": row.level}, make("th", {scope: "row"}, branch),
    make("td", {"data-label": "Reused"}, make("div", {class: "reuse"},
      make("span", {class: "number"}, `${count(row.reused)}×`), make("span", {class: "likelihood", "aria-hidden": "true"}, bar))),
    make("td", {"data-label": "Tokens"}, `${counted(row.tokens, "token")} in ${counted(row.pages, "page")}`),
    make("td", {"data-label": "Reaches"}, `token ${count(row.depth_tokens)}`),
    make("td", {"data-label": "Held by", class: "name"}, heldBy(row)));
}

export function prefixTree() {
  const note = make("p", {class: "muted"});
  const body = make("tbody", {id: "prefixes"});
  const table = make("table", {class: "prefixes"}, tableHead(COLUMNS), body);
  let drawn;
  return {
    element: make("div", {}, note, table),
    update(prefixes) {
      const key = JSON.stringify(prefixes);
      if (key === drawn) return;
      drawn = key;
      const rows = prefixRows(prefixes);
      const most = rows.reduce((best, row) => Math.max(best, row.reused), 0);
      table.hidden = rows.length === 0;
      setText(note, rows.length === 0
        ? "No prefix yet. Prompts that begin with the same tokens share pages, and the router sends them where those are."
        : `The ${counted(prefixes.length, "page")} that prompts begin with most, each below what it follows. `
          + "No text is kept: a page is known by its hash.");
      body.replaceChildren(...rows.map((row) => prefixRow(row, most)));
    },
  };
}
