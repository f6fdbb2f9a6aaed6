// Applies a filter to rows, as view/filters.py does.

import { channelOf, compilePattern, keyOf } from "./vocabulary.js";

/**
 * Return the function that applies a filter; null for a filter that matches everything.  A subject has `kinds` and
 * `exchange`, and may have `method`, `status`, `channel`, `keys` (of entities), `event`, `sequence`, `type`, `id`, `gap_ns`, `codes`,
 * `texts`, and two sets of texts of the filter: `found`, those that it has a part of in the joined text of deltas, and
 * `joined`, those that are anywhere in that text.
 */
export function compileFilter(groups) {
  if (!groups.length) return null;
  return anyOf(groups.map(groupTest));
}

/** Of several texts, a delta needs a part of one only: the others may be anywhere in the joined text. */
function groupTest(group) {
  const texts = group.filter(isText);
  if (texts.length < 2) return allOf(group.map((one) => conditionTest(one)));
  const others = group.filter((one) => !isText(one)).map((one) => conditionTest(one));
  return allOf([...others, anyOf(texts.map((one) => conditionTest(one))), ...texts.map((one) => conditionTest(one, "joined"))]);
}

export function isText({ field, negated }) {
  return field === "text" && !negated;
}

/** A test that some of the tests hold; a single one is the test itself, which is called for every row. */
function anyOf(tests) {
  return tests.length === 1 ? tests[0] : (subject) => tests.some((matches) => matches(subject));
}

function allOf(tests) {
  return tests.length === 1 ? tests[0] : (subject) => tests.every((matches) => matches(subject));
}

function conditionTest(condition, found = "found") {
  const any = anyOf(condition.values.map((value) => valueTest(condition, value, found)));
  return condition.negated ? (subject) => !any(subject) : any;
}

function valueTest({ field, entities }, value, found) {
  if ("low" in value) return numberTest(field, value);
  if (field === "text") {
    const wanted = value.text.toLowerCase();
    return ({ texts = [], [found]: some }) => Boolean(some && some.has(wanted)) || texts.some((text) => text.toLowerCase().includes(wanted));
  }
  if (field === "kind") return (subject) => subject.kinds.includes(value.text);
  const matches = patternTest(value, ["rule", "method"].includes(field));
  if (entities.length) return ({ keys }) => Boolean(keys) && entities.some((name) => matches(keyOf(keys, name) || null));
  return field === "rule" ? ({ codes = [] }) => codes.some(matches) : ({ [field]: name }) => matches(name);
}

function numberTest(field, { low, high }) {
  const name = { seq: "sequence", gap: "gap_ns" }[field] || field;
  const [least, most] = [comparable(low, -Infinity), comparable(high, Infinity)];
  return ({ [name]: number }) => number !== null && number !== undefined && least <= number && number <= most;
}

/** A limit as a number if that is exact: comparing it with numbers takes much less time. */
function comparable(limit, otherwise) {
  const number = limit === null ? otherwise : Number(limit);
  return limit === null || Number.isSafeInteger(number) ? number : limit;
}

/** The test of a name, which may be missing, against a pattern. */
function patternTest({ text, quoted }, ignoresCase) {
  const fold = (name) => (ignoresCase ? name.toLowerCase() : name);
  const wanted = fold(text);
  const pattern = !quoted && /[*?]/.test(text) && compilePattern(wanted);
  return (name) => name !== null && name !== undefined && (pattern ? pattern.test(fold(name)) : fold(name) === wanted);
}

const KINDS = {
  event: (row) => ["message", row.kind],
  deltas: () => ["message", "delta"],
  pause: (row) => [...(row.until_ns - row.time_ns >= 1e9 ? ["pause"] : []), ...(row.keep_alives ? ["comment"] : [])],
  exchange: () => ["request"],
};
/** What a filter searches in rows that have other texts than data and its beginning. */
const TEXTS = {
  pause: (row) => [row.comment],
  end: (row) => [`${row.ending_label} ${row.detail}`],
  lost: (row) => [row.why],
  exchange: (row) => [`${row.method} ${row.target}`, row.request_preview || "", row.response_preview || ""],
};
/** The fields in which the deltas of one row may differ, or which a row does not hold in full. */
const FIELDS_OF_MESSAGES = ["text", "event", "gap"];

/** Whether a filter has to be applied to single messages: the rows alone do not tell what it matches. */
export function needsMessages(groups) {
  return groups.some((group) => group.some((condition) => FIELDS_OF_MESSAGES.includes(condition.field)));
}

/** The texts of a filter that may run over several deltas, in lower case. */
export function wantedTexts(groups) {
  const texts = groups.flat().filter(({ field }) => field === "text").flatMap(({ values }) => values.map(({ text }) => text.toLowerCase()));
  return [...new Set(texts)].filter((text) => text.length > 1);
}

/** A row of a stream, or the head of an exchange that is not a stream, as a subject: computes what a filter reads. */
export class RowSubject {
  /** Be the subject of another row. */
  of(row, head) {
    this.row = row;
    this.head = head;
    ({ exchange: this.exchange, method: this.method, status: this.status } = head);
    ({ event: this.event, sequence: this.sequence, type: this.type, id: this.id, found: this.found, joined: this.joined } = row);
    return this;
  }

  get channel() { return channelOf(this.head); }
  get keys() { return this.row; }
  get gap_ns() { return this.row.row === "pause" ? this.row.until_ns - this.row.time_ns : this.row.gap_ns; }
  get codes() { return this.row.findings?.map((one) => one.code); }
  get kinds() { return KINDS[this.row.row]?.(this.row) ?? [this.row.row]; }
  get texts() { return TEXTS[this.row.row]?.(this.row) ?? [this.row.data || "", this.row.preview || ""]; }
}
