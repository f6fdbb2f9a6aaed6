// Finds the texts of a filter that run over several deltas, as JoinedTextSearch in view/filters.py does.

import { keyOf, vocabularyOf } from "./vocabulary.js";

/** Searches consecutive deltas of the same type and the same entities; only events interrupt them. */
export class JoinedTextSearch {
  /** `wanted` are texts in lower case. */
  constructor(wanted, head) {
    this.names = vocabularyOf(head).entities.map(({ name }) => name);
    Object.assign(this, { wanted, key: null, text: "", deltas: [] });
  }

  /** Search the deltas so far: no text continues after this. */
  interrupt() {
    const { text, deltas } = this;
    for (const wanted of this.wanted) {
      let first = 0;
      for (let at = text.indexOf(wanted); at >= 0; at = text.indexOf(wanted, at + 1)) {
        while (deltas[first].until <= at) first += 1;
        for (let here = first; here < deltas.length && deltas[here].begin < at + wanted.length; here += 1) {
          if (deltas[here].begin < deltas[here].until) deltas[here].found.add(wanted);
        }
        if (deltas[0].joined.has(wanted)) continue;
        for (const delta of deltas) delta.joined.add(wanted);
      }
    }
    Object.assign(this, { key: null, text: "", deltas: [] });
  }

  /** Add the next message, and return two sets to which `interrupt` adds texts: `found`, those that it has a part of, and
   * `joined`, those that are anywhere in the joined text. */
  add(message, text) {
    const key = message.kind === "delta" ? JSON.stringify([message.type, ...this.names.map((name) => keyOf(message, name))]) : null;
    if (key === null || key !== this.key) this.interrupt();
    this.key = key;
    const sets = { found: new Set(), joined: new Set() };
    if (key === null) return sets;
    const begin = this.text.length;
    this.text += text.toLowerCase();
    this.deltas.push({ begin, until: this.text.length, ...sets });
    return sets;
  }
}
