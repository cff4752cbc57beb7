// Helpers for the document. Shown texts become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name, value);
    } else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== undefined && child !== null));
  return element;
}

// An element: make("button", {class: "quiet", click: listener}, "Stop").
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// An element of an SVG picture.
export function draw(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Sets the text where it differs, so that a selection survives and nothing is announced twice.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// The policy of the page forbids style attributes; properties set by a script are allowed.
export function setStyle(element, property, value) {
  if (element.style.getPropertyValue(property) !== value) element.style.setProperty(property, value);
}

const lists = new WeakMap();  // parent -> its rows by key

// Makes the children of `parent` one row for each item, in order. A row is what create(item) returned, an object with
// `element`; it stays the same for a key, so focus and selections survive. Further items of a key are left out.
export function syncList(parent, items, keyOf, create, update) {
  const rows = lists.get(parent) ?? new Map();
  lists.set(parent, rows);
  const wanted = new Map();
  for (const item of items) wanted.set(String(keyOf(item)), item);
  for (const [key, row] of rows) {
    if (wanted.has(key)) continue;
    row.element.remove();
    rows.delete(key);
  }
  let place = parent.firstElementChild;
  for (const [key, item] of wanted) {
    let row = rows.get(key);
    if (!row) {
      row = create(item);
      rows.set(key, row);
    }
    update(row, item);
    if (row.element === place) {
      place = place.nextElementSibling;
    } else {
      parent.insertBefore(row.element, place);
    }
  }
}

// Moves the focus within a group of elements of which one at a time can be reached by Tab: arrows, Home and End.
export function roveFocus(group, selector) {
  group.addEventListener("keydown", (event) => {
    const all = [...group.querySelectorAll(selector)];
    const at = all.indexOf(document.activeElement);
    if (at < 0) return;
    const steps = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: all.length - 1};
    if (!(event.key in steps)) return;
    event.preventDefault();
    const next = all[Math.max(0, Math.min(all.length - 1, steps[event.key]))];
    for (const element of all) element.tabIndex = element === next ? 0 : -1;
    next.focus();
  });
}
