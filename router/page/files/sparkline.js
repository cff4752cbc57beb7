// A line of the last two minutes, without axes: the number beside it says how much, the line how it changed.

import {draw, setAttribute} from "./dom.js";

const POINTS = 120;
const HEIGHT = 28;

export function sparkline() {
  const values = [];
  const line = draw("path", {class: "line"});
  const area = draw("path", {class: "area"});
  const element = draw("svg", {
    class: "sparkline", viewBox: `0 0 ${POINTS} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true",
  }, area, line);
  return {
    element,
    add(value) {
      values.push(typeof value === "number" && Number.isFinite(value) ? value : 0);
      if (values.length > POINTS) values.shift();
      if (values.length < 2) return;
      const most = Math.max(...values, 1e-9);
      const begin = POINTS - values.length;
      const points = values.map((each, index) => `${begin + index},${(HEIGHT - 1 - (HEIGHT - 3) * each / most).toFixed(2)}`);
      setAttribute(line, "d", `M${points.join("L")}`);
      setAttribute(area, "d", `M${begin},${HEIGHT}L${points.join("L")}L${POINTS - 1},${HEIGHT}z`);
    },
  };
}
