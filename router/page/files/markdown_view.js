// Shows a text that grows as Markdown. Only elements and text nodes are made, of the tree of markdown_tree.js; what is too large for
// that, or takes too long, is shown as it was written. Rendering takes at most a tenth of the time, and as the text grows it makes
// only the last block anew.

import {copyButton} from "./clipboard.js";
import {make} from "./dom.js";
import {parseMarkdown} from "./markdown_parser.js";

const MOST_CHARACTERS = 100000;
const SOONEST_MS = 150;
const PART_OF_TIME = 10;
const AS_THEY_ARE = new Set(["p", "ul", "li", "blockquote", "thead", "tbody", "tr", "hr", "br", "em", "strong", "del", "code"]);

function codeBlock(node) {
  const code = document.createTextNode(node.text);
  const element = make("div", {class: "code-block"},
    make("div", {class: "code-head"}, make("span", {class: "more"}, node.lang || "code"), copyButton("the code", () => code.data)),
    make("pre", {tabindex: "0", role: "group", "aria-label": "Code"}, make("code", {}, code)));
  return {element, code};
}

function elementOf(node) {
  if (typeof node === "string") return document.createTextNode(node);
  if (node.tag === "pre") return codeBlock(node).element;
  const children = node.children.map(elementOf);
  if (node.tag === "a") return make("a", {href: node.href, target: "_blank", rel: "noopener noreferrer"}, ...children);
  if (node.tag === "h") return make(`h${Math.min(6, node.level + 1)}`, {}, ...children);
  if (node.tag === "ol") return make("ol", {start: node.start}, ...children);
  if (node.tag === "th" || node.tag === "td") {
    return make(node.tag, {"data-align": node.align, scope: node.tag === "th" ? "col" : undefined}, ...children);
  }
  if (node.tag === "table") {
    return make("div", {class: "table-box", tabindex: "0", role: "group", "aria-label": "Table"}, make("table", {}, ...children));
  }
  return make(AS_THEY_ARE.has(node.tag) ? node.tag : "span", {}, ...children);
}

function newBlock(node, key) {
  return node.tag === "pre" ? {key, lang: node.lang, ...codeBlock(node)} : {key, element: elementOf(node)};
}

// Whether the code of `block` could be continued to that of `node`, so that its selection and focus stay.
function continueCode(block, node, key) {
  if (!block?.code || node.tag !== "pre" || block.lang !== node.lang || !node.text.startsWith(block.code.data)) return false;
  block.code.appendData(node.text.slice(block.code.data.length));
  block.key = key;
  return true;
}

// Shows texts in `element`; `onShown` is called when what is shown has changed.
export function markdownView(element, onShown) {
  const plain = document.createTextNode("");
  const blocks = [];  // shown: {key, element}, and of code its language and its text node
  let stable = {offset: 0, blocks: 0};  // what lies before it stays
  let text = "";
  let drawn = "";
  let pause = 0;
  let timer;
  let working;
  let isPlain = false;
  let finished = false;

  function showPlain() {
    if (!isPlain) element.replaceChildren(plain);
    isPlain = true;
    if (text.startsWith(plain.data)) {
      plain.appendData(text.slice(plain.data.length));
    } else {
      plain.data = text;
    }
    onShown();
  }

  function showBlocks(first, nodes) {
    nodes.forEach((node, index) => {
      const key = JSON.stringify(node);
      const old = blocks[first + index];
      if (old?.key === key || continueCode(old, node, key)) return;
      const made = newBlock(node, key);
      if (old) {
        old.element.replaceWith(made.element);
      } else {
        element.append(made.element);
      }
      blocks[first + index] = made;
    });
    for (const block of blocks.splice(first + nodes.length)) block.element.remove();
  }

  async function render(whole) {
    const asked = text;
    const from = whole ? {offset: 0, blocks: 0} : stable;
    const found = asked.length > MOST_CHARACTERS ? undefined : await parseMarkdown(asked, from.offset);
    if (found === undefined || (whole && found.blocks.length === 0)) return showPlain();
    const began = performance.now();
    showBlocks(from.blocks, found.blocks);
    onShown();
    stable = {offset: found.stable, blocks: from.blocks + found.final};
    drawn = asked;
    pause = Math.max(SOONEST_MS, PART_OF_TIME * (found.ms + performance.now() - began));
    return undefined;
  }

  function schedule() {
    if (timer !== undefined || working !== undefined || finished || drawn === text) return;
    timer = setTimeout(() => {
      timer = undefined;
      working = render(false).finally(() => {
        working = undefined;
        if (isPlain) showPlain();
        else schedule();
      });
    }, pause);
  }

  return {
    // The text now: the one before and something behind it.
    update(now) {
      text = now;
      if (isPlain) showPlain();
      else schedule();
    },
    // The text is whole. Resolves when it is shown.
    async finish(whole) {
      text = whole;
      finished = true;
      clearTimeout(timer);
      await working;
      if (isPlain) showPlain();
      else if (text !== "") await render(true);
    },
  };
}
