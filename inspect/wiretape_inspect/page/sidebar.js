// The sidebar: all exchanges, to sort, to search and to choose from.

import { byId, element, onNextFrame, setClass, setText, showOptions } from "./dom.js";
import { endOfId, isCutOff, shortPath, statusClass } from "./exchange_heads.js";
import { SEVERITIES, formatCount, formatNumber, formatTime, printable, quoted, shorten, worstSeverity } from "./format.js";
import { ROW_HEIGHT, fillMarks } from "./timeline_row.js";
import { VirtualList } from "./virtual_list.js";
import { allVocabularies, channelOf, labelOf } from "./vocabulary.js";

const [MOST_CHANNELS, MOST_MEASURED] = [300, 300];
const WIDTH_FOR_ALL = 400; // pixels for whole paths, events, durations and the codes of findings
/** The columns: their name, their label, what they sort by, and whether the first click sorts in descending order. */
const COLUMNS = [
  ["n", "#", (head) => head.exchange],
  ["channel", "", (head) => channelOf(head) || ""],
  ["method", "method", (head) => head.method],
  ["path", "path", (head) => head.target],
  ["status", "status", (head) => head.status ?? 0, true],
  ["matches", "matches", (head, sidebar) => sidebar.matchesOf(head), true],
  ["events", "events", (head) => head.events ?? -1, true],
  ["duration", "duration", (head) => durationOf(head) ?? Infinity, true],
  ["marks", "findings", (head, sidebar) => sidebar.weightOf(head), true],
];

/** What people call the channels of the recording. */
function channelTitle() {
  const names = new Set(allVocabularies().map((one) => one.channel));
  return names.size === 1 ? labelOf([...names][0]) : "channel";
}

export class Sidebar {
  constructor(host, app) {
    Object.assign(this, { app, search: "", onlyMatches: false, sort: "n", descending: false, byExchange: new Map() });
    this.list = new VirtualList(host, {
      label: "Exchanges", height: ROW_HEIGHT,
      columns: COLUMNS.map(([name, label]) => [name, label || channelTitle()]),
      fill: (cells, head, node, index) => this.fillRow(cells, head, node, index),
      chosen: (index) => this.choose(index),
      opened: () => app.focusList(),
      sorted: (name) => this.sortBy(name),
    });
    this.input = byId("exchange-search");
    this.input.addEventListener("input", () => { this.search = this.input.value; this.update(); });
    this.input.addEventListener("keydown", (event) => this.pressKey(event));
    this.channels = byId("channels");
    this.channels.addEventListener("change", () => this.update());
    byId("only-matches").addEventListener("click", () => { this.onlyMatches = !this.onlyMatches; this.update(); });
    /** Show exchanges, findings or counts that have changed. */
    this.changed = onNextFrame(() => this.update());
    this.changed();
  }

  /** The findings about an exchange. */
  findingsOf(head) {
    return this.byExchange.get(head.exchange) || [];
  }

  matchesOf(head) {
    return this.app.matchCounts.counts.get(head.exchange) || 0;
  }

  /** The most severe finding counts most, then their number. */
  weightOf(head) {
    const found = this.findingsOf(head);
    return found.length ? 1e9 * (SEVERITIES.length - SEVERITIES.indexOf(worstSeverity(found))) + found.length : 0;
  }

  update() {
    const { app, list } = this;
    this.byExchange = Map.groupBy(app.recording.findings, (one) => one.exchange);
    const longest = app.recording.exchanges.slice(0, MOST_MEASURED).reduce((most, head) => Math.max(most, shortPath(head).length), 0);
    const isFiltering = app.matchCounts.filter !== "";
    const isSelecting = isFiltering && this.onlyMatches && app.matchCounts.counts.size > 0;
    const words = this.search.toLowerCase().split(/\s+/).filter((word) => word);
    this.listChannels();
    byId("sidebar").style.setProperty("--longest", longest + (list.root.classList.contains("several") ? 8 : 0));
    const channel = this.channels.value;
    const shown = app.recording.exchanges.filter((head) => (
      this.meets(head, words) && !(isSelecting && !this.matchesOf(head)) && (!channel || channelOf(head) === channel)
    ));
    const [, , key] = COLUMNS.find(([name]) => name === this.sort);
    const keys = new Map(shown.map((head) => [head, key(head, this)]));
    const sign = this.descending ? -1 : 1;
    const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
    shown.sort((a, b) => compare(keys.get(a), keys.get(b)) * sign || a.exchange - b.exchange);
    list.root.classList.toggle("filtering", isFiltering);
    list.markSorted(this.sort, this.descending);
    list.show(shown, shown.indexOf(this.shown));
    // Whoever searches or sorts keeps the exchange that is shown in sight.
    const order = `${words} ${isSelecting} ${channel} ${this.sort} ${this.descending}`;
    if (order !== this.order && list.selected >= 0) list.select(list.selected, { middle: true });
    else if (order !== this.order) list.scroller.scrollTop = 0;
    this.order = order;
    this.showCounts(shown, isFiltering);
    this.showNothing(!shown.length && words.length > 0);
  }

