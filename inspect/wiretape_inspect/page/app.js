// The application: puts the parts of the page together, and shows the view that the URL describes.

import { DetailPane } from "./detail_pane.js";
import { DiffPane } from "./diff_pane.js";
import { TIME_MODES, setClock } from "./clock.js";
import { watchDialog } from "./dialogs.js";
import { byId, element, onNextFrame, setText } from "./dom.js";
import { showExportDialog } from "./export_dialog.js";
import { firstExchange, isSameChannel, newestStream } from "./exchange_heads.js";
import { ExchangeReader, LONG_STREAM } from "./exchange_reader.js";
import { suggestedFilters } from "./filter_grammar.js";
import { FindingsPane } from "./findings_pane.js";
import { capitalize, formatCount, formatNumber } from "./format.js";
import { showHeader } from "./header.js";
import { showHelp, watchKeys } from "./keyboard.js";
import { LiveUpdates } from "./live_updates.js";
import { Navigation } from "./navigation.js";
import { showError } from "./notices.js";
import { MatchCounts } from "./match_counts.js";
import { Playhead } from "./playhead.js";
import { pickRecording } from "./recording_picker.js";
import { ResumePane } from "./resume_pane.js";
import { Selection } from "./selection.js";
import { Sidebar } from "./sidebar.js";
import { watchSplitter } from "./splitter.js";
import { TextHighlight } from "./text_highlight.js";
import { TimeStrip } from "./time_strip.js";
import { lastEvent } from "./timeline.js";
import { ROW_COLUMNS, ROW_HEIGHT, fillRow } from "./timeline_row.js";
import { EMPTY_VIEW, UrlState } from "./url_state.js";
import { VirtualList } from "./virtual_list.js";
import { allVocabularies, labelOf, useVocabularies } from "./vocabulary.js";

const OVERVIEW_INTERVAL_MS = 1000;
const [WIDE_PAGE, BESIDE] = [1600, 1040]; // pixels of a page with the details beside the timeline, and of room for both

export class App {
  /** `report` is the index of a report's recordings, or null; `recordingNumber` is the number of this one, from 1. */
  constructor(source, report, recordingNumber) {
    Object.assign(this, { source, report, recordingNumber, next: null, isStarted: false });
    this.redraw = onNextFrame(() => this.draw());
    this.urlState = new UrlState(recordingNumber, (view, before, isLink) => this.showView(view, before, isLink));
    this.navigation = new Navigation(this);
    this.selection = new Selection(this);
    this.reader = new ExchangeReader(source, {
      rowsChanged: (timeline) => this.showRows(timeline),
      filtered: () => { this.selection.isMoved = true; this.selection.update(); if (this.wantsMatch) this.chooseMatch(); },
      changed: this.redraw,
    });
  }

  get view() {
    return this.urlState.view;
  }

  get head() {
    return this.reader.head;
  }

  get timeline() {
    return this.reader.timeline;
  }

  /** Change the view; with `push`, the browser's back button undoes it. */
  go(changes, push = false) {
    this.urlState.change(changes, push);
  }

