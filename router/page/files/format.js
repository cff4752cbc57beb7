// Numbers as people read them: always with their unit, in figures of one width. An unknown number is a dash.

const UNKNOWN = "–";
const known = (value) => typeof value === "number" && Number.isFinite(value);
const grouped = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

export function count(value) {
  return known(value) ? grouped.format(value) : UNKNOWN;
}

// "1 token", "2 tokens".
export function counted(value, one, many = `${one}s`) {
  return known(value) ? `${count(value)} ${value === 1 ? one : many}` : UNKNOWN;
}

// A number of about three digits.
function short(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.01) return value.toFixed(3);
  if (size < 1) return value.toFixed(2);
  if (size < 100) return value.toFixed(1);
  return grouped.format(value);
}

export function perSecond(value, what = "") {
  if (!known(value)) return UNKNOWN;
  return `${short(value)}${what ? ` ${what}` : ""}/s`;
}

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= 1024 && unit + 1 < units.length) {
    rest /= 1024;
    ++unit;
  }
  return `${unit === 0 ? grouped.format(rest) : short(rest)} ${units[unit]}`;
}

export function duration(ms) {
  if (!known(ms)) return UNKNOWN;
  if (ms < 1000) return `${short(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(2)} s`;
  const whole = Math.round(seconds);
  const two = (number) => String(number).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor(whole / 3600) % 24} h`;
}

export function percent(part) {
  if (!known(part)) return UNKNOWN;
  const value = 100 * part;
  const small = value !== 0 && Math.abs(value) < 10;
  return `${value.toFixed(small ? 1 : 0)} %`;
}

// The time of day of Unix seconds in UTC, as the logs show it.
export function clock(at) {
  if (!known(at)) return UNKNOWN;
  return `${new Date(at * 1000).toLocaleTimeString("en-GB", {timeZone: "UTC"})}Z`;
}

export function dateAndClock(at) {
  return known(at) ? `${new Date(at * 1000).toLocaleDateString("en-CA", {timeZone: "UTC"})} ${clock(at)}` : UNKNOWN;
}

// How long before `now`, both Unix seconds.
export function ago(at, now) {
  if (!known(at) || !known(now)) return UNKNOWN;
  const seconds = Math.max(0, now - at);
  if (seconds < 1) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}
