// How often the filter matches in each exchange of the recording.

import { delay } from "./dom.js";
import { parseFilter } from "./filter_grammar.js";
import { compileFilter } from "./filter_match.js";
import { showError } from "./notices.js";

const TYPING_PAUSE_MS = 300;

export class MatchCounts {
  /** `changed()` is called when counts are added, and when the search has ended. */
  constructor(source, changed) {
    Object.assign(this, { source, changed, filter: "", counts: new Map(), isBusy: false, controller: null });
  }

  /** Count the matches of a filter; an empty or invalid one has none. */
  async search(filter) {
    if (filter === this.filter) return;
    if (this.controller) this.controller.abort();
    const controller = new AbortController();
    const matches = compile(filter);
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
    try {
      await this.source.matches(filter, take, controller.signal, matches);
    } catch (error) {
      if (error.name !== "AbortError") showError(error.message);
    }
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

function compile(filter) {
  try {
    return compileFilter(parseFilter(filter));
  } catch {
    return null;
  }
}
