// The times: the waterfall of all exchanges, and below it, on the same axis, the strip of the exchange that is shown:
// the density of its events, its entities as bars, its findings as marks, and the cursor.

import { clockTime, originOfTimes } from "./clock.js";
import { element, onNextFrame, svg } from "./dom.js";
import { formatCount, formatDuration, formatNumber, nameOfCall, printable, shorten, worstSeverity } from "./format.js";
import { TimeAxis } from "./time_axis.js";
import { innerEntities, labelOf, vocabularyOf, withFailure } from "./vocabulary.js";
import { Waterfall, barText } from "./waterfall.js";

const STRIP = { least: 60, top: 10, density: 18, lanes: 3, lane: 12, side: 12, times: 14, letter: 6, button: 64 };
const TICK = { apart: 140, gap: 16, last: 24 }; // pixels: the usual distance of times, the smallest gaps between labels and before the last
/** A file without times is imported with less: its observations are a nanosecond apart. */
const SHORTEST_NS = 100000;
const BIN = 3; // pixels
const CLICK = 4; // pixels: a shorter drag is a click
const SMALL = 0.12; // an exchange that takes less of the window is zoomed to when it is opened

export class TimeStrip {
  /** `findingsOf(head)` returns findings. */
  constructor(host, navigation, findingsOf) {
    Object.assign(this, { host, navigation, findingsOf, timeline: null, overview: null, cursor: null, playhead: null, head: null, exchanges: [], width: 1 });
    this.draw = onNextFrame(() => this.drawNow());
    this.axis = new TimeAxis(() => { this.isStale = true; this.hover(null); this.draw(); });
    this.waterfall = new Waterfall(this.axis);
    this.svg = svg("svg", { class: "strip-svg", role: "img", focusable: "false", height: STRIP.least });
    this.ticks = svg("svg", { class: "ticks", height: STRIP.times, "aria-hidden": "true" });
    this.label = element("span", { class: "strip-time", hidden: true, "aria-hidden": "true" });
    this.range = element("span", { class: "strip-range", hidden: true });
    this.window = element("span", { class: "strip-window", "aria-hidden": "true" });
    this.fitButton = element("button", { type: "button", class: "plain strip-fit", text: "Show all", title: "Show the whole recording (Z, or double-click)", hidden: true, onclick: () => this.axis.fit() });
    host.replaceChildren(this.window, this.waterfall.svg, this.svg, this.ticks, this.range, this.label, this.fitButton);
    this.watchPointer();
    new ResizeObserver(this.draw).observe(host);
  }

  watchPointer() {
    const { host } = this;
    let from = null;
    host.addEventListener("pointerdown", (event) => {
      if (event.button || event.target.closest("button")) return;
      host.setPointerCapture(event.pointerId);
      from = event.clientX;
      this.pressed = event.target.dataset.event;
    });
    host.addEventListener("pointermove", (event) => {
      this.hover(event);
      if (from !== null) this.showRange(from, event.clientX);
    });
    host.addEventListener("pointerup", (event) => {
      const begin = from;
      from = null;
      this.range.hidden = true;
      if (begin === null) return;
      if (Math.abs(event.clientX - begin) < CLICK) this.click(event);
      else this.axis.zoom(...[begin, event.clientX].map((x) => this.placeOf(x)).sort((a, b) => a - b));
    });
    host.addEventListener("pointercancel", () => { from = null; this.range.hidden = true; });
    host.addEventListener("pointerleave", () => this.hover(null));
    host.addEventListener("dblclick", () => this.axis.fit());
    host.addEventListener("wheel", (event) => {
      event.preventDefault();
      if (event.ctrlKey) this.zoomAround(this.placeOf(event.clientX), event.deltaY > 0 ? 1.25 : 0.8);
      else this.axis.pan((event.deltaX || event.deltaY) / this.width);
    }, { passive: false });
  }

  /** Zoom so that the window is `factor` times as wide, and a place stays where it is. */
  zoomAround(place, factor) {
    this.axis.zoom(place - place * factor, place + (1 - place) * factor);
  }

  /** Zoom around the cursor, or around the middle. */
  zoomBy(factor) {
    const place = this.cursor === null ? 0.5 : this.axis.place(this.cursor);
    this.zoomAround(place >= 0 && place <= 1 ? place : 0.5, factor);
  }

