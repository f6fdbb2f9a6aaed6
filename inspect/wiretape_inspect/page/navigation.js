// Going from one place of a recording to another: by steps, by links and by commands.

import { clockTime } from "./clock.js";
import { recordingArgument } from "./copying.js";
import { element } from "./dom.js";
import { connectionPair } from "./exchange_heads.js";
import { formatDuration } from "./format.js";
import { announce, copyText, orShowError, showHint } from "./notices.js";
import { findingsOf, locationOf, openKey } from "./timeline.js";

const MOST_OPEN = 50;

/** A button that goes to an event: `{exchange, event}`. */
export function eventLink({ exchange, event }, navigation) {
  const title = `Go to event ${event} of exchange ${exchange}`;
  const go = () => navigation.goEvent(exchange, event);
  return element("button", { type: "button", class: "link", text: `${exchange}:${event}`, "aria-label": title, title, onclick: go });
}

export class Navigation {
  constructor(app) {
    this.app = app;
    this.isUsed = false; // whether the reader has gone anywhere
  }

  choose(index) {
    const { app } = this;
    const item = app.list.items[index];
    if (!item) return;
    this.isUsed = true;
    app.list.selected = index;
    app.selection.isMoved = true;
    // The headers are those of the exchange, the same for all its events.
    const { tab } = app.view;
    app.go({ ...locationOf(item, app.timeline), tab: tab === "headers" && item.kind !== "side" ? "payload" : tab });
  }

  /** Go to the next item in a direction (1 or -1), or to the next that meets a condition; `name` is what it is called. */
  step(direction, condition, name = "row") {
    if (this.stepInPane(direction)) return;
    const { list } = this.app;
    const from = this.startOfStep(direction);
    const index = condition ? this.find(from, direction, condition) : Math.min(Math.max(from + direction, 0), list.items.length - 1);
    if (index >= 0) this.choose(index);
    else announce(`There is no ${direction > 0 ? "later" : "earlier"} ${name}.`);
  }

  startOfStep(direction) {
    const { list } = this.app;
    if (list.selected >= 0) return list.selected;
    return direction > 0 ? -1 : list.items.length;
  }

  /** The index of the next item in a direction that meets a condition; -1 if none does. */
  find(from, direction, condition) {
    const { items } = this.app.list;
    for (let index = from + direction; items[index]; index += direction) if (condition(items[index])) return index;
    return -1;
  }

  /** Step in the list that replaces the timeline, if there is one. */
  stepInPane(direction) {
    const list = this.app.paneList;
    if (!list) return false;
    const index = Math.min(Math.max(list.selected + direction, 0), list.items.length - 1);
    if (list.items[index]) list.chosen(index, list.items[index], { type: "key" });
    return true;
  }

  /** Go to the next finding in a direction, in this exchange or in others. */
  stepFinding(direction) {
    if (this.stepInPane(direction)) return;
    const { list, timeline, recording, view } = this.app;
    const index = this.find(this.startOfStep(direction), direction, (item) => findingsOf(item, timeline).length > 0);
    if (index >= 0) {
      this.choose(index);
      announce(findingsOf(list.items[index], timeline).map((one) => `${one.severity} ${one.code}: ${one.message}`).join(" "));
      return;
    }
    const others = recording.findings
      .filter((one) => (one.exchange - view.x) * direction > 0)
      .sort((a, b) => (a.exchange - b.exchange || a.time_ns - b.time_ns) * direction);
    if (others.length) this.goFinding(others[0], view.tab);
    else showHint(`No ${direction > 0 ? "later" : "earlier"} finding`);
  }

  goFinding(found, tab = "findings") {
    const { app } = this;
    app.selection.finding = found.event === null ? found : null;
    this.isUsed = true;
    app.list.selected = -1;
    app.go({ x: found.exchange, e: found.event, r: null, q: "", findings: false, diff: false, resume: null, tab }, true);
    app.focusList();
  }

  /** Go to an exchange as a whole: no event is selected. */
  goExchange(number, moveFocus = true) {
    const { app } = this;
    const { x, e, r, resume, findings, diff } = app.view;
    if (number !== x || e !== null || r !== null || resume !== null || findings || diff) {
      this.isUsed = true;
      app.go({ x: number, e: null, r: null, open: [], resume: null, findings: false, diff: false }, true);
    }
    if (moveFocus) app.focusList();
  }

