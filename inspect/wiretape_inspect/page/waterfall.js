// The waterfall: all exchanges over time, in lanes so that those at the same time do not cover each other.

import { svg } from "./dom.js";
import { endedWell, shortPath } from "./exchange_heads.js";
import { formatCount, formatDuration, printable, worstSeverity } from "./format.js";

const [LANE, GAP, TOP, MOST_LANES] = [6, 2, 3, 6]; // pixels, and lanes
const NARROWEST = 2;

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
      let lane = free.findIndex((time) => time < since);
      if (lane < 0) lane = free.length < MOST_LANES ? free.length : free.indexOf(Math.min(...free));
      free[lane] = Math.max(until, free[lane] ?? 0);
      return { head, since, until, lane };
    });
    this.height = TOP + Math.max(free.length, 1) * (LANE + GAP);
  }

  /** Draw the bars; `findingsOf(head)` colors those with findings, and `selected` is marked. */
  draw(left, width, findingsOf, selected) {
    const paths = new Map();
    const add = (name, shape) => paths.set(name, (paths.get(name) || "") + shape);
    for (const bar of this.bars) {
      const [from, to] = [bar.since, bar.until].map((time) => left + Math.min(Math.max(this.axis.place(time), -0.01), 1.01) * width);
      if (to < left - 3 || from > left + width + 3) continue;
      const y = TOP + bar.lane * (LANE + GAP);
      const shape = `M${from.toFixed(1)} ${y}h${Math.max(to - from, NARROWEST).toFixed(1)}v${LANE}h${-Math.max(to - from, NARROWEST).toFixed(1)}z`;
      add(classOf(bar.head, findingsOf(bar.head)), shape);
      if (bar.head === selected) add("selected", `M${(from - 1.5).toFixed(1)} ${y - 1.5}h${(Math.max(to - from, NARROWEST) + 3).toFixed(1)}v${LANE + 3}h${-(Math.max(to - from, NARROWEST) + 3).toFixed(1)}z`);
    }
    this.svg.setAttribute("height", this.height);
    this.svg.setAttribute("width", width + 2 * left);
    this.svg.setAttribute("aria-label", `${formatCount(this.bars.length, "exchange")} over time. The list of exchanges has all of them.`);
    this.svg.replaceChildren(...[...paths].map(([name, shapes]) => svg("path", { class: `bar ${name}`, d: shapes })));
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

function classOf(head, findings) {
  if (findings.length) return worstSeverity(findings);
  if (head.status === null || head.status >= 400 || !endedWell(head)) return "bad";
  return head.stream ? "stream" : "request";
}

/** What a bar stands for, in one line. */
export function barText(head) {
  const parts = [`#${head.exchange} ${head.method} ${shortPath(head, true)}`, head.status === null ? "no response" : String(head.status)];
  if (head.ended_ns !== null) parts.push(formatDuration(head.ended_ns - head.time_ns));
  return printable(parts.join(" · "));
}