  async start() {
    this.recording = await this.source.recording();
    useVocabularies(this.recording.vocabularies);
    this.nameEntities();
    this.detail = new DetailPane(this);
    this.list = new VirtualList(byId("timeline"), {
      label: "Timeline", columns: ROW_COLUMNS, height: ROW_HEIGHT,
      fill: (cells, item, node) => this.fillRow(cells, item, node),
      chosen: (index) => this.navigation.choose(index),
      opened: () => this.navigation.toggle(),
    });
    setClock({ startedMs: Date.parse(this.recording.started) || 0 });
    this.strip = new TimeStrip(byId("strip"), this.navigation, (head) => this.sidebar.findingsOf(head));
    this.matchCounts = new MatchCounts(this.source, () => this.showMatches());
    this.sidebar = new Sidebar(byId("exchanges"), this);
    this.highlight = new TextHighlight([byId("timeline"), byId("panel")]);
    this.panes = { findings: null, diff: null, resume: null };
    this.live = new LiveUpdates(this);
    this.watch();
    this.isStarted = true;
    this.navigation.isUsed = /[#&]x=/.test(location.hash);
    this.urlState.read();
    if (!this.timeline) this.showView(this.view, this.view);
    if (!this.timeline) this.live.listen();
    if (this.recording.replay) this.playhead = new Playhead(this);
    watchKeys(this);
    this.focusList();
    this.redraw();
  }

  /** Name the button that shows entities inside another one as one row each. */
  nameEntities() {
    const [inner] = allVocabularies().flatMap((one) => one.entities.filter(({ within }) => within !== null));
    const button = byId("tools");
    button.hidden = !inner;
    if (!inner) return;
    setText(button, capitalize(`${labelOf(inner.name)}s`));
    button.title = `One row for each ${labelOf(inner.name)} (t)`;
  }

  watch() {
    watchDialog();
    new ResizeObserver(() => { this.dock(); this.redraw(); }).observe(byId("panes"));
    watchSplitter(byId("splitter"), { variable: "--details", box: byId("panes"), isLast: true });
    watchSplitter(byId("sidebar-splitter"), { variable: "--sidebar", box: byId("main") });
    const onClick = (id, action) => byId(id).addEventListener("click", action);
    onClick("sidebar-button", () => this.showSidebar(byId("sidebar").hidden));
    onClick("files", () => pickRecording(this.report, this.recordingNumber));
    onClick("findings-button", () => this.navigation.showFindings());
    onClick("compare", () => this.navigation.compare());
    onClick("diff-button", () => this.navigation.diff());
    onClick("newer", () => this.navigation.goExchange(newestStream(this.recording.exchanges).exchange));
    onClick("export-button", () => showExportDialog(this));
    onClick("help-button", () => showHelp(this));
    onClick("deltas", () => this.go({ deltas: !this.view.deltas, open: [] }));
    onClick("tools", () => this.go({ tools: !this.view.tools }));
    onClick("dock", () => { this.wantsBelow = !byId("panes").classList.contains("below"); this.dock(); });
    const times = byId("time-mode");
    for (const [value, text] of Object.entries(TIME_MODES)) times.append(element("option", { value, text }));
    times.addEventListener("change", () => this.go({ time: times.value }));
    const filter = byId("filter");
    byId("suggestions").append(...suggestedFilters().map(([q, about]) => {
      const use = () => { this.go({ q }); filter.focus(); };
      return element("button", { type: "button", onclick: use }, element("code", { text: q }), about);
    }));
    filter.addEventListener("input", () => this.go({ q: filter.value }));
    filter.addEventListener("keydown", (event) => {
      if (!["Enter", "ArrowDown"].includes(event.key)) return;
      event.preventDefault();
      this.chooseMatch();
      this.focusList();
    });
  }

  /** Choose the first match if none is selected, once the search has ended. */
  chooseMatch() {
    this.wantsMatch = Boolean(this.reader.search);
    if (!this.wantsMatch && this.list.selected < 0 && !this.paneList) this.navigation.choose(0);
  }

  showSidebar(isShown) {
    byId("sidebar").hidden = byId("sidebar-splitter").hidden = !isShown;
    byId("sidebar-button").setAttribute("aria-pressed", isShown);
    if (isShown) this.sidebar.list.resized();
  }

  showMatches() {
    const { matchCounts, head } = this;
    const box = byId("elsewhere");
    this.sidebar.changed();
    const { exchanges, next, matches } = matchCounts.elsewhere(head?.exchange);
    box.hidden = !matchCounts.filter || (!exchanges && !matchCounts.isBusy);
    if (box.hidden) return;
    const text = exchanges
      ? `${formatCount(matches, "match")} in ${formatCount(exchanges, "other exchange")}${matchCounts.isBusy ? " so far" : ""}. `
      : "Searching the other exchanges …";
    const go = () => this.navigation.goExchange(next);
    box.replaceChildren(text, ...(next === undefined ? [] : [element("button", { type: "button", class: "link", text: `Go to #${next}`, onclick: go })]));
  }

  /** Show a view; `before` is the one shown so far. */
  showView(view, before, isLink = false) {
    if (isLink) this.selection.opens = "within";
    if (!this.isStarted) return;
    const { exchanges } = this.recording;
    const head = view.x === null ? firstExchange(this.recording) : exchanges.find((one) => one.exchange === view.x);
    if (!head && exchanges.length) {
      showError(`This recording has no exchange ${view.x}.`);
      this.go({ ...EMPTY_VIEW, x: this.head ? this.head.exchange : null, q: view.q });
      return;
    }
    if (!head) {
      this.reader.close();
      showHeader(this);
      if (view.findings) this.showPane(view);
      return;
    }
    if (view.x === null) { this.go({ x: head.exchange }); return; }
    if (!this.timeline || this.timeline.head.exchange !== head.exchange) this.openExchange(head);
    this.sidebar.select(head);
    if (view.time !== before.time || byId("time-mode").value !== view.time) this.showTimes(view.time);
    const isFiltered = this.reader.apply(view);
    this.highlight.set(this.reader.texts);
    if (view.q !== this.matchCounts.filter) this.matchCounts.search(view.q, this.reader.matches);
    else if (view.x !== before.x) this.showMatches();
    const filter = byId("filter");
    if (filter.value !== view.q) filter.value = view.q;
    for (const name of ["deltas", "tools"]) byId(name).setAttribute("aria-pressed", view[name]);
    const isPaneChanged = ["findings", "diff", "verdicts", "resume", "x"].some((name) => view[name] !== before[name]);
    if (isPaneChanged || !this.isPaneShown) this.showPane(view);
    this.isPaneShown = true;
    if (isFiltered || ["e", "r", "x"].some((name) => view[name] !== before[name])) this.selection.isMoved = true;
    this.selection.update();
    this.redraw();
  }

  openExchange(head) {
    this.selection.isMoved = true;
    setClock({ exchangeNs: head.time_ns });
    this.strip.showExchanges(this.recording.exchanges, head);
    this.list.scroller.scrollTop = 0;
    this.reader.open(head, this.live.sendsRows(head));
    this.live.restart();
    this.list.show(this.timeline.items, -1);
  }

  /** Put the details beside the timeline if there is room for both, and where the reader wants them. */
  dock() {
    const panes = byId("panes");
    const hasRoom = panes.clientWidth >= BESIDE;
    const isBelow = !hasRoom || (this.wantsBelow ?? innerWidth < WIDE_PAGE);
    panes.classList.toggle("below", isBelow);
    byId("dock").hidden = !hasRoom;
    byId("dock").setAttribute("aria-pressed", isBelow);
  }

  reopen() {
    this.detail.forget();
    this.reader.timeline = null;
    this.showView(this.view, this.view);
  }

  showTimes(mode) {
    setClock({ mode });
    byId("time-mode").value = mode;
    byId("timeline").classList.toggle("wall-clock", mode === "utc" || mode === "local");
    this.list.draw();
    this.strip.draw();
    this.detail.forget();
  }

  /** Show the timeline, or the pane that replaces it. */
  showPane(view) {
    const name = paneOf(view);
    byId("timeline").hidden = name !== "timeline";
    for (const one of Object.keys(this.panes)) if (byId(`${one}-pane`)) byId(`${one}-pane`).hidden = one !== name;
    byId("bar").classList.toggle("away", name !== "timeline");
    byId("tabs").parentNode.hidden = name !== "timeline";
    byId("bar").hidden = view.findings;
    if (!view.findings && this.strip.head !== this.head) this.strip.showExchanges(this.recording.exchanges, this.head);
    if (name === "timeline") return;
    if (!this.panes[name]) {
      const host = element("div", { id: `${name}-pane`, class: "pane other" });
      byId("timeline").after(host);
      this.panes[name] = new { findings: FindingsPane, diff: DiffPane, resume: ResumePane }[name](host, this);
    }
    if (name === "resume") this.panes.resume.show(view.resume, view.x);
    else this.panes[name].show();
  }

  /** The list of the pane that replaces the timeline; null while the timeline is shown. */
  get paneList() {
    return this.panes[paneOf(this.view)]?.list ?? null;
  }

  focusList() {
    (this.paneList || this.list).root.focus({ preventScroll: true });
  }

  fillRow(cells, item, node) {
    fillRow(cells, item, node, this.timeline, this.list.wide);
    const event = this.next?.exchange === this.head.exchange ? this.next.event : null;
    const isNext = item.kind === "delta" ? item.event === event : event !== null && item.row.event <= event && event <= lastEvent(item.row);
    node.classList.toggle("next", isNext);
    node.classList.toggle("unreleased", this.isUnreleased(item));
    node.classList.toggle("breakpoint", Boolean(this.playhead && item.kind !== "delta" && this.playhead.stopsAt(item.row, this.head)));
  }

  /** Whether a replay is still to send an item of the timeline. */
  isUnreleased(item) {
    const { next, head } = this;
    if (!next || head.exchange < next.exchange || item.kind === "side") return false;
    if (head.exchange > next.exchange) return isSameChannel(head, this.recording.exchanges.find((one) => one.exchange === next.exchange));
    if (item.kind === "delta") return item.event >= next.event;
    return item.row.event === undefined ? item.at >= this.timeline.rows.findIndex((row) => lastEvent(row) >= next.event) : item.row.event >= next.event;
  }

  /** Mark the row that a replay sends next: `{exchange, event}`, or null. */
  markNext(location) {
    this.next = location;
    this.list.draw();
    this.selection.update();
    this.showPlayhead();
  }

  showPlayhead() {
    const { next, timeline } = this;
    const isHere = next && timeline && timeline.head.exchange === next.exchange;
    const row = isHere && timeline.rows.find((one) => ["event", "deltas"].includes(one.row) && lastEvent(one) >= next.event);
    this.strip.setLines({ playhead: row ? row.time_ns : null });
  }

  showRows(timeline) {
    if (this.list.items === timeline.items) this.list.grew(this.reader.isLive);
    else this.list.show(timeline.items, -1);
    this.selection.update();
    this.redraw();
  }

  draw() {
    const { timeline, reader, view } = this;
    showHeader(this);
    this.showEmptyText();
    if (!this.head && !view.findings) this.detail.show(null);
    if (!timeline) return;
    // The overview of a very long stream takes a while; until then, the strip shows no silences and no entities.
    if (reader.overview || timeline.events > LONG_STREAM) this.strip.show(reader.overview, timeline);
    if (!this.selection.item) this.selection.update();
    if (this.next) this.showPlayhead();
    this.showCount();
    if (reader.isLive) this.refreshLive();
  }

  /** Show how many events there are, and whether more are to come; a number that keeps changing is not announced. */
  showCount() {
    const { timeline, reader, view } = this;
    const count = byId("count");
    const isBusy = reader.isBusy && !this.paneList;
    count.classList.toggle("reading", isBusy);
    count.setAttribute("aria-live", isBusy || reader.isLive ? "off" : "polite");
    if (paneOf(view) !== "timeline") return;
    const total = formatNumber(timeline.events);
    const events = reader.search ? "searching" : timeline.filter ? `${formatNumber(timeline.matched)} / ${total}` : formatCount(timeline.events, "event");
    setText(count, timeline.head.stream ? events : "not a stream");
  }

  showEmptyText() {
    const { timeline, recording } = this;
    let text = "";
    if (!this.head) text = recording.live ? "Nothing recorded yet. Requests through the proxy appear here." : "Nothing was recorded.";
    else if (timeline && timeline.done && timeline.filter && !timeline.items.length && !this.reader.search) {
      text = "No rows of this exchange match the filter. Press Esc to clear it.";
    }
    setText(byId("no-rows"), text);
    byId("no-rows").hidden = !text;
  }

  /** While a stream grows, apply the filter and read the overview again from time to time. */
  refreshLive() {
    const { reader, timeline } = this;
    reader.searchAgain();
    if (reader.overview && timeline.events && Date.now() - (this.overviewTime || 0) > OVERVIEW_INTERVAL_MS) {
      this.overviewTime = Date.now();
      reader.readOverview();
    }
  }
}

/** What a view shows: the timeline, or a pane in its place. */
function paneOf(view) {
  if (view.findings) return "findings";
  if (view.diff) return "diff";
  return view.resume !== null ? "resume" : "timeline";
}
