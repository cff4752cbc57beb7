// Parts that several views are made of.

import {make} from "./dom.js";

// The head of a table with a column of each name.
export function tableHead(names) {
  return make("thead", {}, make("tr", {}, ...names.map((name) => make("th", {scope: "col"}, name))));
}

// A cell that says its column's name itself if the window is too narrow for a head.
export function cell(column, ...children) {
  return make("td", {"data-label": column}, make("div", {class: "cell"}, ...children));
}

// A part of a view with a heading of its own.
export function panel(id, title, attributes, ...children) {
  return make("section", {class: "panel", "aria-labelledby": id, ...attributes},
    make("h2", {id}, title), ...children);
}

// The parts of a remark that there are.
export function remark(...parts) {
  return parts.filter(Boolean).join(" · ");
}
