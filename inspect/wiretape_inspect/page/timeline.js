// One exchange as a list: its rows, and the items that the filter, open runs of deltas and entities make of them.
//
// An item is {kind, row, at} with `at`, the index of its row among the rows of the exchange.  Its kind is "row";
// "delta", one message (`event`) of an open run; "call", all events of an entity (`call`); or "side", the request or
// the response (`side`) of an exchange that is not a stream.

import { orShowError } from "./notices.js";
import { innerKey, matchesType } from "./vocabulary.js";

const DELTAS_AT_ONCE = 500;

export class Timeline {
  constructor(source, head, changed) {
    Object.assign(this, { source, head, changed, rows: [], items: [], calls: new Map(), shownCalls: new Set(), single: new Map() });
    Object.assign(this, { filter: null, deltas: false, tools: false, open: new Set(), done: false, loading: new Set() });
    this.events = 0; // all messages, including those that a report omits
    this.matched = 0; // the messages that the filter matches
    this.findings = 0;
  }

  append(rows) {
    for (const row of rows) {
      if (row.row === "exchange") {
        this.head = { ...this.head, ...row };
        if (row.stream) continue;
      }
      this.rows.push(row);
      this.register(row, this.rows.length - 1);
      this.add(this.rows.length - 1);
    }
    if (this.tools && rows.some((row) => innerKey(row, this.head))) this.build();
    this.changed();
  }

  /** Replace the rows from index `first` on: a live update. */
  replace(first, rows) {
    if (first > this.rows.length) throw new Error("rows are missing");
    for (const row of this.rows.splice(first)) {
      this.events -= messageCount(row);
      this.findings -= (row.findings || []).length;
      for (const shown of this.filtered(row, first)) this.matched -= messageCount(shown);
      const call = this.callOf(row);
      if (call) call.rows = call.rows.filter((at) => at < first);
    }
    if (this.tools) this.build();
    else while (this.items.length && this.items.at(-1).at >= first) this.items.pop();
    this.append(rows);
  }

  register(row, at) {
    this.events += row.row === "omitted" ? row.last - row.first + 1 : messageCount(row);
    this.findings += (row.findings || []).length;
    const key = row.row === "event" ? innerKey(row, this.head) : null;
    if (!key) return;
    const call = this.callOf(row) || { ...key, at, rows: [] };
    call.rows.push(at);
    this.calls.set(callKey(call), call);
  }

  /** The entity that a row belongs to: all its events; undefined without any. */
  callOf(row) {
    const key = innerKey(row, this.head);
    return key ? this.calls.get(callKey(key)) : undefined;
  }

  /** The row of the event that opened an entity inside another one; undefined if it is not here. */
  startOf(name, id) {
    const call = this.calls.get(callKey({ entity: { name }, id }));
    const first = call && this.rows[call.rows[0]];
    return first && matchesType(call.entity.opens, first.type) ? first : undefined;
  }

  /** Make the items again. */
  build() {
    this.items = [];
    this.matched = 0;
    this.shownCalls = new Set();
    for (let at = 0; at < this.rows.length; at += 1) this.add(at);
  }

  set(changes) {
    Object.assign(this, changes);
    this.build();
    this.changed();
  }

  add(at) {
    for (const row of this.filtered(this.rows[at], at)) {
      this.matched += messageCount(row);
      this.addRow(row, at);
    }
  }

  addRow(row, at) {
    if (row.row === "exchange") {
      this.items.push({ kind: "side", side: "request", row, at }, { kind: "side", side: "response", row, at });
      return;
    }
    if (this.tools && row.row === "event" && this.callOf(row)) {
      this.addCall(row, at);
      return;
    }
    this.items.push({ kind: "row", row, at });
    if (row.row !== "deltas" || !this.isOpen(row)) return;
    for (let event = row.event; event <= row.last_event; event += 1) this.items.push({ kind: "delta", row, at, event });
  }

  /** What the filter leaves of a row: a run of deltas may become several. */
  filtered(row, at) {
    return this.filter ? this.filter(row, at) : [row];
  }

