// The filter grammar: parses a filter text into conditions, as view/filters.py does (docs/filter.md).

import { shorten } from "./format.js";
import { allVocabularies, labelOf } from "./vocabulary.js";

const NUMBER_FIELDS = ["seq", "event", "exchange", "status"];
const FILTER_KINDS = [
  "message", "durable", "delta", "ephemeral", "comment", "pause", "cut", "oversized", "lost", "end", "request",
];
const QUOTE_ESCAPES = { '"': '"', "\\": "\\", n: "\n", t: "\t", r: "\r" };
const DURATION_UNITS = { ns: 1n, us: 1000n, ms: 1000000n, s: 1000000000n, min: 60000000000n, h: 3600000000000n };

export function filterFields() {
  const named = allVocabularies().flatMap((one) => [...one.entities.map(({ short }) => short), one.channel]);
  return ["type", "kind", "id", "rule", "method", ...new Set(named), ...NUMBER_FIELDS, "gap", "text"];
}

/** Filters that many readers need, each with what it leaves. */
export function suggestedFilters() {
  const known = allVocabularies();
  const entities = known.flatMap((one) => one.entities).filter(({ within }) => within !== null);
  const failures = [...new Set(known.flatMap((one) => one.failures).map((type) => type.replace(/^.*(?=\.)/, "*")))].join();
  return [
    ...new Map(entities.map(({ name, short }) => [`${short}:*`, `${labelOf(name)}s`])),
    ...(failures ? [[`type:${failures}`, "failures"]] : []),
    ["rule:*", "events with a finding"],
    ["status:4xx,5xx", "requests that failed"],
    ["gap:>1s", "what follows a second without an event"],
    ["-kind:delta", "everything except deltas"],
  ];
}

/** The entities that have a name in filters. */
function entitiesOf(field) {
  const found = allVocabularies().flatMap((one) => one.entities.filter(({ short }) => short === field));
  return [...new Set(found.map(({ name }) => name))];
}

/**
 * Parse a filter: a list of groups, each a list of `{field, negated, entities, values}`: `entities` are those that the
 * field is the name of, and values are `{text, quoted}` or
 * `{low, high}` (BigInt or null, both ends included).  Throws an Error.
 */
export function parseFilter(text) {
  return new FilterParser(text).parse();
}

/** Recursive descent over the text, from left to right. */
class FilterParser {
  constructor(text) {
    Object.assign(this, { text, at: 0, fields: filterFields() });
  }

  parse() {
    const groups = [[]];
    while (this.take(/[ \t\n\r\f\v]*/y) && this.at < this.text.length) {
      const begin = this.at;
      if (!this.take(/or(?=[ \t\n\r\f\v]|$)/y)) groups.at(-1).push(this.condition());
      else if (groups.at(-1).length) groups.push([]);
      else throw this.error(begin, "`or` needs a condition before it.");
    }
    if (groups.length > 1 && !groups.at(-1).length) throw this.error(this.text.length, "`or` needs a condition after it.");
    return groups.filter((group) => group.length);
  }

