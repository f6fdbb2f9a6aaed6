// The sidebar: all exchanges, to sort, to search and to choose from.

import { byId, element, onNextFrame, setClass, setText } from "./dom.js";
import { isCutOff, shortPath, statusClass } from "./exchange_heads.js";
import { SEVERITIES, formatCount, formatDuration, formatNumber, printable, shorten, worstSeverity } from "./format.js";
import { ROW_HEIGHT, fillMarks } from "./timeline_row.js";
import { VirtualList } from "./virtual_list.js";
import { allVocabularies, channelOf, labelOf } from "./vocabulary.js";

const WIDTH_FOR_ALL = 400; // pixels for whole paths, events, durations and the codes of findings
/** What a column sorts by, and whether the first click sorts in descending order. */
const SORTS = {
  n: [(head) => head.exchange],
  method: [(head) => head.method],
  path: [(head) => head.target],
  status: [(head) => head.status ?? 0, true],
  matches: [(head, sidebar) => sidebar.matchesOf(head), true],
  events: [(head) => head.events ?? -1, true],
  marks: [(head, sidebar) => sidebar.weightOf(head), true],
  duration: [(head) => durationOf(head) ?? Infinity, true],
  channel: [(head) => channelOf(head) || ""],
};
const COLUMNS = [
  ["n", "#"], ["method", "method"], ["path", "path"], ["status", "status"], ["matches", "matches"], ["events", "events"],
  ["duration", "duration"], ["channel", ""], ["marks", "findings"],
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
      columns: COLUMNS.map(([name, label]) => ({ name, label: label || channelTitle() })),
      fill: (cells, head, node) => this.fillRow(cells, head, node),
      chosen: (index) => this.choose(index),
      opened: () => app.focusList(),
      sorted: (name) => this.sortBy(name),
    });
    this.input = byId("exchange-search");
    this.input.addEventListener("input", () => { this.search = this.input.value; this.update(); });
    this.input.addEventListener("keydown", (event) => this.pressKey(event));
    this.list.root.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.stopPropagation(); app.focusList(); }
    });
    byId("only-matches").addEventListener("click", () => { this.onlyMatches = !this.onlyMatches; this.update(); });
    /** Show exchanges, findings or counts that have changed. */
    this.changed = onNextFrame(() => this.update());
    this.update();
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
    this.byExchange = groupByExchange(app.recording.findings);
    const longest = app.recording.exchanges.reduce((most, head) => Math.max(most, shortPath(head, true).length), 0);
    byId("sidebar").style.setProperty("--longest", longest);
    const isFiltering = app.matchCounts.filter !== "";
    const isSelecting = isFiltering && this.onlyMatches && app.matchCounts.counts.size > 0;
    const words = this.search.toLowerCase().split(/\s+/).filter((word) => word);
    const shown = app.recording.exchanges.filter((head) => (
      this.meets(head, words) && !(isSelecting && !this.matchesOf(head))
    ));
    const [key] = SORTS[this.sort];
    const keys = new Map(shown.map((head) => [head, key(head, this)]));
    const sign = this.descending ? -1 : 1;
    shown.sort((a, b) => compare(keys.get(a), keys.get(b)) * sign || a.exchange - b.exchange);
    list.root.classList.toggle("filtering", isFiltering);
    list.markSorted(this.sort, this.descending);
    list.show(shown, shown.indexOf(this.shown));
    this.showCounts(shown, isFiltering);
    this.showNothing(!shown.length && words.length > 0);
  }

  /** What was searched for may be in an event, where only the filter finds it. */
  showNothing(isNothing) {
    const box = byId("no-exchanges");
    box.hidden = !isNothing;
    if (!isNothing) return;
    const text = this.search.trim();
    const go = () => { this.search = this.input.value = ""; this.onlyMatches = true; this.update(); this.app.go({ q: quoted(text) }, true); };
    const button = element("button", { type: "button", class: "link", text: `Search all events for “${shorten(text, 40)}”`, onclick: go });
    box.replaceChildren("No exchange has this in its head. ", button);
  }

  showCounts(shown, isFiltering) {
    const all = this.app.recording.exchanges.length;
    setText(byId("exchange-count"), shown.length === all ? formatNumber(all) : `${formatNumber(shown.length)} / ${formatNumber(all)}`);
    const button = byId("only-matches");
    button.hidden = !isFiltering;
    button.setAttribute("aria-pressed", this.onlyMatches);
    setText(button, `Only ${formatCount(this.app.matchCounts.counts.size, "exchange")} with matches`);
  }

  meets(head, words) {
    if (!words.length) return true;
    const found = this.findingsOf(head);
    const text = [
      head.method, head.target, channelOf(head), head.ending_label, head.stream ? "stream" : "", ...found.map((one) => one.code),
    ].join(" ").toLowerCase();
    return words.every((word) => {
      if (/^#\d+$/.test(word)) return head.exchange === Number(word.slice(1));
      return /^[1-5]\d\d$/.test(word) ? head.status === Number(word) : text.includes(word);
    });
  }

  sortBy(name) {
    this.descending = this.sort === name ? !this.descending : Boolean(SORTS[name][1]);
    this.sort = name;
    this.update();
    this.list.scroller.scrollTop = 0;
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

  fillRow(cells, head, node) {
    const isNarrow = this.list.wide < WIDTH_FOR_ALL;
    setClass(node, `row${head.stream ? " stream" : ""}`);
    const isCut = isCutOff(head);
    node.title = printable(`${head.method} ${head.target}${isCut ? ` · ${head.ending_label}` : ""}`);
    setText(cells.n, String(head.exchange));
    setText(cells.method, shorten(head.method, 12));
    setText(cells.path, shorten(shortPath(head, isNarrow), 300));
    setText(cells.status, `${head.status ?? "---"}${isCut ? "✕" : ""}`);
    setClass(cells.status, isCut ? "status bad" : statusClass(head));
    const matches = this.matchesOf(head);
    setText(cells.matches, matches ? formatNumber(matches) : "");
    setText(cells.events, head.events === null ? "" : formatNumber(head.events));
    setText(cells.duration, durationOf(head) === null ? "open" : formatDuration(durationOf(head)));
    setText(cells.channel, shorten(channelOf(head) || "", 60));
    fillMarks(cells.marks, this.findingsOf(head), isNarrow ? 0 : 1);
  }
}

/** A text as a condition of a filter. */
function quoted(text) {
  return `"${text.replace(/[\\"]/g, "\\$&")}"`;
}

function durationOf(head) {
  return head.ended_ns === null ? null : head.ended_ns - head.time_ns;
}

function compare(a, b) {
  return a < b ? -1 : a > b ? 1 : 0;
}

function groupByExchange(findings) {
  const groups = new Map();
  for (const one of findings) {
    if (groups.has(one.exchange)) groups.get(one.exchange).push(one);
    else groups.set(one.exchange, [one]);
  }
  return groups;
}
