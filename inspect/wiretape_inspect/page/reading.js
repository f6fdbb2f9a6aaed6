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
      const take = this.filterOf(now.q);
      if (take !== undefined && take !== this.timeline.take) changes.take = take;
      this.searching = null;
      if (take && wantsText(parseFilter(now.q))) this.search(now.q, take);
    }
    for (const name of ["deltas", "tools"]) if (now[name] !== this.timeline[name]) changes[name] = now[name];
    const open = now.open.join("\n");
    if (open !== [...this.timeline.open].join("\n")) changes.open = new Set(now.open);
    return changes;
  }

  /** The function of a filter; undefined, and said why, where the text is none. */
  filterOf(text) {
    const wrong = byId("filter-error");
    try {
      const take = taker(parseFilter(text));
      wrong.hidden = true;
      setText(wrong, "");
      byId("filter").removeAttribute("aria-invalid");
      return take;
    } catch (error) {
      wrong.hidden = false;
      setText(wrong, error.message);
      byId("filter").setAttribute("aria-invalid", "true");
      return undefined;
    }
  }

  /** Rows say how data begin: what is to be found in all of them is asked for, and shown when it is known. */
  async search(text, take) {
    const { timeline } = this;
    if (!timeline.head.stream) return;
    const search = (this.searching = { timeline });
    const now = () => this.searching === search && this.timeline === timeline;
    await new Promise((wake) => { setTimeout(wake, 250); });
    if (!now()) return;
    this.changed();
    try {
      const until = this.fromLive ? timeline.events : Infinity;
      const ranges = await this.source.taken(timeline.head.exchange, text, take);
      if (!now()) return;
      this.searching = null;
      timeline.set({ take: exactTaker(ranges, take, until) });
      this.wanted = true;
      this.select();
    } catch (error) {
      if (now()) this.searching = null;
      trouble(error.message);
    }
    this.changed();
  }
}
