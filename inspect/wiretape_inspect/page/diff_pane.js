// The differences between two recordings, side by side.

import { clockTime } from "./clock.js";
import { ComparisonPane, fillSide, markRow, tallyItem } from "./comparison_pane.js";
import { codeText, element, factList, setText } from "./dom.js";
import { formatCount, formatDelay, formatNumber, printable, shorten } from "./format.js";

const KINDS = {
  missing: { sign: "✕", name: "lost", text: "only in the first recording", style: "lost" },
  added: { sign: "+", name: "added", text: "only in the second recording", style: "new" },
  changed: { sign: "≠", name: "changed", text: "in both, with other values", style: "changed" },
  moved: { sign: "↕", name: "moved", text: "in both, in another order", style: "moved" },
  time: { sign: "◷", name: "delayed", text: "in both, more than 200 ms later or earlier", style: "delayed" },
};

export class DiffPane extends ComparisonPane {
  constructor(host, app) {
    const columns = [["status", "difference"], ["first", "A"], ["second", "B"]];
    super(host, app, { id: "diff", label: "Differences between two recordings", columns });
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
      this.showError(error);
    }
  }

  fillHead({ a, b, normalized }) {
    const about = normalized.length ? `${normalized.join(" and ")} may differ, because these are two runs` : "ids and times have to be equal";
    this.summary.replaceChildren(element("h2", null, `A ${printable(a)} and B ${printable(b)} `, element("span", { class: "dim", text: about })));
    this.nameSides(`A ${printable(a)}`, `B ${printable(b)}`);
  }

  fillSummary({ equal, differences, exchanges, omitted }) {
    const list = element("ul", { class: "tally" });
    for (const [kind, count] of Object.entries(differences)) if (count) list.append(tallyItem(KINDS[kind], count));
    if (equal) list.append(element("li", { text: "The recordings are equal: no event was lost, added, changed, moved or delayed." }));
    if (omitted) list.append(element("li", { class: "dim", text: `${formatNumber(omitted)} more are not listed; \`wiretape diff\` prints them.` }));
    this.summary.append(list);
    this.list.root.hidden = equal;
    this.total = `${formatCount(exchanges, "exchange")} compared`;
  }

  fillRow(cells, row, node) {
    markRow(cells, node, KINDS[row.kind]);
    for (const [cell, location, preview] of [[cells.first, row.a, row.previews[0]], [cells.second, row.b, row.previews[1]]]) {
      if (location && preview) fillSide(cell, placeOf(location), preview);
      else setText(cell, location ? `${placeOf(location)}  ${shorten(row.request, 200)}` : "");
    }
  }

  fillDetails(panel, row) {
    const { name, text } = KINDS[row.kind];
    panel.append(element("h2", { class: "title", text: `${name}: ${shorten(row.type || row.request, 200)}` }), element("p", { class: "dim", text }));
    panel.append(factList([
      ["request", shorten(row.request, 300)],
      ["A", row.a ? `${placeOf(row.a)} at ${clockTime(row.a.time_ns)}` : "not there"],
      ["B", row.b ? `${placeOf(row.b)} at ${clockTime(row.b.time_ns)}` : "not there"],
      ["in B", row.later_ns === null ? null : formatDelay(row.later_ns)],
    ]));
    for (const field of row.fields) {
      panel.append(element("h3", null, ...codeText(`\`${field.path}\``)), factList([["A", valueText(field, "a")], ["B", valueText(field, "b")]]));
    }
    for (const [side, source] of [["a", this.app.source], ["b", this.app.source.other]]) {
      if (row[side] && row[side].event !== null) panel.append(this.eventBox(`${side.toUpperCase()} ${placeOf(row[side])}`, row[side], source));
    }
  }

  open(row) {
    if (!row.a) return;
    if (row.a.event === null) this.app.navigation.goExchange(row.a.exchange);
    else this.app.navigation.goEvent(row.a.exchange, row.a.event);
  }
}

function placeOf({ exchange, event }) {
  return event === null ? `#${exchange}` : `${exchange}:${event}`;
}

function valueText(field, side) {
  return side in field ? element("code", { text: shorten(JSON.stringify(field[side], (_key, value) => (typeof value === "bigint" ? String(value) : value)), 2000) }) : "no value";
}
