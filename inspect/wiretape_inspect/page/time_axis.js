// The time axis that the waterfall and the strip share: long idle times are folded, and a window of it is shown.
//
// A position on the whole axis is a share from 0 to 1.

const FOLD_NS = 1e9;
const SMALLEST_WINDOW = 1e-7;

export class TimeAxis {
  /** `changed()` is called when the window has changed. */
  constructor(changed) {
    Object.assign(this, { changed, pieces: [], from: 0, to: 1, began: 0, ended: 0 });
  }

  /** Whether only a part of the axis is shown. */
  get isZoomed() {
    return this.from > 0 || this.to < 1;
  }

  /** Set the time of the axis and its idle times, `[[since, until]]`; the window keeps its times. */
  set(began, ended, idle) {
    const name = JSON.stringify([began, ended, idle]);
    if (this.name === name) return;
    const shown = this.pieces.length && this.isZoomed ? [this.timeOf(this.from), this.timeOf(this.to)] : null;
    Object.assign(this, { name, began, ended, pieces: dividedTime(began, ended, joined(idle, began, ended)) });
    if (shown) [this.from, this.to] = shown.map((time) => this.shareOf(time));
    if (this.to <= this.from) [this.from, this.to] = [0, 1];
  }

  shareOf(timeNs) {
    const { pieces } = this;
    if (!pieces.length) return 0;
    let low = 0, high = pieces.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (pieces[middle].until < timeNs) low = middle + 1;
      else high = middle;
    }
    const piece = pieces[low];
    const part = (timeNs - piece.since) / Math.max(piece.until - piece.since, 1);
    return piece.begin + (piece.end - piece.begin) * Math.min(Math.max(part, 0), 1);
  }

  timeOf(share) {
    const at = Math.min(Math.max(share, 0), 1);
    const piece = this.pieces.find((one) => at <= one.end) || this.pieces.at(-1);
    if (!piece) return this.began;
    const part = (at - piece.begin) / Math.max(piece.end - piece.begin, 1e-12);
    return piece.since + Math.min(part, 1) * (piece.until - piece.since);
  }

  /** Where a time is in the window: 0 at its left, 1 at its right; less or more outside. */
  place(timeNs) {
    return (this.shareOf(timeNs) - this.from) / (this.to - this.from);
  }

  /** The time at a place in the window. */
  time(place) {
    return this.timeOf(this.from + place * (this.to - this.from));
  }

  /** Show the window from one place of the current window to another. */
  zoom(begin, end) {
    const wide = this.to - this.from;
    this.show(this.from + begin * wide, this.from + end * wide);
  }

  /** Show a time with a little of what is around it. */
  zoomTo(sinceNs, untilNs) {
    const [from, to] = [this.shareOf(sinceNs), this.shareOf(untilNs)];
    const margin = Math.max((to - from) * 0.04, SMALLEST_WINDOW);
    this.show(from - margin, to + margin);
  }

  pan(places) {
    const wide = this.to - this.from;
    const from = Math.min(Math.max(this.from + places * wide, 0), 1 - wide);
    this.show(from, from + wide);
  }

  fit() {
    this.show(0, 1);
  }

  show(from, to) {
    const wide = Math.min(Math.max(to - from, SMALLEST_WINDOW), 1);
    const begin = Math.min(Math.max(from, 0), 1 - wide);
    if (begin === this.from && begin + wide === this.to) return;
    Object.assign(this, { from: begin, to: Math.min(begin + wide, 1) });
    this.changed();
  }
}

/** Idle times in order, joined where they overlap, each at least a second long. */
function joined(idle, began, ended) {
  const found = [];
  for (const [since, until] of [...idle].sort((a, b) => a[0] - b[0])) {
    const last = found.at(-1);
    if (last && since <= last[1]) last[1] = Math.max(last[1], until);
    else found.push([Math.max(since, began), until]);
  }
  return found.map(([since, until]) => [since, Math.min(until, ended)]).filter(([since, until]) => until - since >= FOLD_NS);
}

/** The whole time in pieces; an idle one is at most as wide as a twentieth of all other time, or as a second. */
function dividedTime(began, ended, idle) {
  const cuts = [...new Set([began, ended, ...idle.flat()])].sort((a, b) => a - b);
  const folds = new Set(idle.map(([since]) => since));
  const pieces = cuts.slice(1).map((until, at) => ({ since: cuts[at], until, folded: folds.has(cuts[at]) }));
  const busy = pieces.reduce((sum, piece) => sum + (piece.folded ? 0 : piece.until - piece.since), 0);
  const widest = Math.max(busy / 20, FOLD_NS);
  let wide = 0;
  for (const piece of pieces) {
    piece.begin = wide;
    wide += piece.folded ? Math.min(piece.until - piece.since, widest) : piece.until - piece.since;
    piece.end = wide;
  }
  for (const piece of pieces) {
    piece.begin /= wide;
    piece.end /= wide;
  }
  return pieces;
}
