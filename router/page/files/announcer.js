// Announcements for a screen reader. At most one sentence in a few seconds, the newest one: a fleet in trouble must not talk
// without a pause.

const PAUSE_MS = 4000;
const region = document.getElementById("announcer");
let waiting;
let busyUntil = 0;

export function announce(sentence) {
  const idle = waiting === undefined;
  waiting = sentence;
  if (!idle) return;
  setTimeout(() => {
    region.textContent = waiting;
    waiting = undefined;
    busyUntil = Date.now() + PAUSE_MS;
  }, Math.max(0, busyUntil - Date.now()));
}
