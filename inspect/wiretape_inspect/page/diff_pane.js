// The differences between two recordings, side by side.

import { clockTime } from "./clock.js";
import { byId, codeText, element, factList, setClass, setText } from "./dom.js";
import { formatCount, formatDuration, formatNumber, printable, shorten, shortenNumber } from "./format.js";
import { showPayload } from "./payload_tab.js";
import { ROW_HEIGHT } from "./timeline_row.js";
import { VirtualList } from "./virtual_list.js";

const KINDS = {
  missing: { sign: "✕", name: "lost", text: "only in the first recording", class: "lost" },
  added: { sign: "+", name: "added", text: "only in the second recording", class: "new" },
  changed: { sign: "≠", name: "changed", text: "in both, with other values", class: "changed" },
  moved: { sign: "↕", name: "moved", text: "in both, in another order", class: "changed" },
  time: { sign: "◷", name: "delayed", text: "in both, more than 200 ms later or earlier", class: "repeated" },
};

export class DiffPane {
  constructor(host, app) {
    this.app = app;
    this.summary = element("div", { class: "resume-summary" });
    const pane = element("div", { id: "diff", class: "pane" });
    host.append(this.summary, pane);
    this.list = new VirtualList(pane, {
      label: "Differences between two recordings", height: ROW_HEIGHT,
      columns: [["status", "difference"], ["first", "A"], ["second", "B"]].map(([name, label]) => ({ name, label })),
      fill: (cells, row, node) => this.fillRow(cells, row, node),
      chosen: (index) => this.choose(index),
      opened: (index) => this.open(index),
    });
    this.list.root.addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.stopPropagation();
      this.open(this.list.selected);
    });
  }

  async show() {
    this.list.root.focus({ preventScroll: true });
    if (this.isLoaded) { this.choose(Math.max(this.list.selected, 0)); return; }
    this.isLoaded = true;
    const found = [];
    const take = (rows) => {
      for (const row of rows) {
        if (row.row === "diff") this.fillHead(row);
        else if (row.row === "summary") this.fillSummary(row);
        else found.push(row);
      }
      this.list.show(found, this.list.selected);
    };
    try {
      await this.app.source.differences(take);
      this.choose(0);
    } catch (error) {
      this.summary.replaceChildren(element("p", { class: "wrong", text: printable(error.message) }));
    }
  }

  fillHead({ a, b, normalized }) {
    const about = normalized.length ? "ids and times are normalized, because the recordings have no session in common" : "ids have to be equal";
    this.summary.replaceChildren(element("h2", null, `A ${printable(a)} and B ${printable(b)} `, element("span", { class: "dim", text: about })));
    for (const [name, text] of [["first", `A ${printable(a)}`], ["second", `B ${printable(b)}`]]) {
      this.list.root.querySelector(`.list-head .${name}`).firstChild.textContent = text;
    }
  }

  fillSummary({ equal, differences, exchanges, omitted }) {
    const list = element("ul", { class: "tally" });
    for (const [kind, count] of Object.entries(differences)) {
      const { sign, name, text, class: style } = KINDS[kind];
      if (count) list.append(element("li", null, element("span", { class: `joined ${style}`, text: `${sign} ${formatNumber(count)} ${name}` }), element("span", { class: "dim", text: `: ${text}` })));
    }
    if (equal) list.append(element("li", { text: "The recordings are equal." }));
    if (omitted) list.append(element("li", { class: "dim", text: `${formatNumber(omitted)} more are not listed; \`wiretape diff\` prints them.` }));
    this.summary.append(list);
    setText(byId("count"), `${formatCount(exchanges, "exchange")} compared`);
  }

  fillRow(cells, row, node) {
    const { sign, name, class: style } = KINDS[row.kind];
    setClass(node, `row joined-row ${style}`);
    setText(cells.status, `${sign} ${name}`);
    [cells.first, cells.second].forEach((cell, at) => setText(cell, sideText(row, at)));
  }

  /** Show the differing values in the details. */
  choose(index) {
    this.list.select(index);
    const row = this.list.items[index];
    if (row) this.app.detail.showContent((panel) => this.fillDetails(panel, row));
  }

  fillDetails(panel, row) {
    const { name, text } = KINDS[row.kind];
    panel.append(element("h2", { class: "title", text: `${name}: ${shorten(row.type || row.request, 200)}` }), element("p", { class: "dim", text }));
    panel.append(factList([
      ["request", shorten(row.request, 300)],
      ["A", row.a ? `${placeOf(row.a)} at ${clockTime(row.a.time_ns)}` : "not there"],
      ["B", row.b ? `${placeOf(row.b)} at ${clockTime(row.b.time_ns)}` : "not there"],
      ["later in B", row.later_ns === null ? null : `${row.later_ns < 0 ? "−" : ""}${formatDuration(Math.abs(row.later_ns))}`],
    ]));
    for (const field of row.fields) {
      panel.append(element("h3", null, ...codeText(`\`${field.path}\``)), factList([["A", valueText(field, "a")], ["B", valueText(field, "b")]]));
    }
    for (const [side, source] of [["a", this.app.source], ["b", this.app.source.other]]) {
      if (row[side] && row[side].event !== null) panel.append(this.eventBox(side, row[side], source));
    }
  }

  /** The data of an event of one recording, once it is loaded. */
  eventBox(side, location, source) {
    const box = element("section", null, element("h3", { text: `${side.toUpperCase()} ${placeOf(location)}` }));
    source.event(location.exchange, location.event).then(
      (detail) => showPayload(box, detail, { source: {} }),
      (error) => box.append(element("p", { class: "wrong", text: printable(error.message) })),
    );
    return box;
  }

  /** Go to the event in the first recording. */
  open(index) {
    const row = this.list.items[index];
    if (!row || !row.a) return;
    if (row.a.event === null) this.app.navigation.goExchange(row.a.exchange);
    else this.app.navigation.goEvent(row.a.exchange, row.a.event);
  }
}

function placeOf({ exchange, event }) {
  return event === null ? `#${exchange}` : `${exchange}:${event}`;
}

function sideText(row, at) {
  const location = at ? row.b : row.a;
  if (!location) return "–";
  const preview = row.previews[at];
  if (!preview) return `${placeOf(location)}  ${shorten(row.request, 200)}`;
  const sequence = preview.sequence === null ? "" : ` seq ${shortenNumber(preview.sequence)}`;
  return `${placeOf(location)}${sequence}  ${shorten(preview.type, 80)}  ${shorten(preview.text, 200)}`;
}

function valueText(field, side) {
  return side in field ? element("code", { text: shorten(JSON.stringify(field[side], (_key, value) => (typeof value === "bigint" ? String(value) : value)), 2000) }) : "no value";
}
