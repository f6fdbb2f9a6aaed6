// How often the filter matches in each exchange of the recording.

import { delay } from "./dom.js";
import { orShowError } from "./notices.js";

const TYPING_PAUSE_MS = 300;

export class MatchCounts {
  /** `changed()` is called when counts are added, and when the search has ended. */
  constructor(source, changed) {
    Object.assign(this, { source, changed, filter: "", counts: new Map(), isBusy: false, controller: null });
  }

  /** Count the matches of a filter, which `matches` applies; null for an empty or invalid one, which has none. */
  async search(filter, matches) {
    if (filter === this.filter) return;
    if (this.controller) this.controller.abort();
    const controller = new AbortController();
    Object.assign(this, { filter: matches ? filter : "", counts: new Map(), isBusy: Boolean(matches), controller });
    this.changed();
    if (!matches) return;
    await delay(TYPING_PAUSE_MS);
    if (controller.signal.aborted) return;
    const take = (found) => {
      if (controller.signal.aborted) return;
      for (const { exchange, matches: count } of found) this.counts.set(exchange, count);
      this.changed();
    };
    await orShowError(this.source.matches(filter, take, controller.signal, matches));
    if (controller.signal.aborted) return;
    this.isBusy = false;
    this.changed();
  }

  /** The other exchanges with matches: their number, the next one (after the last the first), and the sum of the matches. */
  elsewhere(exchange) {
    const numbers = [...this.counts.keys()].filter((number) => number !== exchange).sort((a, b) => a - b);
    const matches = numbers.reduce((sum, number) => sum + this.counts.get(number), 0);
    return { exchanges: numbers.length, next: numbers.find((number) => number > exchange) ?? numbers[0], matches };
  }
}
