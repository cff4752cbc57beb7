// Shows the router's advice: the number of workers of each role that the load needs, and the reason.

import {make, setText, syncList} from "./dom.js";
import {count, counted, percent} from "./format.js";
import {remark} from "./parts.js";

const ROLES = ["prefill", "decode"];

function roleRow() {
  const role = make("strong");
  const number = make("span", {class: "number"});
  const why = make("span", {class: "muted"});
  return {
    element: make("li", {}, role, number, why),
    update({name, told}) {
      setText(role, name);
      setText(number, told.advised === undefined ? "not known yet"
        : remark(`${counted(told.advised, "worker")} needed`, `${count(told.ready)} ready`,
          told.balanced !== undefined && `best split ${count(told.balanced)}`));
      setText(why, told.why ?? "");
    },
  };
}

export function adviceView() {
  const list = make("ul", {class: "advice", id: "advice"});
  const colocated = make("p", {class: "note"});
  return {
    element: make("div", {}, list, colocated),
    // Whether there is anything to show: routers of other versions have no advice.
    update(fleet) {
      const told = ROLES.filter((role) => fleet.advice?.[role]).map((name) => ({name, told: fleet.advice[name]}));
      syncList(list, told, (one) => one.name, roleRow, (row, one) => row.update(one));
      const one = fleet.advice?.colocated;
      colocated.hidden = !one;
      if (one) {
        setText(colocated, `${counted(one.workers, "worker")} with --disaggregate never would carry this load too, by these rates: `
          + `${percent(one.prompt_share)} of their time would go to prompts.`);
      }
      return told.length > 0;
    },
  };
}
