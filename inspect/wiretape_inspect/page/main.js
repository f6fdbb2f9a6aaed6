// The application: what is shown follows the view, and the view follows the address.

class App extends Reading {
  constructor(source) {
    super();
    this.source = source;
    this.timeline = null;
    this.head = null;
    this.settled = false; // whether the reader has chosen anything
    this.view = new View((now, before) => this.become(now, before));
    this.changed = soon(() => this.draw());
  }

  async start() {
    this.recording = await this.source.recording();
    this.detail = new Detail(this);
    this.list = new VirtualList(byId("timeline"), {
      label: "Timeline", columns: ROW_COLUMNS, height: ROW_HEIGHT,
      fill: (cells, item, node) => this.fill(cells, item, node),
      chosen: (index) => this.choose(index),
      opened: () => this.flip(),
    });
    this.strip = new Strip(byId("strip"), { timeline: null, chosen: (timeNs) => this.goTime(timeNs) });
    this.panes = { findings: null, resume: null };
    this.live = new Live(this);
    this.watch();
    this.began = true;
    if (!location.hash && this.source.start) history.replaceState(null, "", `#${this.source.start.replace(/^#/, "")}`);
    this.settled = /[#&]x=/.test(location.hash);
    this.view.take();
    if (this.view.written === null || !this.timeline) this.become(this.view.now, this.view.now);
    if (!this.timeline) this.live.follow();
    if (this.recording.replay) this.playhead = new Playhead(this);
    this.focusList();
    this.changed();
  }

  watch() {
    watchDialog();
    watchKeys(this);
    watchSplitter();
    const press = (id, todo) => byId(id).addEventListener("click", todo);
    press("picker", () => pickExchange(this));
    press("files", () => pickFile());
    press("found", () => this.view.go({ findings: !this.view.now.findings, resume: null }, true));
    press("compare", () => this.compare());
    press("newer", () => this.goExchange(newestOf(this).exchange));
    press("help-button", () => showHelp(this));
    press("deltas", () => this.view.go({ deltas: !this.view.now.deltas, open: [] }));
    press("tools", () => this.view.go({ tools: !this.view.now.tools }));
    const filter = byId("filter");
    filter.addEventListener("input", () => this.view.go({ q: filter.value }));
    filter.addEventListener("keydown", (event) => {
      if (["Enter", "ArrowDown"].includes(event.key)) { event.preventDefault(); this.focusList(); }
    });
  }

  headOf(number) {
    return this.recording.exchanges.find((head) => head.exchange === number);
  }

  /** Where to begin: at the first stream with a finding, else at the first stream. */
  firstExchange() {
    const { exchanges, findings } = this.recording;
    const found = new Set(findings.map((one) => one.exchange));
    const streams = exchanges.filter((head) => head.stream);
    return streams.find((head) => found.has(head.exchange)) || streams[0] || exchanges[0];
  }

  /** The view is another. */
  become(now, before) {
    if (!this.began) return;
    const head = now.x === null ? this.firstExchange() : this.headOf(now.x);
    if (now.x !== null && !head && this.recording.exchanges.length) {
      trouble(`There is no exchange ${now.x} in this recording.`);
      this.view.go({ ...BLANK, x: this.head ? this.head.exchange : null, q: now.q });
      return;
    }
    if (!head) {
      this.head = null;
      showHeader(this);
      if (now.findings) this.showPane(now);
      return;
    }
    if (now.x === null) { this.view.go({ x: head.exchange }); return; }
    if (!this.timeline || this.timeline.head.exchange !== head.exchange) this.openExchange(head);
    const changes = this.changesOf(now);
    if (Object.keys(changes).length) this.timeline.set(changes);
    this.showControls(now);
    if (now.findings !== before.findings || now.verdicts !== before.verdicts || now.resume !== before.resume || now.x !== before.x || !this.paned) this.showPane(now);
    this.paned = true;
    const moved = now.e !== before.e || now.r !== before.r || now.x !== before.x;
    this.wanted = this.wanted || moved || Object.keys(changes).length > 0;
    this.select();
    this.changed();
  }

  showControls(now) {
    const filter = byId("filter");
    if (filter.value !== now.q) filter.value = now.q;
    byId("deltas").setAttribute("aria-pressed", now.deltas);
    byId("tools").setAttribute("aria-pressed", now.tools);
  }

  /** The timeline, or what stands in its place. */
  showPane(now) {
    const name = now.findings ? "findings" : now.resume !== null ? "resume" : "timeline";
    for (const one of ["timeline", "findings", "resume"]) {
      const host = byId(`${one}-pane`) || (one === "timeline" ? byId("timeline") : null);
      if (host) host.hidden = one !== name;
    }
    byId("bar").classList.toggle("away", name !== "timeline");
    byId("tabs").hidden = now.findings;
    // A report says beneath what stands there.
    byId("bar").hidden = now.findings && Boolean(this.recording.report);
    if (name === "timeline") return;
    if (!this.panes[name]) {
      const host = make("div", { id: `${name}-pane`, class: "pane other" });
      byId("timeline").after(host);
      this.panes[name] = name === "findings" ? new FindingsPane(host, this) : new ResumePane(host, this);
    }
    if (name === "findings") this.panes.findings.show();
    else this.panes.resume.show(now.resume, now.x);
  }

  fill(cells, item, node) {
    fillRow(cells, item, node, this.timeline, this.list.wide);
    const next = this.next && this.next.exchange === this.timeline.head.exchange && item.row.event === this.next.event && item.kind !== "delta";
    node.classList.toggle("next", Boolean(next));
  }

  /** The rows are more, or others. */
  grew(timeline) {
    if (this.list.items === timeline.items) this.list.grew(this.fromLive);
    else this.list.show(timeline.items, -1);
    this.select();
    this.changed();
  }

  /** Find what the view has selected among the items. */
  select() {
    const { timeline, list } = this;
    const { e, r } = this.view.now;
    let index = list.selected;
    if (!this.isSelected(list.items[index])) index = r !== null ? timeline.indexOfRow(r, e) : e !== null ? timeline.indexOfEvent(e) : -1;
    const reveal = this.wanted && index >= 0;
    if (reveal || (e === null && r === null)) this.wanted = false;
    list.select(index, { reveal });
    this.showFinding();
    const item = list.items[index] || this.hiddenItem();
    this.item = item;
    if (!item && e !== null) this.tellMissing(e);
    if (!this.view.now.findings) this.detail.show(item || null);
    this.strip.point(item && item.row.time_ns !== null ? this.timeOf(item) : null);
  }

  timeOf(item) {
    const single = item.kind === "delta" ? this.timeline.single.get(item.event) : null;
    return (single || item.row).time_ns;
  }

  isSelected(item) {
    if (!item) return false;
    const { e, r } = this.view.now;
    const place = placeOf(item, this.timeline);
    return place.e === e && place.r === r && (e !== null || r !== null);
  }

  /** What is selected, though the filter does not take it. */
  hiddenItem() {
    const { e, r } = this.view.now;
    const { rows } = this.timeline;
    const has = (row) => (row.row === "event" ? row.event === e : row.row === "deltas" && row.event <= e && e <= row.last_event);
    const at = r !== null ? r : e !== null ? rows.findIndex(has) : -1;
    return rows[at] && rows[at].row !== "exchange" ? { kind: "row", row: rows[at], at } : null;
  }

  /** Say that a link names an event that is not there; a file about findings may have left it out. */
  tellMissing(event) {
    const { timeline } = this;
    const name = `${timeline.head.exchange}:${event}`;
    if (!timeline.done || this.missing === name || timeline.rows.some((row) => row.row === "omitted")) return;
    this.missing = name;
    trouble(`There is no event ${event} in exchange ${timeline.head.exchange}.`);
  }

  /** What stands in place of rows where there are none. */
  tellNothing() {
    const { timeline, recording } = this;
    const note = byId("no-rows");
    let words = "";
    if (!this.head) words = recording.live ? "Nothing has come yet. What a client sends through the proxy is shown here as it comes." : "Nothing was recorded.";
    else if (timeline && timeline.done && timeline.filter && !timeline.items.length && !this.searching) {
      words = "No rows match the filter. Press Esc to clear it.";
    }
    setText(note, words);
    note.hidden = !words;
  }

  selectedRow() {
    return this.item ? this.item.row : null;
  }

  /** A finding without an event is looked for among the rows when these are there. */
  showFinding() {
    const found = this.soughtFinding;
    if (!found || found.exchange !== this.timeline.head.exchange) return;
    const same = (one) => one.code === found.code && one.time_ns === found.time_ns && one.message === found.message;
    const at = this.timeline.rows.findIndex((row) => (row.findings || []).some(same));
    if (at < 0) return;
    this.soughtFinding = null;
    this.view.go({ r: at, e: null });
  }

  draw() {
    showHeader(this);
    showCompare(this);
    this.tellNothing();
    if (!this.head && !this.view.now.findings) this.detail.show(null);
    if (!this.timeline) return;
    const { timeline } = this;
    if (this.overview) this.strip.show(this.overview, timeline);
    else if (this.overviewLate && timeline.head.stream) this.strip.show(overviewOf(timeline), timeline);
    this.showReading(((!timeline.done && !this.fromLive) || Boolean(this.searching)) && !this.view.now.findings && this.view.now.resume === null);
    if (this.view.now.findings) { setText(byId("count"), listedSaid(this)); return; }
    if (this.view.now.resume !== null) return;
    const whole = grouped(timeline.events);
    const words = timeline.filter ? `${grouped(timeline.matched)} / ${whole}` : counted(timeline.events, "event");
    setText(byId("count"), timeline.head.stream ? words : "no stream");
    if (this.fromLive) this.searchAgain();
    if (this.fromLive && this.overview && timeline.events && Date.now() - (this.overviewAt || 0) > 1000) {
      this.overviewAt = Date.now();
      this.askOverview();
    }
  }

  /** Whether more is to come; a number that changes all the time is not read out. */
  showReading(reading) {
    byId("count").classList.toggle("reading", reading);
    byId("count").setAttribute("aria-live", reading || this.fromLive ? "off" : "polite");
  }
}

const app = new App(embeddedSource() || serverSource());
app.start().catch((error) => {
  const box = byId("trouble");
  box.hidden = false;
  box.textContent = printable(error instanceof SourceWrong ? error.message : `This page failed: ${error.message}`);
  if (!(error instanceof SourceWrong)) throw error;
});