  /** The channels to choose from, if there are several but not very many, with the number of their exchanges. */
  listChannels() {
    const groups = Map.groupBy(this.app.recording.exchanges, channelOf);
    groups.delete(null);
    this.list.root.classList.toggle("several", groups.size > 1);
    this.channels.hidden = groups.size < 2 || groups.size > MOST_CHANNELS;
    if (this.channels.hidden) groups.clear();
    const options = [...groups].map(([id, heads]) => [id, `${shorten(id, 40)} · ${formatNumber(heads.length)}`]);
    showOptions(this.channels, [["", `All ${formatCount(groups.size, channelTitle())}`], ...options], this.channels.value);
  }

  /** What was searched for may be in an event, where only the filter finds it. */
  showNothing(isNothing) {
    const box = byId("no-exchanges");
    box.hidden = !isNothing;
    if (!isNothing) return;
    const text = this.search.trim();
    const go = () => { this.search = this.input.value = ""; this.onlyMatches = true; this.update(); this.app.go({ q: quoted(text) }, true); };
    const button = element("button", { type: "button", class: "link", text: `Search all events for “${shorten(text, 40)}”`, onclick: go });
    box.replaceChildren(`No exchange matches “${shorten(text, 40)}”. `, button);
  }

  showCounts(shown, isFiltering) {
    const all = this.app.recording.exchanges.length;
    setText(byId("exchange-count"), shown.length === all ? formatNumber(all) : `${formatNumber(shown.length)} / ${formatNumber(all)}`);
    const button = byId("only-matches");
    button.hidden = !isFiltering || !this.app.matchCounts.counts.size;
    button.setAttribute("aria-pressed", this.onlyMatches);
    setText(button, `Only ${formatCount(this.app.matchCounts.counts.size, "exchange")} with matches`);
  }

  meets(head, words) {
    if (!words.length) return true;
    const codes = this.findingsOf(head).map((one) => one.code);
    const text = [head.method, head.target, channelOf(head), head.ending_label, head.stream ? "stream" : "", ...codes].join(" ").toLowerCase();
    // An exchange has one status: several are alternatives.
    const statuses = words.filter((word) => /^[1-5](\d\d|xx)$/.test(word));
    const isStatus = (word) => String(head.status) === word || (word.endsWith("xx") && String(head.status).startsWith(word[0]));
    if (statuses.length && !statuses.some(isStatus)) return false;
    return words.filter((word) => !statuses.includes(word)).every((word) => (
      /^#\d+$/.test(word) ? head.exchange === Number(word.slice(1)) : text.includes(word)
    ));
  }

  sortBy(name) {
    this.descending = this.sort === name ? !this.descending : COLUMNS.some(([column, , , isDescending]) => column === name && isDescending);
    this.sort = name;
    this.update();
  }

  /** Mark the exchange that is shown, and scroll to it. */
  select(head) {
    const index = this.list.items.indexOf(head);
    if (index !== this.list.selected || this.shown !== head) this.list.select(index, { middle: true });
    this.shown = head;
  }

  choose(index) {
    const head = this.list.items[index];
    if (head) this.app.navigation.goExchange(head.exchange, false);
  }

  focus() {
    this.app.showSidebar(true);
    this.input.select();
  }

  pressKey(event) {
    if (["ArrowDown", "ArrowUp", "PageDown", "PageUp"].includes(event.key)) this.list.key(event);
    else if (event.key === "Enter") {
      event.preventDefault();
      if (this.list.selected < 0) this.choose(0);
      this.app.focusList();
    } else if (event.key === "Escape" && this.input.value) {
      event.stopPropagation();
      this.input.value = this.search = "";
      this.update();
    }
  }

  fillRow(cells, head, node, index) {
    const isNarrow = this.list.wide < WIDTH_FOR_ALL;
    const before = this.sort === "channel" && this.list.items[index - 1];
    setClass(node, `row${head.stream ? " stream" : ""}${before && channelOf(before) !== channelOf(head) ? " next-group" : ""}`);
    const isCut = isCutOff(head);
    node.title = printable(`${head.method} ${head.target}${isCut ? ` · ${head.ending_label}` : ""}`);
    setText(cells.n, String(head.exchange));
    setText(cells.method, shorten(head.method, 12));
    setText(cells.path, shorten(shortPath(head), 300));
    setText(cells.status, `${head.status ?? "---"}${isCut ? "╌" : ""}`);
    setClass(cells.status, isCut ? "status bad" : statusClass(head));
    const matches = this.matchesOf(head);
    setText(cells.matches, matches ? formatNumber(matches) : "");
    setText(cells.events, head.events === null ? "" : formatNumber(head.events));
    setText(cells.duration, durationOf(head) === null ? "open" : formatTime(durationOf(head)));
    setText(cells.channel, shorten(endOfId(channelOf(head) || ""), 60));
    fillMarks(cells.marks, this.findingsOf(head), isNarrow ? 0 : 1);
  }
}

function durationOf(head) {
  return head.ended_ns === null ? null : head.ended_ns - head.time_ns;
}