  condition() {
    const negated = Boolean(this.take(/-/y));
    if (negated && this.atSpace()) throw this.error(this.at - 1, "`-` needs a condition after it.");
    const begin = this.at;
    const [, field] = this.take(/([^ \t\n\r\f\v,":/]*):/y) || ["", "text"];
    if (!this.fields.includes(field)) throw this.error(begin, unknown("field", field, this.fields));
    const values = [this.value(field)];
    while (this.take(/,/y)) values.push(this.value(field));
    if (!this.atSpace()) {
      throw this.error(this.at, `expected a space after ${shortened(this.text.slice(begin, this.at))}.`);
    }
    const entities = entitiesOf(field);
    const isChannel = !entities.length && allVocabularies().some((one) => one.channel === field);
    return { field: isChannel ? "channel" : field, negated, entities, values };
  }

  value(field) {
    const begin = this.at;
    const found = this.quoted() || { text: (this.take(/[^ \t\n\r\f\v",]+/y) || [])[0], quoted: false };
    if (found.text === undefined) throw this.error(begin, `missing value for \`${field}\`.`);
    if (field === "kind" && !FILTER_KINDS.includes(found.text)) {
      throw this.error(begin, unknown("kind", found.text, FILTER_KINDS));
    }
    if (!NUMBER_FIELDS.includes(field) && field !== "gap") return found;
    const [, status] = (field === "status" && /^([1-5])xx$/.exec(found.text)) || [];
    if (status) return { low: BigInt(`${status}00`), high: BigInt(`${status}99`) };
    try {
      return parseRange(found.text, field === "gap" ? "duration" : "number");
    } catch (error) {
      throw this.error(begin, `invalid value '${shortened(found.text)}' for \`${field}\`: ${error.message}.`);
    }
  }

  /** A text in quotes; null if there is none here. */
  quoted() {
    const begin = this.at;
    const found = this.take(/"((?:[^"\\]|\\["\\ntr])*)/y);
    if (!found) return null;
    if (this.text[this.at] === "\\") throw this.error(this.at, 'invalid escape: in quotes, use \\\\, \\", \\n, \\t or \\r.');
    if (!this.take(/"/y)) throw this.error(begin, "the closing quotation mark is missing.");
    return { text: found[1].replace(/\\(.)/g, (_all, char) => QUOTE_ESCAPES[char]), quoted: true };
  }

  /** Move behind a pattern, if it is here. */
  take(pattern) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (found) this.at = pattern.lastIndex;
    return found;
  }

  /** Whether a space or the end is here. */
  atSpace() {
    return " \t\n\r\f\v".includes(this.text.charAt(this.at));
  }

  error(at, problem) {
    const place = Array.from(this.text.slice(0, at)).length + 1;
    return new Error(`Invalid filter at character ${place}: ${problem}`);
  }
}

function shortened(text) {
  return shorten(text, 200);
}

function unknown(thing, name, known) {
  const guess = closestMatch(name.slice(0, 50), known);
  const hint = guess ? `did you mean \`${guess}\`?` : `expected one of ${known.join(", ")}.`;
  return `unknown ${thing} \`${shortened(name)}\`; ${hint}`;
}

/** Return the word that is most like `name`, or null, as Python's difflib.get_close_matches does. */
function closestMatch(name, words) {
  const likeness = (word) => (2 * commonCharacters(word, name)) / (word.length + name.length);
  const [best] = words.map((word) => [likeness(word), word]).sort((a, b) => b[0] - a[0] || (b[1] > a[1] ? 1 : -1));
  return best[0] >= 0.5 ? best[1] : null;
}

/** Count the characters of the longest common substring, and of those to its left and to its right. */
function commonCharacters(a, b) {
  for (let size = a.length; size > 0; size -= 1) {
    for (let at = 0; at + size <= a.length; at += 1) {
      const other = b.indexOf(a.slice(at, at + size));
      if (other >= 0) return size + commonCharacters(a.slice(0, at), b.slice(0, other)) + commonCharacters(a.slice(at + size), b.slice(other + size));
    }
  }
  return 0;
}

/** Parse `7`, `40..60`, `..60`, `>1s` or `<=200ms`; a single duration means that long or longer. */
function parseRange(text, unit) {
  const comparison = /^(>=|<=|>|<)([^]*)$/.exec(text);
  if (comparison) {
    const [, sign] = comparison;
    const number = parseNumber(comparison[2], unit);
    if (unit === "duration" && sign === "<" && number === 0n) throw new Error("a duration cannot be less than zero");
    if (sign.startsWith(">")) return { low: sign === ">" ? number + 1n : number, high: null };
    return { low: null, high: sign === "<" ? number - 1n : number };
  }
  if (!text.includes("..")) {
    const number = parseNumber(text, unit);
    return { low: number, high: unit === "duration" ? null : number };
  }
  const at = text.indexOf("..");
  const [begin, end] = [text.slice(0, at), text.slice(at + 2)];
  const low = begin ? parseNumber(begin, unit) : null;
  const high = end ? parseNumber(end, unit) : null;
  if (low === null && high === null) throw new Error("expected a number before or after the two dots");
  if (low !== null && high !== null && low > high) throw new Error("the range ends before it begins");
  return { low, high };
}

function parseNumber(text, unit) {
  if (unit === "number") {
    if (!/^-?\d{1,25}$/.test(text)) throw new Error("expected a number, a range such as 40..60, or >40");
    return BigInt(text);
  }
  const found = /^(\d{1,15})(?:\.(\d{1,9}))?(ns|us|ms|s|min|h)$/.exec(text);
  if (!found) {
    throw new Error("expected a duration with a unit (ns, us, ms, s, min, h), such as >1s or 200ms..2s");
  }
  const scale = DURATION_UNITS[found[3]];
  return BigInt(found[1]) * scale + (BigInt((found[2] || "").padEnd(9, "0")) * scale) / 1000000000n;
}