  /** Zoom to the exchange that is shown. */
  zoomToExchange() {
    if (this.head) this.axis.zoomTo(this.head.time_ns, this.head.ended_ns ?? this.axis.ended);
  }

  /** Show the exchanges of the recording; with `head`, a change of the exchange that is shown. */
  showExchanges(exchanges, head) {
    const isOpened = head && (!this.head || this.head.exchange !== head.exchange);
    Object.assign(this, { exchanges, head: head || null });
    if (isOpened) this.overview = this.timeline = null;
    this.setAxis();
    if (isOpened && this.isHidden !== true) this.reveal();
    this.draw();
  }

  /** Zoom to the exchange that was opened if it is outside the window, or if it is a stream and too small there. */
  reveal() {
    const [from, to] = [this.head.time_ns, this.head.ended_ns ?? this.axis.ended].map((time) => this.axis.place(time));
    if (to < 0 || from > 1 || (this.head.stream && to - from < SMALL)) this.zoomToExchange();
  }

  setAxis() {
    const { exchanges, overview } = this;
    this.isStale = true;
    const began = Math.min(...exchanges.map((head) => head.time_ns));
    const ended = exchanges.reduce((last, head) => Math.max(last, head.ended_ns ?? head.time_ns), overview ? overview.ended_ns : 0);
    const idle = overview ? overview.silences.map(([since, until]) => [since, until]) : [];
    this.isHidden = !exchanges.length || ended - began < SHORTEST_NS;
    this.host.hidden = this.isHidden;
    if (this.isHidden) return;
    this.axis.set(began, ended, [...idle, ...timesWithoutExchanges(exchanges)]);
    this.waterfall.show(exchanges, ended);
  }

  /** Show the overview of the exchange; it is drawn again only if something has changed. */
  show(overview, timeline) {
    const name = `${timeline.head.exchange}/${timeline.rows.length}/${timeline.events}/${timeline.findings}/${timeline.done}`;
    if (this.overview === overview && this.name === name) {
      // A filter changes only the density, and may be over very many rows.
      if (this.shownItems !== timeline.items && this.densityBox && this.isStrip) this.densityBox.replaceChildren(...this.density());
      return;
    }
    // Rows without findings do not change the waterfall.
    this.isStale ||= this.overview !== overview || this.findings !== timeline.findings;
    Object.assign(this, { overview, timeline, name, findings: timeline.findings });
    // While rows are loaded, drawing a few times a second is enough.
    if (this.timer && !timeline.done) return;
    clearTimeout(this.timer);
    const draw = () => { this.timer = 0; if (this.isStale) this.setAxis(); this.draw(); };
    this.timer = setTimeout(draw, this.drawn && !timeline.done ? 250 : 0);
  }

  /** Set the times of lines: of the `cursor`, or of a replay's `playhead`; null for none in this exchange. */
  setLines(times) {
    Object.assign(this, times);
    this.placeLines();
  }

  /** The x coordinate of a time. */
  place(timeNs) {
    return STRIP.side + this.axis.place(timeNs) * this.width;
  }

  /** The place in the window at a coordinate of the screen. */
  placeOf(clientX) {
    return (clientX - this.host.getBoundingClientRect().left - STRIP.side) / this.width;
  }

  get isStrip() {
    return Boolean(this.head && this.head.stream && this.timeline && this.timeline.head.exchange === this.head.exchange);
  }

  drawNow() {
    const { axis, isStrip, host: { clientWidth: wide } } = this;
    if (this.isHidden || !wide) return;
    const width = Math.max(wide - 2 * STRIP.side, 1);
    if (this.isStale || width !== this.width) this.waterfall.draw(STRIP.side, width, this.findingsOf, this.head);
    Object.assign(this, { width, isStale: false });
    const bars = isStrip ? this.bars() : [];
    // The strip has room for the usual bars before they are known, and never becomes less tall: what is below does not move.
    const stream = this.exchanges.find((head) => head.stream);
    const usual = stream && innerEntities(stream).length ? 1 + STRIP.lanes : 0;
    const tall = STRIP.top + STRIP.density + 4 + Math.max(usual, isStrip ? this.lanes : 0) * (STRIP.lane + 2);
    this.tall = stream ? Math.max(this.tall || STRIP.least, tall) : 0;
    this.svg.setAttribute("width", wide);
    this.svg.setAttribute("height", this.tall);
    this.ticks.setAttribute("width", wide);
    this.line = svg("line", { class: "cursor", y1: 0, y2: this.tall });
    this.playLine = svg("line", { class: "play-cursor", y1: 0, y2: this.tall });
    if (isStrip) {
      this.svg.setAttribute("aria-label", this.overview ? this.description() : "Time");
      this.densityBox = svg("g", {}, ...this.density());
      this.svg.replaceChildren(...this.folds(), this.densityBox, ...bars, ...this.marks(), this.playLine, this.line);
    } else this.svg.replaceChildren(this.line, svg("text", { class: "tick-text", x: STRIP.side, y: 26 }, this.head && !this.head.stream ? "not an event stream" : ""));
    this.ticks.replaceChildren(...this.times());
    this.removeLabelsWithoutRoom();
    this.host.classList.toggle("zoomed", axis.isZoomed);
    this.window.hidden = this.fitButton.hidden = !axis.isZoomed;
    this.window.style.left = `${STRIP.side + axis.from * this.width}px`;
    this.window.style.width = `${Math.max((axis.to - axis.from) * this.width, 3)}px`;
    this.placeLines();
    this.drawn = true;
  }

