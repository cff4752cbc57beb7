// A line of the last minutes, without axes: the number beside it says how much, the line how it changed.

import {draw, setAttribute} from "./dom.js";

const WIDTH = 300;
const HEIGHT = 40;
const LEAST_S = 60;  // a line of a few seconds is not stretched over the whole width

// The points in runs without a gap; a point whose value is unknown is a gap.
function runsOf(points) {
  const runs = [[]];
  for (const point of points) {
    if (typeof point.value === "number" && Number.isFinite(point.value)) {
      runs.at(-1).push(point);
    } else if (runs.at(-1).length > 0) {
      runs.push([]);
    }
  }
  return runs.filter((run) => run.length > 0);
}

export function sparkline() {
  const line = draw("path", {class: "line"});
  const area = draw("path", {class: "area"});
  const element = draw("svg", {
    class: "sparkline", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true",
  }, area, line);
  return {
    element,
    // Shows {at, value}, the oldest first and none later than `now`; both times are Unix seconds. Returns the largest value and the
    // seconds from the first point on; undefined without a value.
    show(points, now) {
      const runs = runsOf(points);
      if (runs.length === 0) return undefined;
      const span = Math.max(LEAST_S, now - runs[0][0].at);
      const most = Math.max(...runs.flat().map(({value}) => value), 1e-9);
      const across = ({at}) => (WIDTH * (1 - (now - at) / span)).toFixed(1);
      const place = (point) => `${across(point)},${(HEIGHT - 2 - (HEIGHT - 5) * point.value / most).toFixed(2)}`;
      // A run of one point is a dot: a line of no length with round ends.
      setAttribute(line, "d", runs.map((run) => `M${run.map(place).join("L")}${run.length === 1 ? "h0" : ""}`).join(""));
      setAttribute(area, "d", runs.map((run) =>
        `M${across(run[0])},${HEIGHT}L${run.map(place).join("L")}L${across(run.at(-1))},${HEIGHT}z`).join(""));
      return {most, seconds: now - runs[0][0].at};
    },
  };
}
