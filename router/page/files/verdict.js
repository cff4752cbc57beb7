// The one sentence an operator needs first: is it well, and if not, why not. Pure: fleets in, words out.

import {counted} from "./format.js";
import {workerLevel} from "./states.js";

const isReady = (worker) => worker.state === "ready";

function joined(names) {
  return names.length <= 3 ? names.join(", ") : `${names.slice(0, 3).join(", ")} and ${names.length - 3} more`;
}

const refusedOf = (fleet) => (fleet.routers ?? []).flatMap((router) => Object.values(router.refused ?? {}))
  .reduce((sum, number) => sum + number, 0);

// How many requests have been refused between two fleets; a router that began anew counts from 0.
export function newlyRefused(before, now) {
  return before ? Math.max(0, refusedOf(now) - refusedOf(before)) : 0;
}

// {level: "good" | "warn" | "bad", title, text}. `refused`: how many requests in the last minute.
export function verdict(fleet, refused) {
  const workers = fleet.workers ?? [];
  const ready = workers.filter(isReady);
  const text = summary(fleet, ready.length, refused);
  if (workers.length === 0) {
    return {level: "bad", title: "No worker has joined", text: "The router knows no worker, so it can serve nothing."};
  }
  if (!ready.some((worker) => worker.role === "decode")) {
    return {level: "bad", title: "Nothing can be served: no decode worker is ready", text};
  }
  if (!ready.some((worker) => worker.role === "prefill") && workers.some((worker) => worker.role === "prefill")) {
    return {level: "warn", title: "No prefill worker is ready; decode workers compute the prompts", text};
  }
  const bad = workers.filter((worker) => workerLevel(worker.state) === "bad");
  if (bad.length > 0) {
    const title = bad.length === 1 ? `${bad[0].name} is ${bad[0].state}`
      : `${bad.length} workers are not used: ${joined(bad.map((worker) => worker.name))}`;
    return {level: "warn", title, text};
  }
  if (refused > 0) return {level: "warn", title: `${counted(refused, "request")} refused in the last minute`, text};
  if ((fleet.routers ?? []).some((router) => router.state === "draining")) {
    return {level: "warn", title: "The router is draining", text};
  }
  const other = workers.filter((worker) => !isReady(worker));
  if (other.length > 0) {
    return {level: "warn", title: joined(other.map((worker) => `${worker.name} is ${worker.state}`)), text};
  }
  return {level: "good", title: "All well", text};
}

function summary(fleet, ready, refused) {
  const sum = (name) => (fleet.routers ?? []).reduce((total, router) => total + (router[name] ?? 0), 0);
  const parts = [`${ready} of ${counted((fleet.workers ?? []).length, "worker")} ready`,
    `${counted(sum("running"), "request")} running`, `${sum("waiting")} waiting`];
  if (refused > 0) parts.push(`${refused} refused in the last minute`);
  return parts.join(" · ");
}
