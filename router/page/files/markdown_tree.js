// Markdown as a tree of plain objects, of which markdown_view.js makes elements. Pure: text in, objects out; it runs in a worker.
// marked finds the tokens. HTML stays text, an image is a link or its description, and a link leads to http or https only.
//
// A node is a string, or {tag, children} with `text` and `lang` of a "pre", `level` of an "h", `start` of an "ol", `href` of an "a",
// `align` of a cell ("th", "td").

import {getDefaults, Lexer} from "./marked.js";

const OPTIONS = {...getDefaults(), mangle: false};
const MOST_NODES = 20000;
const MOST_DEPTH = 24;  // deeper text is shown as it was written
const MOST_LANGUAGE = 40;  // characters
const MOST_MARKS = 64;  // marks of quotes and lists before a line's text: marked copies the rest of the text for each
const MOST_CELLS = 50000;  // cells of a table: marked fills up short rows

const NAMED = {amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0", copy: "©", reg: "®", deg: "°", middot: "·",
  times: "×", ndash: "–", mdash: "—", hellip: "…", larr: "←", rarr: "→", le: "≤", ge: "≥", ne: "≠"};
const ENTITY = /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([a-z]{2,6}));/g;

// marked makes spaces of the tabs that begin a line. Within fenced code this character takes the place of a tab.
const TAB = "\ufdd0";
const FENCE = /^ {0,3}(`{3,}(?=[^`]*$)|~{3,})/;

function character(code, source) {
  const valid = code > 0 && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
  return valid ? String.fromCodePoint(code) : source;
}

function decode(text) {
  return text.replace(ENTITY, (source, decimal, hexadecimal, name) => {
    if (name !== undefined) return Object.hasOwn(NAMED, name) ? NAMED[name] : source;
    return character(decimal === undefined ? parseInt(hexadecimal, 16) : Number(decimal), source);
  });
}

const written = (text) => text.replaceAll(TAB, "\t");

function closes(line, fence) {
  const mark = line.trim();
  return mark.length >= fence.length && mark === fence[0].repeat(mark.length);
}

// The text as marked takes it in. It keeps its length as more is appended, but for its last line.
function prepare(text) {
  let fence;
  return text.replace(/\r\n?/g, "\n").split("\n").map((line) => {
    if (fence !== undefined) {
      if (closes(line, fence)) fence = undefined;
      return line.replaceAll("\t", TAB);
    }
    fence = FENCE.exec(line)?.[1];
    return line.replace(/^( *)(\t+)/, (_, spaces, tabs) => spaces + "    ".repeat(tabs.length));
  }).join("\n");
}

// Throws for what marked would need memory for that is not linear in the text.
function check(source) {
  const lines = source.split("\n");
  for (const line of lines) {
    const [start] = /^[\s>*+\-\d.)]*/.exec(line.slice(0, 1000));
    const marks = start.match(/>|[-*+](?=\s)|[.)](?=\s)/g)?.length ?? 0;
    if (marks > MOST_MARKS) throw new RangeError(`more than ${MOST_MARKS} marks at the beginning of a line`);
    const columns = /^[\s>|:-]*$/.test(line) ? line.split("|").length : 0;
    if (columns * lines.length > MOST_CELLS) throw new RangeError(`a table of more than ${MOST_CELLS} cells`);
  }
}

// The address as a link has it; undefined if it is none of the web.
function webAddress(href) {
  try {
    const address = new URL(decode(href));
    return ["http:", "https:"].includes(address.protocol) ? address.href : undefined;
  } catch {
    return undefined;
  }
}

class Tree {
  constructor() {
    this.left = MOST_NODES;
  }

  count() {
    if (--this.left < 0) throw new RangeError(`more than ${MOST_NODES} nodes`);
  }

  text(text) {
    this.count();
    return written(text);
  }

  node(tag, children, more = {}) {
    this.count();
    return {tag, children, ...more};
  }

  inlines(tokens, depth, linked) {
    if (depth > MOST_DEPTH) return [this.text(tokens.map(({raw}) => raw).join(""))];
    return tokens.map((token) => this.inline(token, depth + 1, linked));
  }

