// The time strip: the density of events with idle time folded, tool calls as bars, findings as marks, and the cursor.

import { element, onNextFrame, svg } from "./dom.js";
import { formatCount, formatDuration, formatNumber, formatTime, shorten, worstSeverity } from "./format.js";

const STRIP = { least: 45, top: 10, density: 22, lanes: 3, lane: 5, side: 12, times: 12 };
/** What a file without times was imported with is shorter: its observations are a nanosecond apart. */
const SHORTEST_NS = 100000;
const TICK = { apart: 140, gap: 16, letter: 6 }; // pixels: the usual distance, the smallest gap, the width of a letter

/** An overview without pauses and tool calls, for a stream whose overview is still being made. */
export function partialOverview({ head, rows }) {
  const last = rows.findLast((row) => row.time_ns);
  const began = head.time_ns;
  const ended = Math.max(head.ended_ns || (last && (last.until_ns || last.time_ns)) || began, began);
  const axis = [{ since_ns: began, until_ns: ended, folded: false, begin: 0, end: 1 }];
  return { exchange: head.exchange, began_ns: began, ended_ns: ended, axis, silences: [], calls: [], call_count: 0, open_call_count: 0, partial: true };
}

export class TimeStrip {
  constructor(host, { timeline, chosen }) {
    Object.assign(this, { host, timeline, chosen, overview: null, cursor: null });
    this.svg = svg("svg", { class: "strip-svg", role: "img", focusable: "false", height: STRIP.least });
    this.label = element("span", { class: "strip-time", hidden: true, "aria-hidden": "true" });
    host.replaceChildren(this.svg, this.label);
    this.draw = onNextFrame(() => this.drawNow());
    this.svg.addEventListener("click", (event) => this.click(event));
    this.svg.addEventListener("pointermove", (event) => this.hover(event));
    this.svg.addEventListener("pointerleave", () => this.hover(null));
    new ResizeObserver(this.draw).observe(host);
  }

