// Two connections of a channel side by side, by cursor.

import { clockTime } from "./clock.js";
import { ComparisonPane, fillSide, markRow, tallyItem } from "./comparison_pane.js";
import { element, factList, setText } from "./dom.js";
import { connectionsOf } from "./exchange_heads.js";
import { abbreviateId, formatCount, formatDelay, formatNumber, printable, shorten } from "./format.js";

const STATUSES = {
  known: { sign: "·", text: "on the first connection up to the cursor, and not repeated, as it should be" },
  same: { sign: "=", text: "on both connections, with the same data" },
  moved: { sign: "↕", text: "on both connections, in another order" },
  delayed: { sign: "◷", text: "on both connections, more than 200 ms later or earlier" },
  changed: { sign: "≠", text: "sent twice, with different data or a different name" },
  repeated: { sign: "↻", text: "sent again although the client already had it" },
  lost: { sign: "✕", text: "on the first connection, and skipped by the second" },
  pending: { sign: "…", text: "on the first connection; the second ended before it" },
  cut: { sign: "╌", text: "cut off on the first connection, and complete on the second" },
  new: { sign: "+", text: "only on the second connection" },
};
for (const [name, status] of Object.entries(STATUSES)) Object.assign(status, { name, style: name });
const MOST_HOLES = 20;
const MOST_KNOWN = 3;

export class ResumePane extends ComparisonPane {
  constructor(host, app) {
    const columns = [["status", "status"], ["tag", "cursor"], ["first", "first"], ["second", "second"]];
    super(host, app, { id: "resume", label: "Two connections side by side", columns });
  }

  async show(first, second) {
    const name = `${first}:${second}`;
    if (this.name === name) { if (this.content) this.fill(...this.content); return; }
    Object.assign(this, { name, content: null });
    const focused = this.summary.contains(document.activeElement) ? document.activeElement.ariaLabel : null;
    this.summary.replaceChildren();
    this.list.show([], -1);
    try {
      const [head, ...rows] = await this.app.source.resume(first, second);
      if (this.name !== name) return;
      this.fill(head, rows);
      if (focused) this.summary.querySelector(`select[aria-label="${focused}"]`)?.focus();
    } catch (error) {
      if (this.name === name) this.showError(error);
    }
  }

  fill(head, rows, most = MOST_KNOWN) {
    this.content = [head, rows, most];
    const isKnown = ({ status }) => status === "known";
    const known = rows.filter(isKnown);
    const shown = [...known.slice(-most), ...rows.filter((row) => !isKnown(row))];
    const at = shown.findIndex(({ first }) => !first || first.event === null);
    shown.splice(at < 0 ? shown.length : at, 0, { status: "end", ...head });
    this.pair = [head.first, head.second];
    this.summary.replaceChildren(this.title(head), tally(rows));
    const holes = head.missing.slice(0, MOST_HOLES).map(([low, high]) => (low === high ? `${low}` : `${low} to ${high}`));
    if (holes.length) {
      const more = head.missing.length > MOST_HOLES ? ", …" : "";
      this.summary.append(element("p", { class: "wrong", text: `On neither connection: sequence ${holes.join(", ")}${more}` }));
    }
    const showAll = () => { this.list.selected = -1; this.fill(head, rows, Infinity); this.app.focusList(); };
    if (known.length > most) this.summary.append(element("button", { type: "button", class: "link", text: `Also list the ${formatNumber(known.length - most)} known before these`, onclick: showAll }));
    if (known.length === rows.length) this.summary.append(element("p", { class: "empty", text: "Neither connection has an event after the cursor." }));
    this.nameSides(`on #${head.first}`, `on #${head.second}`);
    const { e } = this.app.view;
    const named = shown.findIndex((row) => e !== null && row.second && row.second.event === e);
    this.total = formatCount(rows.length, "event");
    this.list.show(shown, this.list.selected);
    this.choose(named < 0 ? this.list.selected : named);
  }