  placeLines() {
    if (!this.line) return;
    for (const [line, time] of [[this.line, this.cursor], [this.playLine, this.playhead]]) {
      const x = time === null || !this.axis.pieces.length ? -10 : Math.round(this.place(time)) + 0.5;
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
  }

  folds() {
    const base = STRIP.top + STRIP.density;
    const parts = [svg("line", { class: "base", x1: STRIP.side, x2: STRIP.side + this.width, y1: base + 0.5, y2: base + 0.5 })];
    for (const piece of this.axis.pieces) {
      if (!piece.folded) continue;
      const [from, to] = [this.place(piece.since), this.place(piece.until)];
      if (to < 0 || from > this.width + STRIP.side) continue;
      parts.push(svg("rect", { class: "fold", x: from, width: Math.max(to - from, 1), y: STRIP.top, height: STRIP.density }));
      parts.push(svg("text", { class: "fold-text", x: (from + to) / 2, y: base - 8, "text-anchor": "middle" }, formatDuration(piece.until - piece.since)));
    }
    return parts;
  }

  /** The times at both ends of the window, then the round times between them. */
  times() {
    const [began, ended] = [this.axis.time(0), this.axis.time(1)];
    const digits = ended - began < 1e6 ? 6 : 3;
    return [
      this.tick(STRIP.side, clockTime(began, digits), "start"),
      this.tick(STRIP.side + this.width - (this.axis.isZoomed ? STRIP.button : 0), clockTime(ended, digits), "end"),
      ...this.roundTimes(began, ended).map(([timeNs, label]) => this.tick(this.place(timeNs), label, "middle")),
    ];
  }

  tick(x, label, anchor) {
    const text = svg("text", { class: "tick-text", x, y: STRIP.times - 3, "text-anchor": anchor }, label);
    const at = Math.round(x) + 0.5;
    return svg("g", {}, svg("line", { class: "tick", x1: at, x2: at, y1: 0, y2: 4 }), text);
  }

  /** Remove the labels that would touch another one or leave their fold.  How wide they are depends on the browser's fonts. */
  removeLabelsWithoutRoom() {
    const box = (node) => node.getBoundingClientRect();
    const ticks = [...this.ticks.children].map((node) => [node, box(node.lastChild)]);
    const folds = [...this.svg.querySelectorAll(".fold-text")].map((node) => [node, box(node), box(node.previousSibling)]);
    const [[, first], [, last], ...round] = ticks;
    let free = first.right + TICK.gap;
    for (const [node, { left, right }] of round) {
      if (left < free || right > last.left - TICK.last) node.remove();
      else free = right + TICK.gap;
    }
    for (const [node, text, fold] of folds) if (text.width + 4 > fold.width) node.remove();
  }

  /** Round times (steps of 1, 2 or 5) outside the folds, each with its label. */
  roundTimes(began, ended) {
    const pieces = this.axis.pieces.filter((piece) => !piece.folded && piece.until > began && piece.since < ended)
      .map((piece) => ({ since: Math.max(piece.since, began), until: Math.min(piece.until, ended) }));
    const least = pieces.reduce((sum, piece) => sum + piece.until - piece.since, 0) / Math.max(this.width / TICK.apart, 1);
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= least);
    const digits = Math.min(Math.max(0, 9 - Math.floor(Math.log10(step))), 9);
    const origin = originOfTimes();
    const found = [];
    for (const piece of pieces) {
      for (let time = Math.ceil((piece.since - origin) / step) * step + origin; time <= piece.until && found.length < 1000; time += step) {
        found.push([time, clockTime(time, digits)]);
      }
    }
    return found;
  }