  /** Go to an event; a filter that hides it is cleared, and a closed run that contains it is opened.  Without `push`,
   * the page follows a replay: the browser's back button does not undo it, and runs stay closed. */
  goEvent(exchange, event, push = true) {
    const { app } = this;
    const isHere = exchange === app.view.x;
    const isHidden = isHere && app.timeline.filter && app.timeline.indexOfEvent(event) < 0;
    const view = { x: exchange, e: event, r: null, findings: false, diff: false, resume: null };
    this.isUsed = true;
    Object.assign(app.selection, { isMoved: true, opens: push ? "runs" : null });
    app.go({ ...view, ...(isHere ? {} : { open: [] }), ...(isHidden ? { q: "" } : {}) }, push);
  }

  /** Go to the item nearest to a time. */
  goTime(timeNs) {
    let nearest = -1, least = Infinity;
    this.app.list.items.forEach(({ row }, index) => {
      if (row.time_ns === null) return;
      const isInside = ["deltas", "pause"].includes(row.row) && row.time_ns <= timeNs && timeNs <= row.until_ns;
      const distance = isInside ? 0 : Math.abs(row.time_ns - timeNs);
      if (distance < least) { least = distance; nearest = index; }
    });
    if (nearest >= 0) this.choose(nearest);
  }

  /** Go to the event after the longest silence of the recording. */
  async goLongestSilence() {
    const found = await orShowError(this.app.source.longestSilence());
    if (found === undefined) return;
    const [since, until] = found ? [found.since_ns, found.until_ns] : [];
    const text = found ? `${formatDuration(until - since)} of silence, from ${clockTime(since)} to ${clockTime(until)}` : "The recording has no events";
    if (found) this.goEvent(found.exchange, found.event);
    showHint(text);
  }

  stepExchange(direction) {
    const { exchanges } = this.app.recording;
    const head = exchanges[exchanges.indexOf(this.app.head) + direction];
    if (head) this.goExchange(head.exchange);
  }

  /** Open or close the selected run of deltas or entity; without `open`, change it. */
  toggle(open) {
    const { list, timeline } = this.app;
    const item = list.items[list.selected];
    if (!item || item.kind === "side" || (item.kind === "delta" && open !== false)) return;
    const key = item.kind === "delta" ? `e${item.row.event}` : openKey(item);
    if (!key) return;
    const isOpen = item.kind === "call" ? timeline.open.has(key) : timeline.isOpen(item.row);
    if (open === undefined || open !== isOpen) this.setOpen(key, !isOpen, item);
  }

  setOpen(key, open, item) {
    const { app } = this;
    // An open run is selected by its row, a closed one by its first event.
    const location = open ? { e: null, r: item.at } : { e: item.row.event, r: null };
    if (open && item.row !== app.timeline.rows[item.at]) location.e = item.row.event;
    app.list.selected = -1;
    app.go({ ...location, open: this.openKeys(key, open), ...(open ? {} : { deltas: false }) });
  }

  /** Open the run that contains an event, and select the event. */
  openRunOf(item, event) {
    this.app.list.selected = -1;
    this.app.go({ e: event, r: null, open: this.openKeys(openKey(item), true) });
  }

  /** What is open in the view if a run of deltas or an entity is opened or closed. */
  openKeys(key, open) {
    const others = this.app.view.open.filter((one) => one !== key);
    return open ? [...others, key].slice(-MOST_OPEN) : others;
  }

  /** Compare the stream with the connection before it, or else after it, or go back to the timeline. */
  compare() {
    const { app } = this;
    const pair = connectionPair(app.recording.exchanges, app.head);
    if (app.view.resume !== null) this.leavePane();
    else if (pair) {
      const { x, e, r, open } = app.view;
      this.origin = { x, e, r, open };
      app.go({ x: pair[1].exchange, e: x === pair[1].exchange ? e : null, r: null, resume: pair[0].exchange, findings: false, diff: false }, true);
    } else announce("There is no other stream of this channel to compare with.");
  }

  /** Go back to the timeline; from a comparison, to where it was opened. */
  leavePane() {
    const origin = this.app.view.resume === null ? null : this.origin;
    this.origin = null;
    this.app.go({ ...origin, resume: null, findings: false, diff: false }, true);
  }

  /** Show what differs from the other recording, or go back to the timeline. */
  diff() {
    this.app.go({ diff: !this.app.view.diff, findings: false, resume: null }, true);
  }

  /** Show all findings, or go back to the timeline. */
  showFindings() {
    this.app.go({ findings: !this.app.view.findings, diff: false, resume: null }, true);
  }

  /** Copy the command that shows the selected event in a terminal. */
  copyCommand() {
    const { recording, view } = this.app;
    const place = view.e === null ? `--exchange ${view.x}` : `--at ${view.x}:${view.e}`;
    copyText(`wiretape show ${recordingArgument(recording)} ${place}`, "the command");
  }
}
