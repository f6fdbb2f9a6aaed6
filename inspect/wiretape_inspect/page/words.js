// Recorded text made safe to show, and numbers in the words of wiretape.words: the same as on the terminal.

const UNSAFE = new RegExp(
  "[\\x00-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]" +
    "|[\\ud800-\\udbff](?![\\udc00-\\udfff])|(?<![\\ud800-\\udbff])[\\udc00-\\udfff]",
  "g",
);
const SHORT_ESCAPES = { "\t": "\\t", "\n": "\\n", "\r": "\\r" };

function escaped(char) {
  const code = char.charCodeAt(0);
  const hex = code.toString(16);
  return SHORT_ESCAPES[char] || (code < 256 ? `\\x${hex.padStart(2, "0")}` : `\\u${hex.padStart(4, "0")}`);
}

/** `text` with every character escaped that could reorder, hide or break what is shown. */
function printable(text) {
  return String(text).replace(UNSAFE, escaped);
}

/** The same for our own words, whose lines break where there is no more room. */
function inOneLine(text) {
  return printable(String(text).replace(/\s+/g, " "));
}

/** The same for a text that has a box of its own, in which its lines may break. */
function printableLines(text) {
  return String(text).replace(UNSAFE, (char) => (char === "\n" ? char : escaped(char)));
}

/** Cut without halving a character that takes two units. */
function cutAt(text, length) {
  const code = text.charCodeAt(length - 1);
  return text.slice(0, code >= 0xd800 && code < 0xdc00 ? length - 1 : length);
}

function shown(text, longest) {
  const said = printable(cutAt(String(text), longest + 1));
  return said.length <= longest ? said : `${cutAt(said, longest)}…`;
}

/** An id by its beginning and its end, which tell it from others, as on the terminal: `evt_400…7783e9`. */
function briefId(id, [begin, end] = [7, 6]) {
  return id.length > begin + end + 1 ? `${id.slice(0, begin)}…${id.slice(-end)}` : id;
}

function duration(nanoseconds) {
  const seconds = Number(nanoseconds) / 1e9;
  if (seconds < 0.0095) return `${(seconds * 1e3).toFixed(1)} ms`;
  if (seconds < 0.9995) return `${(seconds * 1e3).toFixed(0)} ms`;
  if (seconds < 59.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

function moment(nanoseconds) {
  return `${(Number(nanoseconds) / 1e9).toFixed(3)}s`;
}

function amount(size) {
  if (size < 1000) return `${size} B`;
  if (size < 999950) return `${(size / 1e3).toFixed(1)} kB`;
  if (size < 999950000) return `${(size / 1e6).toFixed(1)} MB`;
  return `${(size / 1e9).toFixed(1)} GB`;
}

function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}

function counted(number, thing) {
  return `${grouped(number)} ${thing}${Number(number) === 1 ? "" : "s"}`;
}

/** A recorded number, its end replaced by an ellipsis where it is absurdly long. */
function digits(number) {
  const text = String(number);
  return text.length <= 20 ? text : `${text.slice(0, 19)}…`;
}

const SEVERITIES = ["error", "warning", "note"];
const SIGNS = { error: "✕", warning: "▲", note: "●" };

function worst(findings) {
  return SEVERITIES.find((severity) => findings.some((one) => one.severity === severity)) || "error";
}

/** How many findings there are of each severity. */
function severitiesOf(findings) {
  return Object.fromEntries(SEVERITIES.map((severity) => [severity, findings.filter((one) => one.severity === severity).length]));
}

function severitiesSaid(numbers) {
  return SEVERITIES.filter((severity) => numbers[severity]).map((severity) => counted(numbers[severity], severity)).join(", ");
}

/** JSON with integers that a double cannot hold kept as BigInt. */
function readJson(text) {
  if (!/[0-9]{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value) || !context) return value;
    return /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  });
}
