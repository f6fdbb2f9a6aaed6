// Reading an exchange: its rows, what it is at a glance, and what of it a filter takes; the application is one of these.

class Reading extends Told {
  openExchange(head) {
    if (this.reading) this.reading.abort();
    this.reading = new AbortController();
    this.head = head;
    this.wanted = true;
    this.overview = null;
    this.overviewLate = false;
    this.strip.host.hidden = !head.stream;
    this.list.scroller.scrollTop = 0;
    const timeline = new Timeline(this.source, head, () => { if (this.timeline === timeline) this.grew(timeline); });
    this.timeline = timeline;
    this.q = null;
    this.fromLive = this.live.tells(head);
    this.live.anew();
    this.list.show(timeline.items, -1);
    if (!this.fromLive) this.read(timeline, this.reading.signal);
    this.askOverview();
  }

  async read(timeline, signal) {
    try {
      await this.source.rows(timeline.head.exchange, (rows) => timeline.append(rows), signal);
      timeline.done = true;
      if (this.timeline === timeline) this.select();
      this.changed();
    } catch (error) {
      if (error.name !== "AbortError") trouble(error.message);
    }
  }

  async askOverview() {
    const { timeline } = this;
    if (!timeline.head.stream) return;
    // A strip without pauses and tool calls is shown where these take their time, as they do in very long streams.
    const late = setTimeout(() => { this.overviewLate = true; this.changed(); }, 400);
    try {
      const overview = await this.source.overview(timeline.head.exchange);
      if (this.timeline === timeline) { this.overview = overview; this.strip.show(overview, timeline); }
    } catch (error) {
      trouble(error.message);
    } finally {
      clearTimeout(late);
    }
  }

  /** What of the view the timeline does not have yet. */
  changesOf(now) {
    const changes = {};
    if (now.q !== this.q) {
      this.q = now.q;
      const groups = this.parse(now.q);
      this.searching = null;
      if (groups) Object.assign(changes, this.filterChanges(groups));
    }
    for (const name of ["deltas", "tools"]) if (now[name] !== this.timeline[name]) changes[name] = now[name];
    const open = now.open.join("\n");
    if (open !== [...this.timeline.open].join("\n")) changes.open = new Set(now.open);
    return changes;
  }

  /** Parse a filter, or show what is wrong with it and return null. */
  parse(text) {
    const wrong = byId("filter-error");
    let groups = null;
    try {
      groups = parseFilter(text);
      byId("filter").removeAttribute("aria-invalid");
      setText(wrong, "");
    } catch (error) {
      setText(wrong, error.message);
      byId("filter").setAttribute("aria-invalid", "true");
    }
    wrong.hidden = groups !== null;
    return groups;
  }

  /** Apply a filter to the rows at once; if it needs single messages, ask for them and keep the rows until then. */
  filterChanges(groups) {
    const { head } = this.timeline;
    const matches = compileFilter(groups);
    if (!matches) return this.timeline.filter ? { filter: null } : {};
    if (head.stream && needsMessages(groups)) {
      this.search(this.q, matches);
      return this.timeline.rows.length ? {} : { filter: () => [] };
    }
    return { filter: (row) => (matches(rowSubject(row, this.timeline.head)) ? [row] : []) };
  }

  /** Find the rows that a filter leaves where the rows alone do not tell, and again while the stream grows. */
  async search(text, matches, wait = 250) {
    const { timeline } = this;
    const search = (this.searching = { timeline });
    const now = () => this.searching === search && this.timeline === timeline;
    await new Promise((wake) => { setTimeout(wake, wait); });
    if (!now()) return;
    this.changed();
    const began = performance.now();
    try {
      const [events, rows] = [timeline.events, this.fromLive ? timeline.rows.length : Infinity];
      const lookup = rowLookup(await this.source.filteredRows(timeline.head.exchange, text, matches));
      if (!now()) return;
      this.searching = null;
      timeline.set({ filter: (row, at) => (at < rows ? lookup(row) : []) });
      this.wanted = true;
      this.select();
      this.searched = { timeline, text, matches, events, wait: Math.max(1000, 4 * (performance.now() - began)) };
    } catch (error) {
      if (now()) this.searching = null;
      trouble(error.message);
    }
    this.changed();
  }

  /** Search again if the stream has grown since the last search. */
  searchAgain() {
    const { searched, timeline } = this;
    if (!searched || this.searching || searched.timeline !== timeline || searched.text !== this.q) return;
    if (searched.events !== timeline.events) this.search(searched.text, searched.matches, searched.wait);
  }
}
