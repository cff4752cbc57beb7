// KV: the blocks of each worker as a picture, what other types of the cache would save, and the prefixes that are shared.

import {draw, make, setAttribute, setText, syncList} from "./dom.js";
import {bytes, count, counted, percent} from "./format.js";
import {panel, remark, tableHead} from "./parts.js";
import {prefixTree} from "./prefixes.js";

const CELLS = 240;
const ROW = 40;
const STATES = ["used", "cached", "free"];
const TYPES = ["f16", "int8", "int4"];

// How many of the picture's cells each state has: rounded, but a state that is there has at least one.
function cellsOf(blocks) {
  const total = blocks?.total || 0;
  const cells = Math.min(CELLS, total);
  const shares = ["used", "cached"].map((state) => {
    const exact = cells * (blocks?.[state] ?? 0) / (total || 1);
    return exact > 0 ? Math.max(1, Math.round(exact)) : 0;
  });
  const used = Math.min(shares[0], cells);
  const cached = Math.min(shares[1], cells - used);
  return {used, cached, free: cells - used - cached};
}

function blocksPicture() {
  const svg = draw("svg", {class: "picture", viewBox: `0 0 ${ROW * 10} ${Math.ceil(CELLS / ROW) * 10}`, role: "img"});
  let drawn;
  return {
    element: svg,
    set(name, blocks) {
      const cells = cellsOf(blocks);
      const key = STATES.map((state) => cells[state]).join();
      const told = STATES.map((state) => `${count(blocks?.[state])} ${state}`).join(", ");
      setAttribute(svg, "aria-label", `Blocks of ${name}: ${told}`);
      if (key === drawn) return;
      drawn = key;
      const states = STATES.flatMap((state) => Array(cells[state]).fill(state));
      svg.replaceChildren(...states.map((state, index) => {
        const x = 10 * (index % ROW);
        const y = 10 * Math.floor(index / ROW);
        const cell = draw("rect", {class: state, x: x + 1, y: y + 1, width: 8, height: 8, rx: 1.5});
        // A cached cell has a hole: it differs from a used one even without its colour.
        if (state !== "cached") return cell;
        return draw("g", {}, cell, draw("rect", {class: "hole", x: x + 3.5, y: y + 3.5, width: 3, height: 3}));
      }));
    },
  };
}

function savingsTable(worker) {
  const own = worker.bytes_per_token;
  const total = worker.blocks?.total * worker.block_size * own;  // bytes of the whole cache
  const held = (worker.blocks?.used + worker.blocks?.cached) * worker.block_size;  // tokens
  const bytesOf = {...worker.bytes_per_token_of, [worker.kv_dtype]: own};
  const rows = [...new Set([worker.kv_dtype, ...TYPES])].filter((type) => bytesOf[type]).map((type) => {
    const each = bytesOf[type];
    const saved = held * (own - each);
    const inUse = type === worker.kv_dtype;
    return make("tr", {class: inUse ? "chosen" : ""}, make("th", {scope: "row"}, inUse ? `${type} (in use)` : type),
      make("td", {}, bytes(each)), make("td", {}, counted(Math.floor(total / each), "token")),
      make("td", {}, Math.abs(saved) < 1 ? "–" : `${saved < 0 ? "+" : "−"}${bytes(Math.abs(saved))}`));
  });
  if (rows.length === 0) {
    return make("p", {class: "more"}, "What other types would save is known once the worker has told its layout.");
  }
  return make("table", {class: "figures-table"},
    tableHead(["KV type", "A token takes", "This memory holds", "What is held now"]), make("tbody", {}, ...rows));
}

function workerCard() {
  const name = make("h3", {class: "name"});
  const about = make("p", {class: "more"});
  const picture = blocksPicture();
  const figures = {};
  const legend = make("ul", {class: "legend"}, ...STATES.map((state) => {
    figures[state] = make("span");
    return make("li", {}, make("span", {class: `key ${state}`, "aria-hidden": "true"}), figures[state]);
  }));
  const savings = make("div");
  let told;
  return {
    element: make("li", {class: "panel"}, name, about, picture.element, legend, savings),
    update(worker) {
      const blocks = worker.blocks;
      setText(name, worker.name);
      setText(about, remark(worker.role, `${worker.kv_dtype ?? "–"} KV`,
        blocks?.total && `${counted(blocks.total, "block")} of ${counted(worker.block_size, "token")}`,
        worker.prefix_pages !== undefined && `${counted(worker.prefix_pages, "page")} in the router's index`));
      picture.set(worker.name, blocks);
      for (const state of STATES) {
        const number = blocks?.[state];
        setText(figures[state], `${state} ${count(number)} (${percent(number / blocks?.total)})`);
      }
      const key = JSON.stringify([blocks, worker.bytes_per_token_of, worker.kv_dtype]);
      if (key !== told) savings.replaceChildren(savingsTable(worker));
      told = key;
    },
  };
}

export function kvView() {
  const cards = make("ul", {class: "cards", id: "kv-workers"});
  const none = make("p", {class: "note"}, "No worker has told of its cache yet.");
  const tree = prefixTree();
  const element = make("div", {class: "kv"}, make("h1", {}, "KV cache"), none, cards,
    panel("prefix-title", "Shared prefixes", {}, tree.element));
  return {
    title: () => "KV",
    element,
    open() {},
    path: () => "/page/kv",
    update(answer) {
      if (!answer.data) return;
      const workers = answer.data.workers ?? [];
      none.hidden = workers.length > 0;
      syncList(cards, workers, (worker) => worker.name, workerCard, (row, worker) => row.update(worker));
      tree.update(answer.data.prefixes ?? []);
    },
  };
}
