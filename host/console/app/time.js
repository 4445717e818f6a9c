// Times and durations for people.

const moment = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "short", day: "numeric",
  hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
});
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
const narrow = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "narrow" });

/**
 * An instant of the API as epoch milliseconds; NaN if it is none.
 * @param {string} text
 */
export const ms = (text) => Date.parse(text);

/** @param {string} text */
export function full(text) {
  const at = ms(text);
  return Number.isNaN(at) ? text : moment.format(at);
}

/**
 * The time of today, or the day and the time.
 * @param {string} text
 * @param {number} now
 */
export function brief(text, now) {
  const at = ms(text);
  if (Number.isNaN(at)) return text;
  const today = new Date(at).toDateString() === new Date(now).toDateString();
  return today ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}

/**
 * How far an instant is from now.
 * @param {string} text
 * @param {number} now
 * @param {boolean} [short]
 */
export function ago(text, now, short = false) {
  const seconds = (ms(text) - now) / 1000;
  if (Number.isNaN(seconds)) return text;
  const size = Math.abs(seconds);
  const format = short ? narrow : relative;
  if (size < 60) return format.format(Math.trunc(seconds), "second");
  if (size < 3600) return format.format(Math.trunc(seconds / 60), "minute");
  if (size < 86400) return format.format(Math.trunc(seconds / 3600), "hour");
  return format.format(Math.trunc(seconds / 86400), "day");
}

/**
 * A duration.
 * @param {number} milliseconds
 */
export function took(milliseconds) {
  const value = Math.max(0, milliseconds);
  if (value < 1) return `${Math.round(value * 1000)} µs`;
  if (value < 10) return `${value.toFixed(1)} ms`;
  if (value < 1000) return `${Math.round(value)} ms`;
  const seconds = value / 1000;
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/**
 * A size.
 * @param {number} bytes
 */
export function size(bytes) {
  if (bytes < 1024) return `${bytes} B`;
  if (bytes < 1024 * 1024) return `${(bytes / 1024).toFixed(1)} KiB`;
  if (bytes < 1024 ** 3) return `${(bytes / 1024 ** 2).toFixed(1)} MiB`;
  return `${(bytes / 1024 ** 3).toFixed(1)} GiB`;
}