  /** The density of the events, and in front of it that of those which the filter leaves. */
  density() {
    const { axis, width, timeline: { rows, items, filter } } = this;
    this.shownItems = items;
    const name = [rows.length, axis.from, axis.to, axis.began, axis.ended, axis.pieces.length, width].join();
    // A filter changes what it leaves, not what there is.
    if (this.all?.name !== name || this.all.rows !== rows || !this.timeline.done) this.all = { name, rows, bins: this.bins(rows) };
    const all = this.all.bins;
    const most = Math.max(...all, 1);
    if (!filter) return [this.densityPath(all, most, "density")];
    const found = this.bins(items, (item) => (item.kind === "row" ? item.row : {}));
    return [this.densityPath(all, most, "density others"), this.densityPath(found, most, "density")];
  }

  /** How many events of some rows, or of items with rows, are in each bin of a few pixels. */
  bins(rows, rowOf = (row) => row) {
    const { width, axis } = this;
    const bins = new Float64Array(Math.ceil(width / BIN) + 1);
    const put = (timeNs, number) => {
      const bin = Math.floor((axis.place(timeNs) * width) / BIN);
      if (bin >= 0 && bin < bins.length) bins[bin] += number;
    };
    for (const one of rows) {
      const row = rowOf(one);
      if (row.row === "event") put(row.time_ns, 1);
      else if (row.row === "deltas") {
        // Those of a run are spread over its time.
        const pieces = Math.min(row.count, 24);
        const step = (row.until_ns - row.time_ns) / Math.max(pieces - 1, 1);
        for (let at = 0; at < pieces; at += 1) put(row.time_ns + step * at, row.count / pieces);
      }
    }
    return bins;
  }

  densityPath(bins, most, name) {
    const base = STRIP.top + STRIP.density;
    let path = "";
    bins.forEach((number, at) => {
      if (!number) return;
      const height = Math.max((Math.log1p(number) / Math.log1p(most)) * STRIP.density, 2);
      path += `M${STRIP.side + at * BIN} ${base}v${-height.toFixed(1)}h${BIN - 1}v${height.toFixed(1)}z`;
    });
    return svg("path", { class: name, d: path });
  }

  /** The entities, each in a free lane: those that are in no other one first; failed ones are never left out for others. */
  bars() {
    const parts = [];
    this.lanes = 0;
    if (!this.overview) return parts;
    const { exchange, began_ns: began, ended_ns: ended, entities } = this.overview;
    const { entities: kinds, failures } = vocabularyOf(this.head);
    for (const { name, within } of kinds) {
      const [top, taken] = [this.lanes, Array.from({ length: STRIP.lanes }, () => [])];
      const { failed = [], others = [] } = Object.groupBy(entities[name]?.spans || [], (span) => (failures.includes(span.outcome) ? "failed" : "others"));
      for (const span of [...failed, ...others]) {
        const at = (event, other) => this.place(event && event.exchange === exchange ? event.time_ns : other);
        const [from, to] = [at(span.began, began), at(span.ended, ended)];
        if (to < 0 || from > this.width + STRIP.side) continue;
        const end = Math.max(to, from + 3) + 1;
        const lane = taken.findIndex((places) => places.every((one) => one.end < from || end < one.from));
        if (lane < 0) continue;
        taken[lane].push({ from, end });
        this.lanes = Math.max(this.lanes, top + lane + 1);
        parts.push(...this.bar(span, name, within, [from, to], STRIP.top + STRIP.density + 4 + (top + lane) * (STRIP.lane + 2)));
      }
    }
    return parts;
  }