  /** Which connections are compared; with more than two in the channel, to choose from. */
  title({ first, second, ...head }) {
    const { recording, source } = this.app;
    const all = connectionsOf(recording.exchanges, recording.exchanges.find((one) => one.exchange === second)).map((one) => one.exchange);
    const before = all.filter((one) => one < second && source.hasResume(one, second));
    const after = all.filter((one) => one > first && source.hasResume(first, one));
    const sides = [this.picker("First connection", before, first, (one) => [one, second]), " then ", this.picker("Second connection", after, second, (one) => [first, one])];
    return element("h2", null, ...sides, " ", cursorText(head));
  }

  picker(label, numbers, chosen, pairWith) {
    if (numbers.length < 2) return `#${chosen}`;
    const options = numbers.map((one) => element("option", { value: one, text: `#${one}`, selected: one === chosen }));
    const choose = ({ target }) => {
      const [first, second] = pairWith(Number(target.value));
      this.app.go({ x: second, resume: first, e: null, r: null }, true);
    };
    return element("select", { "aria-label": label, onchange: choose }, ...options);
  }

  fillRow(cells, row, node) {
    const [first, second] = this.pair;
    if (row.status === "end") {
      markRow(cells, node, { sign: "", name: "", style: "broke" });
      for (const name of ["tag", "second"]) setText(cells[name], "");
      setText(cells.first, endText(row));
      return;
    }
    markRow(cells, node, STATUSES[row.status]);
    setText(cells.tag, abbreviateId(shorten(row.cursor, 100)));
    const about = row.later_ns !== null ? `${formatDelay(row.later_ns)}  ` : row.status === "cut" ? `complete on #${second}  ` : "";
    for (const [cell, event, text] of [[cells.first, row.first, ""], [cells.second, row.second, about]]) {
      if (event && event.event !== null) fillSide(cell, event.event, { ...event, text: event.preview }, text);
      else setText(cell, event ? `cut off on #${first}  ${shorten(event.type, 80)}` : "");
    }
  }

  fillDetails(panel, row) {
    if (row.status === "end") { panel.append(element("h2", { class: "title", text: endText(row) })); return; }
    const sides = [row.first, row.second].map((event, at) => event && { ...event, exchange: this.pair[at] });
    const { name, text } = STATUSES[row.status];
    panel.append(element("h2", { class: "title", text: `${name}: ${shorten((row.second || row.first).type, 200)}` }), element("p", { class: "dim", text }));
    panel.append(factList(sides.map((side, at) => [
      `on #${this.pair[at]}`, !side ? "not there" : `${side.event === null ? "cut off" : `event ${side.event}`} at ${clockTime(side.time_ns)}`,
    ])));
    for (const side of sides) {
      if (side && side.event !== null) panel.append(this.eventBox(`${side.exchange}:${side.event}`, side, this.app.source));
    }
  }

  /** Go to the event in the timeline of its connection. */
  open(row) {
    const { navigation } = this.app;
    if (row.status === "end") navigation.goExchange(this.pair[0]);
    else if (row.second) navigation.goEvent(this.pair[1], row.second.event);
    else navigation.goEvent(this.pair[0], row.first.event);
  }
}

function cursorText(head) {
  const cursor = head.cursor === null ? "resumed without a cursor" : `resumed after ${shorten(head.cursor, 100)}`;
  const unknown = head.cursor !== null && !head.cursor_known ? ", which the first connection does not have" : "";
  return element("span", { class: head.cursor_known ? "dim" : "wrong", text: cursor + unknown });
}

/** The number of cursors with each status. */
function tally(rows) {
  const count = (status) => rows.filter((row) => row.status === status).length;
  const found = Object.values(STATUSES).filter(({ name }) => count(name) || name === "lost");
  return element("ul", { class: "tally" }, ...found.map((status) => tallyItem(status, count(status.name))));
}

/** Where the first connection ended. */
function endText({ first, ending, ended_ns: ended }) {
  return `╌╌ #${first}: ${printable(ending)}${ended === null ? "" : ` at ${clockTime(ended)}`} ╌╌`;
}
