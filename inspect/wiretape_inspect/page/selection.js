// The selected item: finds what the view selects among the items of the timeline, and shows it.

import { isSameFinding } from "./format.js";
import { showError } from "./notices.js";
import { locationOf } from "./timeline.js";

export class Selection {
  constructor(app) {
    this.app = app;
    this.item = null; // the selected item; null if the filter hides it
    this.isMoved = true; // whether to scroll to the item
    this.opens = null; // for an event to go to: open its run ("runs"), or only if it is not the first of it ("within")
    this.finding = null; // a finding without an event, whose row is still to be found
  }

  /** Select the item that the view names, and show its details. */
  update() {
    const { app } = this;
    const { timeline, list } = app;
    const { e, r } = app.view;
    let index = list.selected;
    if (!this.isSelected(list.items[index])) {
      index = r !== null ? timeline.indexOfRow(r, e) : -1;
      // A row that a filter made of a run disappears with the filter; its event does not.
      if (index < 0 && e !== null) index = timeline.indexOfEvent(e);
    }
    if (index >= 0) {
      const opens = this.opensRun(list.items[index], e);
      this.opens = null;
      if (opens) {
        app.navigation.openRunOf(list.items[index], e);
        return;
      }
    }
    const reveal = this.isMoved && index >= 0;
    if (this.isMoved && index < 0 && timeline.filter) list.scroller.scrollTop = 0;
    if (reveal || (e === null && r === null)) this.isMoved = false;
    list.select(index, { reveal });
    this.findRowOfFinding();
    this.item = list.items[index] || null;
    const hidden = this.item ? null : this.hiddenItem();
    if (!this.item && !hidden && e !== null) this.reportMissing(e);
    if (!app.paneList) app.detail.show(this.item, hidden);
    const row = this.item && (timeline.single.get(this.item.event) || this.item.row);
    app.strip.setLines({ cursor: row ? row.time_ns : null });
  }

  isSelected(item) {
    if (!item) return false;
    const { e, r } = this.app.view;
    const location = locationOf(item, this.app.timeline);
    return location.e === e && location.r === r && (e !== null || r !== null);
  }

  /** Whether the item is a closed run that is to be opened at an event.  A link to a run names its first event. */
  opensRun({ kind, row }, event) {
    if (!this.opens || event === null || kind !== "row" || row.row !== "deltas" || this.app.timeline.isOpen(row)) return false;
    return this.opens === "runs" || event !== row.event;
  }

  /** The selected item if the filter hides it. */
  hiddenItem() {
    const { e, r } = this.app.view;
    const { rows } = this.app.timeline;
    const contains = (row) => row.event <= e && e <= (row.last_event ?? row.event);
    const at = r !== null ? r : e !== null ? rows.findIndex(contains) : -1;
    return rows[at] && rows[at].row !== "exchange" ? { kind: "row", row: rows[at], at } : null;
  }

  /** Report that a link names an event that does not exist; a report may have omitted it. */
  reportMissing(event) {
    const { timeline } = this.app;
    const name = `${timeline.head.exchange}:${event}`;
    if (!timeline.done || this.missing === name || timeline.rows.some((row) => row.row === "omitted")) return;
    this.missing = name;
    showError(`Exchange ${timeline.head.exchange} has no event ${event}.`);
  }

  /** Find the row of a finding without an event, once the rows are there. */
  findRowOfFinding() {
    const { timeline } = this.app;
    const found = this.finding;
    if (!found || found.exchange !== timeline.head.exchange) return;
    const at = timeline.rows.findIndex((row) => (row.findings || []).some((one) => isSameFinding(one, found)));
    if (at < 0) return;
    this.finding = null;
    // The finding about an exchange that is not a stream stands beside its response.
    this.app.go({ r: timeline.head.stream ? at : at + 1, e: null });
  }
}