  /** Show an overview; it is drawn again only if something has changed. */
  show(overview, timeline) {
    const name = `${timeline.head.exchange}/${timeline.rows.length}/${timeline.events}/${timeline.findings}/${timeline.done}`;
    this.host.hidden = overview.ended_ns - overview.began_ns < SHORTEST_NS;
    const same = this.overview === overview || (overview.partial && this.overview && this.overview.partial);
    if (same && this.name === name) return;
    this.host.classList.toggle("partial", Boolean(overview.partial));
    Object.assign(this, { overview, timeline, name });
    // While rows are loaded, drawing a few times a second is enough.
    if (this.timer && !timeline.done) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.timer = 0; this.drawNow(); }, this.drawn && !timeline.done ? 250 : 0);
  }

  /** Set the cursor. */
  setCursor(timeNs) {
    this.cursor = timeNs;
    if (this.overview && this.line) this.placeLine();
  }

  get width() {
    return Math.max(this.host.clientWidth - 2 * STRIP.side, 1);
  }

  /** The x coordinate of a time. */
  place(timeNs) {
    const axis = this.overview.axis;
    if (!axis.length) return STRIP.side;
    let low = 0, high = axis.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (axis[middle].until_ns < timeNs) low = middle + 1;
      else high = middle;
    }
    const piece = axis[low];
    const part = (timeNs - piece.since_ns) / Math.max(piece.until_ns - piece.since_ns, 1);
    const within = piece.begin + (piece.end - piece.begin) * Math.min(Math.max(part, 0), 1);
    return STRIP.side + within * this.width;
  }

  /** The time at an x coordinate. */
  time(x) {
    const at = Math.min(Math.max((x - STRIP.side) / this.width, 0), 1);
    const piece = this.overview.axis.find((one) => at <= one.end) || this.overview.axis.at(-1);
    if (!piece) return this.overview.began_ns;
    const part = (at - piece.begin) / Math.max(piece.end - piece.begin, 1e-12);
    return piece.since_ns + part * (piece.until_ns - piece.since_ns);
  }

  drawNow() {
    if (!this.overview || this.host.hidden || !this.host.clientWidth) return;
    const bars = this.bars();
    this.tall = Math.max(STRIP.top + STRIP.density + 6 + this.lanes * (STRIP.lane + 2), STRIP.least) + STRIP.times;
    this.svg.setAttribute("width", this.host.clientWidth);
    this.svg.setAttribute("height", this.tall);
    this.svg.setAttribute("aria-label", this.description());
    this.line = svg("line", { class: "cursor", y1: 0, y2: this.tall - STRIP.times });
    this.svg.replaceChildren(...this.folds(), this.density(), ...bars, ...this.times(), ...this.marks(), this.line);
    this.placeLine();
    this.drawn = true;
  }

  placeLine() {
    const x = this.cursor === null ? -10 : Math.round(this.place(this.cursor)) + 0.5;
    this.line.setAttribute("x1", x);
    this.line.setAttribute("x2", x);
  }

  folds() {
    const base = STRIP.top + STRIP.density;
    const parts = [svg("line", { class: "base", x1: STRIP.side, x2: STRIP.side + this.width, y1: base + 0.5, y2: base + 0.5 })];
    for (const piece of this.overview.axis) {
      if (!piece.folded) continue;
      const [from, to] = [STRIP.side + piece.begin * this.width, STRIP.side + piece.end * this.width];
      parts.push(svg("rect", { class: "fold", x: from, width: Math.max(to - from, 1), y: STRIP.top, height: STRIP.density }));
      const label = formatDuration(piece.until_ns - piece.since_ns);
      if (to - from < label.length * 6 + 4) continue;
      const text = svg("text", { class: "fold-text", x: (from + to) / 2, y: base - 8, "text-anchor": "middle" });
      text.textContent = label;
      parts.push(text);
    }
    return parts;
  }

  /** The times of the beginning and the end, and round times between them if there is room. */
  times() {
    const { began_ns, ended_ns } = this.overview;
    const [first, last] = [STRIP.side, STRIP.side + this.width];
    const parts = [...this.tick(first, formatTime(began_ns), "start"), ...this.tick(last, formatTime(ended_ns), "end")];
    let free = first + formatTime(began_ns).length * TICK.letter + TICK.gap;
    const until = last - formatTime(ended_ns).length * TICK.letter - TICK.gap;
    for (const [timeNs, label] of this.roundTimes()) {
      const [x, half] = [this.place(timeNs), (label.length * TICK.letter) / 2];
      if (x - half < free || x + half > until) continue;
      parts.push(...this.tick(x, label, "middle"));
      free = x + half + TICK.gap;
    }
    return parts;
  }

  tick(x, label, anchor) {
    const text = svg("text", { class: "tick-text", x, y: this.tall - 3, "text-anchor": anchor });
    text.textContent = label;
    const at = Math.round(x) + 0.5;
    return [svg("line", { class: "tick", x1: at, x2: at, y1: this.tall - STRIP.times - 4, y2: this.tall - STRIP.times }), text];
  }

  /** Round times (steps of 1, 2 or 5) outside the folds, each with its label. */
  roundTimes() {
    const pieces = this.overview.axis.filter((piece) => !piece.folded);
    const least = pieces.reduce((sum, piece) => sum + piece.until_ns - piece.since_ns, 0) / Math.max(this.width / TICK.apart, 1);
    const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= least);
    const digits = Math.max(0, 9 - Math.floor(Math.log10(step)));
    const found = [];
    for (const piece of pieces) {
      for (let time = Math.ceil(piece.since_ns / step) * step; time <= piece.until_ns; time += step) found.push([time, `${(time / 1e9).toFixed(digits)}s`]);
    }
    return found;
  }

  density() {
    const step = 3;
    const bins = new Float64Array(Math.ceil(this.width / step) + 1);
    const put = (timeNs, number) => { bins[Math.floor((this.place(timeNs) - STRIP.side) / step)] += number; };
    for (const row of this.timeline.rows) {
      if (row.row === "event") put(row.time_ns, 1);
      else if (row.row === "deltas") this.spread(row, put);
    }
    const most = Math.max(...bins, 1);
    const base = STRIP.top + STRIP.density;
    let path = "";
    bins.forEach((number, at) => {
      if (!number) return;
      const height = Math.max((Math.log1p(number) / Math.log1p(most)) * STRIP.density, 2);
      path += `M${STRIP.side + at * step} ${base}v${-height.toFixed(1)}h${step - 1}v${height.toFixed(1)}z`;
    });
    return svg("path", { class: "density", d: path });
  }

  /** Spread a run of deltas over its time. */
  spread(row, put) {
    const pieces = Math.min(row.count, 24);
    for (let at = 0; at < pieces; at += 1) {
      put(row.time_ns + ((row.until_ns - row.time_ns) * at) / Math.max(pieces - 1, 1), row.count / pieces);
    }
  }

  /** The tool calls of this exchange, each in a free lane. */
  bars() {
    const number = this.overview.exchange;
    const free = new Array(STRIP.lanes).fill(-Infinity);
    const parts = [];
    this.lanes = 0;
    for (const call of this.overview.calls) {
      const from = call.began && call.began.exchange === number ? this.place(call.began.time_ns) : STRIP.side;
      const to = call.ended && call.ended.exchange === number ? this.place(call.ended.time_ns) : STRIP.side + this.width;
      const lane = free.findIndex((until) => until < from);
      if (lane < 0) continue;
      this.lanes = Math.max(this.lanes, lane + 1);
      free[lane] = Math.max(to, from + 3) + 2;
      const y = STRIP.top + STRIP.density + 4 + lane * (STRIP.lane + 2);
      const bar = { class: call.ended ? "tool" : "tool open", x: from, width: Math.max(to - from, 3), y, height: STRIP.lane, rx: 2 };
      const title = svg("title");
      title.textContent = `tool call ${shorten(call.id, 60)} ${shorten(call.name, 60)} · ${call.ended ? formatDuration(call.ended.time_ns - (call.began || call.ended).time_ns) : "still open"}`;
      parts.push(svg("rect", bar, title));
    }
    return parts;
  }

  marks() {
    const parts = [];
    const places = new Map();
    for (const row of this.timeline.rows) {
      if (!row.findings || !row.findings.length) continue;
      const time = row.row === "pause" ? row.until_ns : row.time_ns === null ? this.overview.ended_ns : row.time_ns;
      const x = Math.round(this.place(time) / 3) * 3;
      places.set(x, [...(places.get(x) || []), ...row.findings].slice(0, 20));
    }
    for (const [x, found] of places) {
      const title = svg("title");
      title.textContent = found.map((one) => `${one.code} ${one.severity}`).join(", ");
      parts.push(svg("path", { class: `finding ${worstSeverity(found)}`, d: `M${x - 4.5} 1.5h9l-4.5 7z` }, title));
    }
    return parts;
  }

  /** A description of the strip for screen readers. */
  description() {
    const { overview, timeline } = this;
    const parts = [`${formatDuration(overview.ended_ns - overview.began_ns)}`, formatCount(timeline.events, "event")];
    if (overview.silences.length) parts.push(`${formatCount(overview.silences.length, "pause")} folded, the longest ${formatDuration(Math.max(...overview.silences.map((one) => one.until_ns - one.since_ns)))}`);
    if (overview.partial) parts.push("pauses and tool calls are not known yet");
    else parts.push(formatCount(overview.call_count, "tool call") + (overview.open_call_count ? `, ${formatNumber(overview.open_call_count)} still open` : ""));
    parts.push(formatCount(timeline.findings, "finding"));
    return `Time: ${parts.join(" · ")}. The timeline lists all of it.`;
  }

  click(event) {
    if (this.overview) this.chosen(this.time(event.clientX - this.svg.getBoundingClientRect().left));
  }

  hover(event) {
    this.label.hidden = !event || !this.overview;
    if (this.label.hidden) return;
    const x = event.clientX - this.svg.getBoundingClientRect().left;
    this.label.textContent = formatTime(this.time(x));
    this.label.style.left = `${Math.min(Math.max(x, 30), this.host.clientWidth - 40)}px`;
  }
}
