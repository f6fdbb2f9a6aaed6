// Two connections of a channel side by side, by cursor.

import { ComparisonPane, eventText, markRow, tallyItem } from "./comparison_pane.js";
import { byId, element, setText } from "./dom.js";
import { connectionsOf } from "./exchange_heads.js";
import { abbreviateId, formatCount, formatDelay, shorten } from "./format.js";
import { announce } from "./notices.js";

const STATUSES = {
  known: { sign: "·", text: "on the first connection up to the cursor, and not repeated, as it should be" },
  same: { sign: "=", text: "on both connections, with the same data" },
  moved: { sign: "↕", text: "on both connections, in another order" },
  delayed: { sign: "◷", text: "on both connections, more than 200 ms later or earlier" },
  changed: { sign: "≠", text: "sent twice, with different data or a different name" },
  repeated: { sign: "↻", text: "sent again, on the same or the second connection, although the client already had it" },
  lost: { sign: "✕", text: "on the first connection, and skipped by the second" },
  pending: { sign: "…", text: "on the first connection; the second ended before it" },
  new: { sign: "+", text: "only on the second connection" },
};
for (const [name, status] of Object.entries(STATUSES)) Object.assign(status, { name, style: name });
const MOST_HOLES = 20;

export class ResumePane extends ComparisonPane {
  constructor(host, app) {
    const columns = [["status", "status"], ["tag", "cursor"], ["first", "first"], ["second", "second"]];
    super(host, app, { id: "resume", label: "Two connections side by side", columns });
  }

  async show(first, second) {
    const name = `${first}:${second}`;
    if (this.name === name) return;
    this.name = name;
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

  fill(head, rows) {
    const changed = rows.filter((row) => row.status !== "known");
    this.pair = [head.first, head.second];
    this.summary.replaceChildren(this.title(head), tally(rows));
    const holes = head.missing.slice(0, MOST_HOLES).map(([low, high]) => (low === high ? `${low}` : `${low} to ${high}`));
    if (holes.length) {
      const more = head.missing.length > MOST_HOLES ? ", …" : "";
      this.summary.append(element("p", { class: "wrong", text: `On neither connection: sequence ${holes.join(", ")}${more}` }));
    }
    if (!changed.length) this.summary.append(element("p", { class: "empty", text: "Neither connection has an event after the cursor." }));
    this.nameSides(`on #${head.first}`, `on #${head.second}`);
    this.list.show(changed, changed.findIndex((row) => row.second && row.second.event === this.app.view.e));
    setText(byId("count"), formatCount(changed.length, "cursor"));
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
    markRow(cells, node, STATUSES[row.status]);
    setText(cells.tag, abbreviateId(shorten(row.cursor, 100)));
    setText(cells.first, connectionText(row.first));
    const later = row.later_ns === null ? "" : `${formatDelay(row.later_ns)}  `;
    setText(cells.second, later + connectionText(row.second));
  }

  /** Go to the event in the timeline of its connection. */
  open(row) {
    const { navigation } = this.app;
    if (row.second) navigation.goEvent(this.pair[1], row.second.event);
    else navigation.goEvent(this.pair[0], row.first.event);
  }

  /** Show the details of an event of the second connection. */
  choose(index, row) {
    this.list.select(index);
    if (row.second) this.app.go({ e: row.second.event, r: null });
    else announce(`${row.status}: ${STATUSES[row.status].text}; only on the first connection, event ${row.first.event}`);
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

function connectionText(event) {
  return event ? eventText(event.event, { ...event, text: event.preview }) : "–";
}