  /** An entity has the place of its first event; while it is open, its events follow it. */
  addCall(row, at) {
    const call = this.callOf(row);
    if (this.shownCalls.has(call)) return;
    this.shownCalls.add(call);
    this.items.push({ kind: "call", row, at, call });
    if (!this.open.has(callKey(call))) return;
    for (const one of call.rows) {
      if (this.filtered(this.rows[one], one).length) this.items.push({ kind: "row", row: this.rows[one], at: one, within: true });
    }
  }

  isOpen(row) {
    return this.deltas || this.open.has(`e${row.event}`);
  }

  /** The row of one message of an open run; null while it is being loaded. */
  delta(item) {
    const known = this.single.get(item.event);
    if (known) return known;
    const first = item.row.event + Math.floor((item.event - item.row.event) / DELTAS_AT_ONCE) * DELTAS_AT_ONCE;
    this.load(first, Math.min(first + DELTAS_AT_ONCE - 1, item.row.last_event));
    return null;
  }

  async load(first, last) {
    const name = `${first}-${last}`;
    if (this.loading.has(name)) return;
    this.loading.add(name);
    const rows = await orShowError(this.source.deltas(this.head.exchange, first, last));
    for (const row of rows || []) this.single.set(row.event, row);
    if (rows) this.changed();
  }

  /** The index of the item that shows an event: itself, or the run of deltas or entity that contains it; -1 if none does. */
  indexOfEvent(event) {
    let holder = -1;
    for (let index = 0; index < this.items.length; index += 1) {
      const item = this.items[index];
      if (item.kind === "delta" ? item.event === event : item.kind === "row" && item.row.event === event && item.row.row === "event") {
        return index;
      }
      if (item.kind === "call" && item.call.rows.some((at) => this.rows[at].event === event)) holder = index;
      if (item.row.row === "deltas" && item.kind === "row" && item.row.event <= event && event <= item.row.last_event) {
        holder = index;
      }
    }
    return holder;
  }

  indexOfRow(r, event) {
    return this.items.findIndex((item) => rowNumber(item) === r && item.kind !== "delta" && (event === null || item.row.event === event));
  }

  /** The last message at or before a row; null if there is none. */
  eventBefore(at) {
    const found = this.rows.slice(0, at + 1).findLast(({ row }) => ["event", "deltas"].includes(row));
    return found ? lastEvent(found) : null;
  }
}

function messageCount(row) {
  return row.row === "event" ? 1 : row.row === "deltas" ? row.count : 0;
}

export function callKey({ entity, id }) {
  return `t${entity.name} ${id}`;
}

/** The last message of a row; undefined if it is none. */
export function lastEvent(row) {
  return row.last_event ?? row.event;
}

/** The key under which an item is open in the view; null if it cannot be opened. */
export function openKey(item) {
  if (item.kind === "call") return callKey(item.call);
  return item.row.row === "deltas" ? `e${item.row.event}` : null;
}

/** The findings about an item. */
export function findingsOf(item, timeline) {
  if (item.kind === "delta" || (item.kind === "side" && item.side === "request")) return [];
  if (item.kind === "call") return item.call.rows.flatMap((at) => timeline.rows[at].findings || []);
  return item.row.findings || [];
}

/** The row `r` with which the view selects an item: the response of an exchange that is not a stream follows its request. */
function rowNumber(item) {
  return item.kind === "side" && item.side === "response" ? item.at + 1 : item.at;
}

/** The event `e` or the row `r` with which the view selects an item. */
export function locationOf(item, timeline) {
  if (item.kind === "delta") return { e: item.event, r: null };
  const key = openKey(item);
  const open = key !== null && (item.kind === "call" ? timeline.open.has(key) : timeline.isOpen(item.row));
  // Of a run that a filter split, several rows have the same number.
  if (open && item.row !== timeline.rows[item.at]) return { e: item.row.event, r: item.at };
  if (open || item.kind === "side" || !["event", "deltas"].includes(item.row.row)) return { e: null, r: rowNumber(item) };
  return { e: item.row.event, r: null };
}
