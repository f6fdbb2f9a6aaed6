// What both comparisons have in common: a summary with counts, and below it a list of pairs of events.

import { byId, element, setClass, setText } from "./dom.js";
import { formatNumber, printable, shorten, shortenNumber } from "./format.js";
import { showPayload } from "./payload_tab.js";
import { ROW_HEIGHT } from "./timeline_row.js";
import { VirtualList } from "./virtual_list.js";

export class ComparisonPane {
  /** `columns` are `[name, label]`; `fillRow`, `fillDetails` and `open` are methods of the subclass. */
  constructor(host, app, { id, label, columns }) {
    Object.assign(this, { app, total: "" });
    this.summary = element("div", { class: "comparison-summary" });
    const pane = element("div", { id, class: "pane" });
    host.append(this.summary, pane);
    this.list = new VirtualList(pane, {
      label, height: ROW_HEIGHT,
      columns,
      fill: (cells, row, node) => this.fillRow(cells, row, node),
      chosen: (index) => this.choose(index),
      opened: (_index, row) => this.open(row),
    });
  }

  choose(index) {
    this.list.select(index);
    setText(byId("count"), this.total);
    const row = this.list.items[index];
    const text = this.list.items.length ? "No event selected." : "Nothing differs.";
    this.app.detail.showContent((panel) => { if (row) this.fillDetails(panel, row); else panel.append(element("p", { class: "empty", text })); });
  }

  /** The data of an event of one side, once it is loaded. */
  eventBox(title, { exchange, event }, source) {
    const box = element("section", null, element("h3", { text: title }));
    source.event(exchange, event).then(
      (detail) => showPayload(box, detail, { source: {} }),
      (error) => box.append(element("p", { class: "wrong", text: printable(error.message) })),
    );
    return box;
  }

  /** Show which streams or recordings are compared, in the heads of their columns. */
  nameSides(first, second) {
    for (const [name, text] of [["first", first], ["second", second]]) {
      this.list.root.querySelector(`.list-head .${name}`).firstChild.textContent = text;
    }
  }

  showError(error) {
    this.summary.replaceChildren(element("p", { class: "wrong", text: printable(error.message) }));
  }
}

/** How many differences of a kind there are; the title says what the kind means: `{sign, name, text, style}`. */
export function tallyItem({ sign, name, text, style }, count) {
  const label = count ? `${sign} ${formatNumber(count)} ${name}` : `0 ${name}`;
  return element("li", { class: count ? `joined ${style}` : "dim", title: text, text: label });
}

export function markRow(cells, node, { sign, name, style }) {
  setClass(node, `row joined-row ${style}`);
  cells.status.textContent = `${sign} ${name}`.trim();
}

/** Show an event of one side in columns: its place, its sequence, its type, and after `about` the beginning of its content. */
export function fillSide(cell, place, { sequence, type, text }, about = "") {
  const number = sequence === null ? "" : `seq ${shortenNumber(sequence)}`;
  cell.replaceChildren(...[place, number, shorten(type, 80), about + shorten(text, 200)].map((part) => element("span", { text: `${part} ` })));
}
