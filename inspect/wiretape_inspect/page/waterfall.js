// The waterfall: all exchanges over time, in lanes so that those at the same time do not cover each other.

import { svg } from "./dom.js";
import { isCutOff, shortPath } from "./exchange_heads.js";
import { SEVERITY_SIGNS, formatCount, formatDuration, printable } from "./format.js";

const [LANE, GAP, TOP, MOST_LANES] = [6, 2, 3, 4]; // pixels, and lanes
const [NARROWEST, LEAST_SHARE, MARK] = [4, 0.004, 3]; // of a bar in pixels and of the axis; of a mark in pixels
const LAYERS = ["stream", "request", "bad", "cut", "finding note", "finding warning", "finding error", "selected"];

export class Waterfall {
  constructor(axis) {
    Object.assign(this, { axis, bars: [], height: 0 });
    this.svg = svg("svg", { class: "waterfall", role: "img", focusable: "false" });
  }

  /** Show exchanges; those without an end last until `ended`. */
  show(exchanges, ended) {
    const free = [];
    this.bars = exchanges.map((head) => {
      const [since, until] = [head.time_ns, head.ended_ns ?? Math.max(ended, head.time_ns)];
      const [begin, end] = [since, until].map((time) => this.axis.shareOf(time));
      let lane = free.findIndex((share) => share < begin);
      if (lane < 0) lane = free.length < MOST_LANES ? free.length : free.indexOf(Math.min(...free));
      free[lane] = Math.max(end, begin + LEAST_SHARE, free[lane] ?? 0);
      return { head, since, until, lane };
    });
    this.height = TOP + Math.max(free.length, 1) * (LANE + GAP);
  }

  /** Draw the bars: a red one failed, a red end was cut off, and findings of `findingsOf(head)` are marks at their times. */
  draw(left, width, findingsOf, selected) {
    const layers = new Map(LAYERS.map((name) => [name, new Set()]));
    const place = (time) => left + Math.min(Math.max(this.axis.place(time), -0.01), 1.01) * width;
    const add = (name, x, y, wide, tall) => layers.get(name).add(`M${x.toFixed(1)} ${y}h${wide.toFixed(1)}v${tall}h${(-wide).toFixed(1)}z`);
    for (const { head, since, until, lane } of this.bars) {
      const from = place(since);
      const wide = Math.max(place(until) - from, NARROWEST);
      if (from + wide < left - 3 || from > left + width + 3) continue;
      const y = TOP + lane * (LANE + GAP);
      const isBad = head.status === null || head.status >= 400;
      add(isBad ? "bad" : head.stream ? "stream" : "request", from, y, wide, LANE);
      if (!isBad && isCutOff(head)) add("cut", from + wide - MARK, y, MARK, LANE);
      for (const { severity, time_ns: time } of findingsOf(head)) {
        const x = Math.min(Math.max(Math.round(place(time)), from), from + wide) - 1;
        add(`finding ${SEVERITY_SIGNS[severity] ? severity : "error"}`, x, y - 2, MARK, LANE + 3);
      }
      if (head === selected) add("selected", from - 1.5, y - 1.5, wide + 3, LANE + 3);
    }
    this.svg.setAttribute("height", this.height);
    this.svg.setAttribute("width", width + 2 * left);
    this.svg.setAttribute("aria-label", `${formatCount(this.bars.length, "exchange")} over time. The list of exchanges has all of them.`);
    const drawn = [...layers].filter(([, shapes]) => shapes.size);
    this.svg.replaceChildren(...drawn.map(([name, shapes]) => svg("path", { class: `bar ${name}`, d: [...shapes].join("") })));
  }

  /** The exchange at a place, the shortest if there are several; null if there is none.  `pixel` is one as a place. */
  at(place, y, pixel) {
    const lane = Math.floor((y - TOP + GAP / 2) / (LANE + GAP));
    let [found, shortest] = [null, Infinity];
    for (const bar of this.bars) {
      const [from, to] = [this.axis.place(bar.since), this.axis.place(bar.until)];
      if (bar.lane !== lane || place < from - pixel || place > Math.max(to, from + NARROWEST * pixel) + pixel) continue;
      if (to - from < shortest) [found, shortest] = [bar.head, to - from];
    }
    return found;
  }
}

/** What a bar stands for, in one line. */
export function barText(head) {
  const parts = [`#${head.exchange} ${head.method} ${shortPath(head)}`, head.status === null ? "no response" : String(head.status)];
  if (head.ended_ns !== null) parts.push(formatDuration(head.ended_ns - head.time_ns));
  return printable(parts.join(" · "));
}