  inline(token, depth, linked) {
    switch (token.type) {
      case "text":
        return this.text(decode(token.raw));
      case "escape":
        return this.text(token.raw.slice(1));
      case "codespan":
        return this.node("code", [this.text(decode(token.text))]);
      case "br":
        return this.node("br", []);
      case "em":
      case "strong":
      case "del":
        return this.node(token.type, this.inlines(token.tokens, depth, linked));
      case "link": {
        const href = linked ? undefined : webAddress(token.href);
        if (href === undefined) return this.text(token.raw);
        return this.node("a", this.inlines(token.tokens, depth, true), {href});
      }
      case "image": {
        const name = decode(token.text) || token.href;
        const href = linked ? undefined : webAddress(token.href);
        return href === undefined ? this.text(name) : this.node("a", [this.text(name)], {href});
      }
      default:
        return this.text(token.raw);
    }
  }

  cells(tag, cells, align, depth) {
    return this.node("tr", cells.map(({tokens}, column) =>
      this.node(tag, this.inlines(tokens, depth, false), align[column] ? {align: align[column]} : {})));
  }

  item(item, loose, depth) {
    const box = item.task ? [this.text(item.checked ? "☑ " : "☐ ")] : [];
    return this.node("li", [...box, ...this.blocks(item.tokens, depth, loose)]);
  }

  // `loose`: the lines of text are paragraphs, as in a list with empty lines between its items.
  blocks(tokens, depth, loose) {
    if (depth > MOST_DEPTH) return [this.text(tokens.map(({raw}) => raw).join(""))];
    return tokens.flatMap((token) => this.block(token, depth + 1, loose));
  }

  // A list of one node, or of none for what is not shown; of a line of text in a list that is not loose its parts.
  block(token, depth, loose) {
    switch (token.type) {
      case "space":
      case "def":
        return [];
      case "heading":
        return [this.node("h", this.inlines(token.tokens, depth, false), {level: token.depth})];
      case "code":
        this.count();
        return [{tag: "pre", children: [], text: written(token.text),
          lang: (token.lang ?? "").split(/\s/, 1)[0].slice(0, MOST_LANGUAGE)}];
      case "blockquote":
        return [this.node("blockquote", this.blocks(token.tokens, depth, true))];
      case "list":
        return [this.node(token.ordered ? "ol" : "ul", token.items.map((item) => this.item(item, token.loose, depth)),
          token.ordered ? {start: token.start} : {})];
      case "table":
        return [this.node("table", [
          this.node("thead", [this.cells("th", token.header, token.align, depth)]),
          this.node("tbody", token.rows.map((row) => this.cells("td", row, token.align, depth)))])];
      case "hr":
        return [this.node("hr", [])];
      case "text":
        return loose ? [this.node("p", this.inlines(token.tokens, depth, false))] : this.inlines(token.tokens, depth, false);
      case "paragraph":
        return [this.node("p", this.inlines(token.tokens, depth, false))];
      default:
        return [this.node("p", [this.text(token.raw.trimEnd())])];
    }
  }
}

// The blocks of `text` from `offset` on, which is 0 or a `stable` of an answer for a beginning of the text. Of the blocks the first
// `final` stay as they are whatever follows the text; those behind them begin at `stable`. Throws a RangeError for what has too many
// nodes, is nested too deep or may have a table with too many cells.
export function blocksOf(text, offset) {
  const source = prepare(text).slice(offset);
  check(source);
  const tokens = Lexer.lex(source, {...OPTIONS});
  const tree = new Tree();
  const blocks = [];
  let place = 0;
  let last = 0;
  for (const token of tokens) {
    const made = tree.block(token, 0, true);
    if (made.length > 0) last = place;
    blocks.push(...made);
    place += token.raw.length;
  }
  // Where marked joins two tokens it says not exactly what it has read.
  const known = blocks.length > 0 && tokens.map(({raw}) => raw).join("") === source;
  return known ? {blocks, final: blocks.length - 1, stable: offset + last} : {blocks, final: 0, stable: offset};
}
