// The names that the contracts of the recording give to channels and entities, and the types that mean something to people.

const NO_VOCABULARY = { channel: "channel", cursor: { place: "header", name: "Last-Event-ID" }, entities: [], failures: [], deltas: [], texts: [] };
let known = {};

/** Use the vocabularies of a recording, by the names of the contracts. */
export function useVocabularies(vocabularies) {
  known = vocabularies;
}

export function allVocabularies() {
  return Object.values(known);
}

/** The vocabulary of the contract that an exchange belongs to. */
export function vocabularyOf(head) {
  return (head && Object.hasOwn(known, head.contract) && known[head.contract]) || NO_VOCABULARY;
}

/** The channel that an exchange names; null if it names none. */
export function channelOf(head) {
  return head[`${vocabularyOf(head).channel}_id`] ?? null;
}

/** The entities that are in another one. */
export function innerEntities(head) {
  return vocabularyOf(head).entities.filter((one) => one.within !== null);
}

/** The first entity inside another one that a row is about: `{entity, id}`; null without any. */
export function innerKey(row, head) {
  for (const entity of innerEntities(head)) {
    const id = keyOf(row, entity.name);
    if (id !== null) return { entity, id };
  }
  return null;
}

/** The key of an entity that a row is about; null without any. */
export function keyOf(row, entity) {
  return row[`${entity}_id`] ?? null;
}

export function labelOf(name) {
  return name.replaceAll("_", " ");
}

/** A style class, with `failure` added for an event that reports one. */
export function withFailure(name, type, head) {
  return vocabularyOf(head).failures.includes(type) ? `${name} failure` : name;
}

/** Compile a pattern: `*` matches any text, `?` any character. */
export function compilePattern(wanted) {
  const escape = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
  const [first, ...others] = wanted.split(/\*+/).map((part) => part.split("?").map(escape).join("."));
  const last = others.pop();
  // A lookahead keeps the first match of each part, so matching takes linear time.
  const middle = others.map((part, at) => `(?=(.*?${part}))\\${at + 1}`).join("");
  return new RegExp(last === undefined ? `^${first}$` : `^${first}${middle}.*${last}$`, "su");
}

/** Whether a type matches one of some patterns, in which `*` stands for any characters. */
export function matchesType(patterns, type) {
  return patterns.some((pattern) => pattern === type || (pattern.includes("*") && compilePattern(pattern).test(type)));
}

/** The text of a delta; empty if it has no text. */
export function deltaText({ type, data }, head) {
  const place = vocabularyOf(head).deltas.find((one) => matchesType(one.types, type ?? ""));
  if (!place) return "";
  try {
    const steps = place.text.split("/").slice(1).map((step) => step.replaceAll("~1", "/").replaceAll("~0", "~"));
    const text = steps.reduce((value, step) => value[step], JSON.parse(data));
    return typeof text === "string" ? text : "";
  } catch {
    return "";
  }
}
