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
  return entities.length ? keyTest(entities, value) : patternTest(field, value);
}

/** The test of the keys of some entities against a pattern. */
function keyTest(entities, value) {
  const matches = patternTest("key", value);
  return ({ keys }) => Boolean(keys) && entities.some((name) => matches({ key: keyOf(keys, name) || null }));
}

function numberTest(field, { low, high }) {
  const name = { seq: "sequence", gap: "gap_ns" }[field] || field;
  return ({ [name]: number }) => {
    if (number === null || number === undefined) return false;
    return (low === null || low <= number) && (high === null || number <= high);
  };
}

/** The test of a name against a pattern; rule codes and methods match in upper or lower case. */
function patternTest(field, { text, quoted }) {
  const matcher = (wanted) => {
    if (quoted || !/[*?]/.test(wanted)) return (name) => name === wanted;
    const pattern = compilePattern(wanted);
    return (name) => pattern.test(name);
  };
  if (["rule", "method"].includes(field)) {
    const matches = matcher(text.toLowerCase());
    return ({ codes = [], method }) => (field === "rule" ? codes : method ? [method] : []).some((name) => matches(name.toLowerCase()));
  }
  const matches = matcher(text);
  return ({ [field]: name }) => name !== null && name !== undefined && matches(name);
}

const NO_CODES = [];
const KINDS = { deltas: ["message", "delta"], exchange: ["request"] };
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

/** A row of a stream, or the head of an exchange that is not a stream, as a subject. */
export function rowSubject(row, head) {
  return {
    exchange: head.exchange, method: head.method, status: head.status, channel: channelOf(head), keys: row, event: row.event, sequence: row.sequence, type: row.type, id: row.id,
    kinds: row.row === "event" ? ["message", row.kind] : row.row === "pause" ? pauseKinds(row) : KINDS[row.row] || [row.row],
    gap_ns: row.row === "pause" ? row.until_ns - row.time_ns : row.gap_ns,
    codes: row.findings && row.findings.length ? row.findings.map((one) => one.code) : NO_CODES,
    texts: TEXTS[row.row] ? TEXTS[row.row](row) : [row.data || "", row.preview || ""],
    found: row.found, joined: row.joined,
  };
}

function pauseKinds(row) {
  const kinds = row.until_ns - row.time_ns >= 1e9 ? ["pause"] : [];
  return row.keep_alives ? [...kinds, "comment"] : kinds;
}
