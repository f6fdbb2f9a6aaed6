// Reads one exchange: its rows, its overview, and what the filter leaves of it.

import { byId, delay, setText } from "./dom.js";
import { parseFilter } from "./filter_grammar.js";
import { compileFilter, isText, RowSubject, needsMessages } from "./filter_match.js";
import { rowLookup } from "./filtered_rows.js";
import { orShowError, showError } from "./notices.js";
import { Timeline } from "./timeline.js";

const [TYPING_PAUSE_MS, DRAWING_MS, SHOW_INTERVAL_MS, SEARCH_INTERVAL_MS] = [80, 150, 400, 1000];
const FIRST_ROWS = 100;
export const LONG_STREAM = 2000; // events

export class ExchangeReader {
  /**
   * `rowsChanged(timeline)` is called when rows or items have changed, `filtered()` when a search has ended, and
   * `changed()` when anything else has.
   */
  constructor(source, { rowsChanged, filtered, changed }) {
    Object.assign(this, { source, rowsChanged, filtered, changed });
    this.close();
  }

  close() {
    this.endSearch();
    Object.assign(this, { head: null, timeline: null, overview: null, isLive: false });
    Object.assign(this, { filter: null, texts: [], lastSearch: null });
  }

  /** Start to read an exchange.  With `isLive`, the live updates send its rows. */
  open(head, isLive) {
    if (this.loading) this.loading.abort();
    this.close();
    this.loading = new AbortController();
    const timeline = new Timeline(this.source, head, () => { if (this.timeline === timeline) this.rowsChanged(timeline); });
    Object.assign(this, { head, timeline, isLive });
    if (isLive) this.readOverview();
    else this.readRows(timeline, this.loading.signal);
  }

  /** Whether rows or the result of a search are still to come. */
  get isBusy() {
    return Boolean(this.timeline) && ((!this.timeline.done && !this.isLive) || Boolean(this.search));
  }

  /** Read the rows, and show them a few times a second; then the overview.  The server makes those of a long stream once the first are drawn. */
  async readRows(timeline, signal) {
    const { exchange, events } = timeline.head;
    if (this.source.live && events > LONG_STREAM) {
      await orShowError(this.source.rows(exchange, (found) => timeline.append(found), signal, FIRST_ROWS));
      await delay(DRAWING_MS);
    }
    let [rows, next, known] = [[], 0, timeline.rows.length && timeline.rows.length + 1];
    const read = this.source.rows(exchange, (found) => {
      rows = rows.concat(found.slice(known));
      known = Math.max(known - found.length, 0);
      if (performance.now() < next) return;
      timeline.append(rows);
      [rows, next] = [[], performance.now() + SHOW_INTERVAL_MS];
    }, signal);
    timeline.done = await orShowError(read.then(() => true)) === true;
    timeline.append(rows);
    if (this.timeline === timeline) this.readOverview();
  }

  async readOverview() {
    const { timeline } = this;
    if (!timeline.head.stream) return;
    const overview = await orShowError(this.source.overview(timeline.head.exchange));
    if (overview && this.timeline === timeline) this.overview = overview;
    this.changed();
  }

  /** The bodies of an exchange that is not a stream, loaded once. */
  bodies(head) {
    const name = `${head.exchange}/${head.ended_ns}`;
    if (!this.loadedBodies || this.loadedBodies.name !== name) {
      this.loadedBodies = { name, promise: this.source.bodies(head.exchange) };
    }
    return this.loadedBodies.promise;
  }

  /** Apply the filter, the toggles and the open rows of the view; return whether the items have changed. */
  apply(view) {
    const changes = {};
    if (view.q !== this.filter) {
      this.filter = view.q;
      this.endSearch();
      this.matches = null;
      const groups = parseShowingErrors(view.q);
      if (groups) Object.assign(changes, this.filterChanges(groups));
    }
    for (const name of ["deltas", "tools"]) if (view[name] !== this.timeline[name]) changes[name] = view[name];
    if (view.open.join("\n") !== [...this.timeline.open].join("\n")) changes.open = new Set(view.open);
    if (!Object.keys(changes).length) return false;
    this.timeline.set(changes);
    return true;
  }

  /** Apply a filter to the rows at once; if it needs single messages, a search then finds exactly what it leaves. */
  filterChanges(groups) {
    const { timeline } = this;
    const matches = this.matches = compileFilter(groups);
    this.texts = timeline.texts = groups.flat().filter(isText).flatMap(({ values }) => values.map(({ text }) => text)).filter((text) => text);
    if (!matches) return timeline.filter ? { filter: null } : {};
    if (timeline.head.stream && needsMessages(groups)) this.startSearch(matches, TYPING_PAUSE_MS);
    const subject = new RowSubject();
    return { filter: (row) => (matches(subject.of(row, timeline.head)) ? [row] : []) };
  }

  endSearch() {
    if (this.search) this.search.abort();
    this.search = null;
  }

  /** Find the rows that the filter leaves, by its single messages. */
  async startSearch(matches, pause) {
    const { timeline, filter } = this;
    const search = new AbortController();
    this.search = search;
    await delay(pause);
    if (this.search !== search) return;
    const began = performance.now();
    try {
      // Rows that arrive during the search are not shown before the next one.
      const [events, count] = [timeline.events, this.isLive ? timeline.rows.length : Infinity];
      const lookup = rowLookup(await this.source.filteredRows(timeline.head.exchange, filter, matches, search.signal));
      if (this.search !== search) return;
      this.search = null;
      timeline.set({ filter: (row, at) => (at < count ? lookup(row) : []) });
      const interval = Math.max(SEARCH_INTERVAL_MS, 4 * (performance.now() - began));
      this.lastSearch = { timeline, filter, matches, events, interval };
      this.filtered();
    } catch (error) {
      if (this.search === search) this.search = null;
      if (error.name !== "AbortError") showError(error.message);
    }
    this.changed();
  }

  /** Search again if a live stream has grown since the last search. */
  searchAgain() {
    const last = this.lastSearch;
    if (!last || this.search || last.timeline !== this.timeline || last.filter !== this.filter) return;
    if (last.events !== this.timeline.events) this.startSearch(last.matches, last.interval);
  }
}

/** Parse a filter, or show what is wrong with it and return null. */
function parseShowingErrors(text) {
  const [problem, input] = [byId("filter-error"), byId("filter")];
  let groups = null;
  try {
    groups = parseFilter(text);
    input.removeAttribute("aria-invalid");
    setText(problem, "");
  } catch (error) {
    input.setAttribute("aria-invalid", "true");
    setText(problem, error.message);
  }
  problem.hidden = groups !== null;
  return groups;
}
