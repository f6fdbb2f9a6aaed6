// Finds the texts of a filter that run over several deltas, as JoinedTextSearch in view/filters.py does.

import { keyOf, vocabularyOf } from "./vocabulary.js";

/** Searches consecutive deltas of the same type and the same entities; only events interrupt them. */
export class JoinedTextSearch {
  /** `wanted` are texts in lower case. */
  constructor(wanted, head) {
    this.names = vocabularyOf(head).entities.map(({ name }) => name);
    this.beginnings = wanted.map((text) => ({ wanted: text, text: "", deltas: [] }));
    this.key = null;
  }

  /** No text continues after this. */
  interrupt() {
    this.key = null;
    for (const one of this.beginnings) Object.assign(one, { text: "", deltas: [] });
  }

  /** Add the next message, and return the set to which the texts that it has a part of are added. */
  add(message, text) {
    const found = new Set();
    const key = message.kind === "delta" ? JSON.stringify([message.type, ...this.names.map((name) => keyOf(message, name))]) : null;
    if (key === null || key !== this.key) this.interrupt();
    this.key = key;
    if (key !== null && text) for (const one of this.beginnings) extend(one, text.toLowerCase(), found);
    return found;
  }
}

/** Matches within one delta are left out: a filter finds them in its own text. */
function extend(beginning, added, found) {
  const { wanted } = beginning;
  const before = beginning.text.length;
  const text = beginning.text + added;
  beginning.deltas.push({ until: text.length, found });
  for (let at = before ? text.indexOf(wanted) : -1; at >= 0 && at < before; at = text.indexOf(wanted, at + 1)) {
    let begin = 0;
    for (const delta of beginning.deltas) {
      if (begin < at + wanted.length && at < delta.until) delta.found.add(wanted);
      begin = delta.until;
    }
  }
  keep(beginning, text);
}

/** Keep the longest end of the text with which the wanted text begins, and its deltas. */
function keep(beginning, text) {
  const { wanted } = beginning;
  let at = text.indexOf(wanted[0], Math.max(text.length - wanted.length + 1, 0));
  while (at >= 0 && !wanted.startsWith(text.slice(at))) at = text.indexOf(wanted[0], at + 1);
  beginning.text = at < 0 ? "" : text.slice(at);
  beginning.deltas = at < 0 ? [] : beginning.deltas.filter(({ until }) => until > at).map(({ until, found }) => ({ until: until - at, found }));
}
