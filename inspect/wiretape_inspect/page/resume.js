// Two connections of a session side by side, by SSE id.

const STATUS_WORDS = {
  known: "came before the cursor, and not again, as it should be",
  same: "came on both, with the same data",
  changed: "came on both, with other data or another name",
  repeated: "came again, though the cursor said that the client knew it",
  lost: "came on the first, and the second went past it",
  pending: "came on the first; the second ended before it got there",
  new: "came on the second only",
};
const STATUS_SIGNS = { known: "·", same: "=", changed: "≠", repeated: "↻", lost: "✕", pending: "…", new: "+" };

class ResumePane {
  constructor(host, app) {
    this.app = app;
    this.summary = make("div", { class: "resume-summary" });
    const pane = make("div", { id: "resume", class: "pane" });
    host.append(this.summary, pane);
    this.list = new VirtualList(pane, {
      label: "Two connections side by side", height: ROW_HEIGHT,
      columns: [
        { name: "status", label: "status" }, { name: "tag", label: "id" },
        { name: "first", label: "first" }, { name: "second", label: "second" },
      ],
      fill: (cells, row, node) => this.fillRow(cells, row, node),
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
      if (this.name === name) this.take(head, rows);
    } catch (error) {
      if (this.name === name) this.summary.replaceChildren(make("p", { class: "wrong", text: printable(error.message) }));
    }
  }

  take(head, rows) {
    const counts = new Map();
    for (const row of rows) counts.set(row.status, (counts.get(row.status) || 0) + 1);
    const title = make("h2", null, `#${head.first} then #${head.second} `);
    const after = head.cursor === null ? "resumed without a cursor" : `resumed after ${shown(head.cursor, 100)}${head.cursor_known ? "" : ", which the first never had"}`;
    title.append(make("span", { class: head.cursor_known ? "dim" : "wrong", text: after }));
    const tally = make("ul", { class: "tally" });
    for (const [status, number] of counts) {
      const said = make("span", { class: `joined ${status}`, text: `${STATUS_SIGNS[status] || ""} ${grouped(number)} ${printable(status)}` });
      tally.append(make("li", null, said, make("span", { class: "dim", text: STATUS_WORDS[status] ? `: ${STATUS_WORDS[status]}` : "" })));
    }
    const missing = head.missing.slice(0, 20).map(([low, high]) => (low === high ? `${low}` : `${low} to ${high}`));
    this.summary.replaceChildren(title, tally);
    if (missing.length) this.summary.append(make("p", { class: "wrong", text: `On neither connection: sequence ${missing.join(", ")}${head.missing.length > 20 ? ", …" : ""}` }));
    for (const name of ["first", "second"]) setText(this.list.root.querySelector(`.list-head .${name}`), `on #${head[name]}`);
    const known = rows.filter((row) => row.status !== "known");
    this.list.show(known, -1);
    this.rows = known;
    this.pair = [head.first, head.second];
    if (!known.length) this.summary.append(make("p", { class: "empty", text: "Nothing came on either connection after the cursor." }));
    setText(byId("count"), counted(known.length, "id"));
  }

  fillRow(cells, row, node) {
    setClass(node, `row joined-row ${row.status}`);
    setText(cells.status, `${STATUS_SIGNS[row.status] || ""} ${printable(row.status)}`);
    setText(cells.tag, briefId(shown(row.id, 100)));
    setText(cells.first, this.side(row.first));
    setText(cells.second, this.side(row.second));
  }

  side(here) {
    if (!here) return "–";
    const sequence = here.sequence === null ? "" : ` seq ${digits(here.sequence)}`;
    return `${here.event}${sequence}  ${shown(here.type, 80)}  ${shown(here.preview, 200)}`;
  }

  /** Leave for the timeline of the connection that has the event. */
  open(row) {
    if (row.second) this.app.goEvent(this.pair[1], row.second.event);
    else this.app.goEvent(this.pair[0], row.first.event);
  }

  /** The event is shown beside, on the connection that is compared where it came there. */
  choose(index, row) {
    this.list.select(index);
    if (row.second) this.app.view.go({ e: row.second.event, r: null });
    else say(`${row.status}: ${STATUS_WORDS[row.status] || ""}; only on the first connection, event ${row.first.event}`);
  }
}
