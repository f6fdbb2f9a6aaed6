// Two connections of a session side by side, by SSE id.

import { byId, element, setClass, setText } from "./dom.js";
import { abbreviateId, formatCount, formatNumber, printable, shorten, shortenNumber } from "./format.js";
import { announce } from "./notices.js";
import { ROW_HEIGHT } from "./timeline_row.js";
import { VirtualList } from "./virtual_list.js";

const STATUSES = {
  known: { sign: "·", text: "on the first connection up to the cursor, and not repeated, as it should be" },
  same: { sign: "=", text: "on both connections, with the same data" },
  changed: { sign: "≠", text: "sent twice, with different data or a different name" },
  repeated: { sign: "↻", text: "sent again, although the client already had it" },
  lost: { sign: "✕", text: "on the first connection, and skipped by the second" },
  pending: { sign: "…", text: "on the first connection; the second ended before it" },
  new: { sign: "+", text: "only on the second connection" },
};
const MOST_HOLES = 20;

export class ResumePane {
  constructor(host, app) {
    this.app = app;
    this.summary = element("div", { class: "resume-summary" });
    const pane = element("div", { id: "resume", class: "pane" });
    host.append(this.summary, pane);
    this.list = new VirtualList(pane, {
      label: "Two connections side by side", height: ROW_HEIGHT,
      columns: [
        { name: "status", label: "status" }, { name: "tag", label: "id" },
        { name: "first", label: "first" }, { name: "second", label: "second" },
      ],
      fill: (cells, row, node) => fillRow(cells, row, node),
      chosen: (index, row) => this.choose(index, row),
      opened: (_index, row) => this.open(row),
    });
    this.list.root.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !this.list.items[this.list.selected]) return;
      event.stopPropagation();
      this.open(this.list.items[this.list.selected]);
    });
  }

  async show(first, second) {
    const name = `${first}:${second}`;
    if (this.name === name) return;
    this.name = name;
    this.summary.replaceChildren();
    this.list.show([], -1);
    try {
      const [head, ...rows] = await this.app.source.resume(first, second);
      if (this.name === name) this.fill(head, rows);
    } catch (error) {
      if (this.name === name) this.summary.replaceChildren(element("p", { class: "wrong", text: printable(error.message) }));
    }
  }

  fill(head, rows) {
    const changed = rows.filter((row) => row.status !== "known");
    this.pair = [head.first, head.second];
    this.summary.replaceChildren(titleOf(head), tally(rows));
    const holes = head.missing.slice(0, MOST_HOLES).map(([low, high]) => (low === high ? `${low}` : `${low} to ${high}`));
    if (holes.length) {
      const more = head.missing.length > MOST_HOLES ? ", …" : "";
      this.summary.append(element("p", { class: "wrong", text: `On neither connection: sequence ${holes.join(", ")}${more}` }));
    }
    if (!changed.length) this.summary.append(element("p", { class: "empty", text: "Neither connection has an event after the cursor." }));
    for (const name of ["first", "second"]) setText(this.list.root.querySelector(`.list-head .${name}`), `on #${head[name]}`);
    this.list.show(changed, -1);
    setText(byId("count"), formatCount(changed.length, "id"));
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
    else announce(`${row.status}: ${(STATUSES[row.status] || {}).text || ""}; only on the first connection, event ${row.first.event}`);
  }
}

function titleOf(head) {
  const cursor = head.cursor === null ? "resumed without a cursor" : `resumed after ${shorten(head.cursor, 100)}`;
  const unknown = head.cursor !== null && !head.cursor_known ? ", an id that the first connection does not have" : "";
  const text = element("span", { class: head.cursor_known ? "dim" : "wrong", text: cursor + unknown });
  return element("h2", null, `#${head.first} then #${head.second} `, text);
}

/** The number of ids with each status. */
function tally(rows) {
  const counts = new Map();
  for (const { status } of rows) counts.set(status, (counts.get(status) || 0) + 1);
  const list = element("ul", { class: "tally" });
  for (const [status, count] of counts) {
    const { sign = "", text = "" } = STATUSES[status] || {};
    const label = element("span", { class: `joined ${status}`, text: `${sign} ${formatNumber(count)} ${printable(status)}` });
    list.append(element("li", null, label, element("span", { class: "dim", text: text && `: ${text}` })));
  }
  return list;
}

function fillRow(cells, row, node) {
  setClass(node, `row joined-row ${row.status}`);
  setText(cells.status, `${(STATUSES[row.status] || {}).sign || ""} ${printable(row.status)}`);
  setText(cells.tag, abbreviateId(shorten(row.id, 100)));
  setText(cells.first, eventText(row.first));
  setText(cells.second, eventText(row.second));
}

function eventText(event) {
  if (!event) return "–";
  const sequence = event.sequence === null ? "" : ` seq ${shortenNumber(event.sequence)}`;
  return `${event.event}${sequence}  ${shorten(event.type, 80)}  ${shorten(event.preview, 200)}`;
}
