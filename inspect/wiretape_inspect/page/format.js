// Formats recorded text, numbers and times.  Numbers and times look the same as in the terminal (units.py).

const UNSAFE = new RegExp(
  "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]" +
    "|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
  "g",
);
const SHORT_ESCAPES = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

function escapeCharacter(char) {
  const code = char.charCodeAt(0);
  const hex = code.toString(16);
  return SHORT_ESCAPES[char] || (code < 256 ? `\\x${hex.padStart(2, "0")}` : `\\u${hex.padStart(4, "0")}`);
}

/** Escape every character of recorded text that could reorder or hide text, or break the line. */
export function printable(text) {
  return String(text).replace(UNSAFE, escapeCharacter);
}

/** The same for text of wiretape itself, in which line breaks only separate words. */
export function printableLine(text) {
  return printable(String(text).replace(/\s+/g, " "));
}

/** The same for text in a box of its own, which keeps its line breaks. */
export function printableLines(text) {
  return String(text).replace(UNSAFE, (char) => (char === "\n" ? char : escapeCharacter(char)));
}

/** Cut a text without splitting a surrogate pair. */
export function cutText(text, length) {
  const code = text.charCodeAt(length - 1);
  return text.slice(0, code >= 0xd800 && code < 0xdc00 ? length - 1 : length);
}

/** Return the last `length` characters of a text; surrogate pairs count as one. */
export function lastCharacters(text, length) {
  return length >= text.length ? text : Array.from(text.slice(-2 * length)).slice(-length).join("");
}

/** Make a text printable, and cut it after `longest` characters. */
export function shorten(text, longest) {
  const safe = printable(cutText(String(text), longest + 1));
  return safe.length <= longest ? safe : `${cutText(safe, longest)}…`;
}

/** A text in quotes, as in JSON and in filters. */
export function quoted(text) {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

/** Abbreviate an id to its beginning and its end, as in the terminal: `evt_400…7783e9`. */
export function abbreviateId(id, [begin, end] = [7, 6]) {
  return id.length > begin + end + 1 ? `${id.slice(0, begin)}…${id.slice(-end)}` : id;
}

/** How much later or earlier something came: `1.2 s later`. */
export function formatDelay(laterNs) {
  return `${formatDuration(Math.abs(laterNs))} ${laterNs > 0 ? "later" : "earlier"}`;
}

/** A duration: `0.4 ms`, `412 ms`, `1.9 s`, `2 min 3 s`, `1 h 2 min`. */
export function formatDuration(nanoseconds) {
  const seconds = Number(nanoseconds) / 1e9;
  if (seconds < 0.0095) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${(seconds * 1e3).toFixed(0)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A time since the recording began: `12.304s`. */
export function formatTime(nanoseconds) {
  return `${(Number(nanoseconds) / 1e9).toFixed(3)}s`;
}

/** A number of bytes: `213 B`, `12.3 kB`. */
export function formatSize(size) {
  if (size < 1000) return `${size} B`;
  if (size < 999950) return `${(size / 1e3).toFixed(1)} kB`;
  if (size < 999950000) return `${(size / 1e6).toFixed(1)} MB`;
  return `${(size / 1e9).toFixed(1)} GB`;
}

export function formatNumber(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

/** The name in the preview of a call, `look_up({…})`; empty if there is none. */
export function nameOfCall(preview) {
  return /^[^({"]+(?=\()/.exec(preview)?.[0] ?? "";
}

export function capitalize(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** `1 event`, `2 events`. */
export function formatCount(number, noun) {
  const plural = noun.endsWith("ch") ? "es" : "s";
  return `${formatNumber(number)} ${noun}${Number(number) === 1 ? "" : plural}`;
}

/** A recorded number; if it is absurdly long, its end becomes an ellipsis. */
export function shortenNumber(number) {
  const text = String(number);
  return text.length <= 20 ? text : `${text.slice(0, 19)}…`;
}

/** The severities, worst first. */
export const SEVERITIES = ["error", "warning", "note"];
export const SEVERITY_SIGNS = { error: "✕", warning: "▲", note: "●" };

export function worstSeverity(findings) {
  return SEVERITIES.find((severity) => findings.some((one) => one.severity === severity)) || "error";
}

export function isSameFinding(one, other) {
  return ["code", "time_ns", "message"].every((name) => one[name] === other[name]);
}

export function countSeverities(findings) {
  return Object.fromEntries(
    SEVERITIES.map((severity) => [severity, findings.filter((one) => one.severity === severity).length]),
  );
}

export function formatSeverities(counts) {
  return SEVERITIES.filter((one) => counts[one]).map((one) => formatCount(counts[one], one)).join(", ");
}