  /** An entity, with its name and duration if they fit. */
  bar(span, name, within, [from, to], y) {
    const kind = withFailure(`span ${within === null ? "outer" : "inner"}${span.ended ? "" : " open"}`, span.outcome, this.head);
    const duration = span.ended ? (span.began ? formatDuration(span.ended.time_ns - span.began.time_ns) : "began earlier") : "still open";
    const event = within !== null && (span.began || span.ended)?.event;
    const sign = kind.endsWith("failure") ? "✕ " : "";
    const title = shorten(span.name || this.timeline.startOf(name, span.id)?.preview || labelOf(name), 60);
    const texts = [title, nameOfCall(title) || title].map((one) => `${sign}${one} · ${duration}`);
    const label = `${labelOf(name)} ${shorten(span.id, 60)} · ${shorten(span.outcome || "open", 60)} · ${texts[0]}`;
    const bar = svg("rect", { class: kind, x: from, width: Math.max(to - from, 3), y, height: STRIP.lane, rx: 2, "data-label": label, ...(event && { "data-event": event }) });
    const begin = Math.max(from, STRIP.side) + 4;
    const room = (Math.min(to, STRIP.side + this.width) - begin) / STRIP.letter;
    const words = [...texts, sign + duration].find((text) => text.length < room) || "";
    return [bar, svg("text", { class: "span-text", x: begin, y: y + STRIP.lane - 3 }, words)];
  }

  marks() {
    const parts = [];
    const places = new Map();
    for (const row of this.timeline.rows) {
      if (!row.findings || !row.findings.length) continue;
      const time = row.row === "pause" ? row.until_ns : row.time_ns ?? this.overview?.ended_ns ?? this.axis.ended;
      const x = Math.round(this.place(time) / 3) * 3;
      places.set(x, [...(places.get(x) || []), ...row.findings].slice(0, 20));
    }
    for (const [x, found] of places) {
      const label = found.map((one) => `${printable(one.code)} ${one.severity}`).join(", ");
      parts.push(svg("path", { class: `finding ${worstSeverity(found)}`, d: `M${x - 4.5} 1.5h9l-4.5 7z`, "data-label": label }));
    }
    return parts;
  }

  /** A description of the strip for screen readers. */
  description() {
    const { overview, timeline } = this;
    const parts = [`${formatDuration(overview.ended_ns - overview.began_ns)}`, formatCount(timeline.events, "event")];
    if (overview.silences.length) parts.push(`${formatCount(overview.silences.length, "pause")} folded, the longest ${formatDuration(Math.max(...overview.silences.map(([since, until]) => until - since)))}`);
    for (const { name } of innerEntities(this.head)) {
      const { count, open_count: open } = overview.entities[name];
      parts.push(formatCount(count, labelOf(name)) + (open ? `, ${formatNumber(open)} still open` : ""));
    }
    parts.push(formatCount(timeline.findings, "finding"));
    return `Time: ${parts.join(" · ")}. The timeline lists all of it.`;
  }

  /** The exchange of the waterfall under the pointer. */
  headAt(event) {
    const { top, bottom } = this.waterfall.svg.getBoundingClientRect();
    if (event.clientY < top || event.clientY > bottom || !bottom) return null;
    return this.waterfall.at(this.placeOf(event.clientX), event.clientY - top, 1 / this.width);
  }

  click(event) {
    const head = this.headAt(event);
    if (head) this.navigation.goExchange(head.exchange);
    else if (this.pressed) this.navigation.goEvent(this.head.exchange, Number(this.pressed));
    else if (this.isStrip && event.clientY >= this.svg.getBoundingClientRect().top) this.navigation.goTime(this.axis.time(this.placeOf(event.clientX)));
  }

  hover(event) {
    this.label.hidden = !event || this.isHidden;
    if (this.label.hidden) return;
    const head = this.headAt(event);
    const x = event.clientX - this.host.getBoundingClientRect().left;
    const time = clockTime(this.axis.time(this.placeOf(event.clientX)));
    const text = head ? barText(head) : event.target.dataset.label;
    this.label.textContent = text ? `${text} · ${time}` : time;
    const half = this.label.clientWidth / 2;
    this.label.style.left = `${Math.min(Math.max(x, half + 2), this.host.clientWidth - half - 2)}px`;
  }

  showRange(from, to) {
    const { left } = this.host.getBoundingClientRect();
    this.range.hidden = Math.abs(to - from) < CLICK;
    this.range.style.left = `${Math.min(from, to) - left}px`;
    this.range.style.width = `${Math.abs(to - from)}px`;
  }
}

/** The times between the exchanges in which none was open. */
function timesWithoutExchanges(exchanges) {
  const found = [];
  let until = null;
  for (const head of exchanges) {
    if (until !== null && head.time_ns > until) found.push([until, head.time_ns]);
    until = Math.max(until ?? 0, head.ended_ns ?? Infinity);
  }
  return found;
}
