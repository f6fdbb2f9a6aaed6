// The line at the top: the recording, the exchange and how it went; and the dialog that chooses another exchange.

function pathOf(head) {
  return `${head.method} ${head.target}`;
}

/** What is known of an exchange, in a few words. */
function exchangeFacts(head, timeline) {
  const parts = [];
  if (timeline && head.stream) parts.push(counted(timeline.events, "event"));
  const end = timeline && timeline.rows.at(-1);
  if (end && end.row === "end") parts.push(`${grouped(end.durable)} durable`);
  if (timeline && timeline.findings) parts.push(counted(timeline.findings, "finding"));
  parts.push(amount(head.response_bytes));
  if (head.lost_bytes) parts.push(`${amount(head.lost_bytes)} not recorded`);
  if (head.ended_ns !== null) parts.push(duration(head.ended_ns - head.time_ns));
  return parts.join(" · ");
}

function headerOf(headers, name) {
  const found = (headers || []).find(([key]) => key.toLowerCase() === name);
  return found ? found[1] : null;
}

function cursorOf(head) {
  return headerOf(head.request_headers, CONTRACT.cursorHeader.toLowerCase());
}

function statusClass(head) {
  return head.status && head.status < 400 ? "status good" : "status bad";
}

function endClass(head) {
  return GOOD_ENDINGS.includes(head.ending) ? (head.ending === "open" ? "ending open" : "ending") : "ending bad";
}

function showHeader(app) {
  const { head, timeline, recording } = app;
  setText(byId("file"), printable(recording.file));
  byId("file").title = `${printable(recording.tool)} · ${printable(recording.upstream)} · ${printable(recording.started)}`;
  document.title = `${head ? `#${head.exchange} · ` : ""}${printable(recording.file)} · wiretape`;
  showFound(app);
  showFiles();
  showNewer(app);
  byId("picker").hidden = !head;
  if (!head) {
    setText(byId("facts"), `This recording has no exchange${recording.live ? " yet" : ""}.`);
    return;
  }
  byId("picker").replaceChildren(
    make("span", { class: "number", text: `#${head.exchange}` }),
    make("span", { class: "path", text: shown(pathOf(head), 300) }),
    make("span", { class: "caret", text: "▾", "aria-hidden": "true" }),
  );
  const facts = byId("facts");
  const end = endWords(head, timeline);
  facts.replaceChildren(
    make("span", { class: statusClass(head), text: head.status === null ? "no response" : String(head.status) }),
    " · ",
    make("span", { class: endClass(head), text: end }),
    ` · ${exchangeFacts(head, timeline)}`,
  );
  if (cursorOf(head) !== null) facts.append(make("span", { class: "dim", text: ` · after ${briefId(shown(cursorOf(head), 200))}` }));
}

function endWords(head, timeline) {
  const end = timeline && timeline.rows.at(-1);
  return printable(end && end.row === "end" ? end.ending_label : head.ending_label);
}

function showFound(app) {
  const button = byId("found");
  const numbers = app.recording.report ? app.recording.report.severities : severitiesOf(app.recording.findings);
  button.replaceChildren(...severityNumbers(numbers), " in the recording");
  button.setAttribute("aria-pressed", app.view.now.findings);
}

/** The stream that began last. */
function newestOf(app) {
  return app.recording.exchanges.findLast((head) => head.stream);
}

/** While a recording grows: whether a stream began after the one that is shown, as when a client came back. */
function showNewer(app) {
  const newest = newestOf(app);
  const button = byId("newer");
  button.hidden = !app.live.on || !app.head || !newest || newest.exchange <= app.head.exchange;
  if (!button.hidden) setText(button, `Newer stream: #${newest.exchange}`);
}

/** The earlier connection of the same session that a stream goes on from; undefined: there is none. */
function earlierOf(app, head) {
  if (!head || !head.stream) return undefined;
  const same = (one) => one.stream && one.exchange < head.exchange && one.session_id === head.session_id;
  return app.recording.exchanges.filter(same).at(-1);
}

function showCompare(app) {
  const earlier = earlierOf(app, app.head);
  const button = byId("compare");
  button.hidden = !earlier;
  if (!earlier) return;
  const open = app.view.now.resume !== null;
  setText(button, open ? "Back to the timeline" : `Compare with #${earlier.exchange}`);
  button.setAttribute("aria-pressed", open);
  button.title = "Both connections side by side (c)";
}

/** The dialog with all exchanges. */
function pickExchange(app) {
  const input = make("input", { type: "search", id: "pick-filter", placeholder: "method, path, session, status, ending", spellcheck: false, autocomplete: "off" });
  const host = make("div", { id: "exchanges", class: "pane" });
  const label = make("label", { htmlFor: "pick-filter", class: "quiet", text: "Find an exchange" });
  openDialog("Exchanges", make("div", { class: "pick-field" }, label, input), host);
  let list = null;
  const choose = (index) => {
    const chosen = list.items[index];
    if (!chosen) return;
    closeDialog();
    app.goExchange(chosen.exchange);
  };
  list = new VirtualList(host, {
    label: "Exchanges", role: "listbox", height: 30,
    columns: ["n", "status", "path", "about", "marks"].map((name) => ({ name })),
    fill: (cells, head, node) => fillExchange(app, cells, head, node),
    chosen: (index, _item, event) => (event.type === "click" ? choose(index) : list.select(index)),
  });
  const find = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter((word) => word);
    const said = (head) => `#${head.exchange} ${pathOf(head)} ${head.session_id || ""} ${head.status} ${head.ending_label} ${head.stream ? "stream" : ""}`.toLowerCase();
    const found = app.recording.exchanges.filter((head) => words.every((word) => said(head).includes(word)));
    list.show(found, -1);
    const at = Math.max(found.findIndex((head) => head.exchange === app.view.now.x), 0);
    list.select(at, { middle: true });
  };
  input.addEventListener("input", find);
  input.addEventListener("keydown", (event) => {
    if (["ArrowDown", "ArrowUp", "PageDown", "PageUp"].includes(event.key)) list.key(event);
    if (event.key === "Enter") { event.preventDefault(); choose(list.selected); }
  });
  list.root.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(list.selected); });
  find();
  input.focus();
}

function fillExchange(app, cells, head, node) {
  setClass(node, `row${head.stream ? " stream" : ""}`);
  setText(cells.n, `#${head.exchange}`);
  setText(cells.status, head.status === null ? "---" : String(head.status));
  setClass(cells.status, statusClass(head));
  setText(cells.path, shown(pathOf(head), 300));
  const parts = [head.stream ? "stream" : null, printable(head.ending_label), amount(head.response_bytes)];
  if (head.ended_ns !== null) parts.push(duration(head.ended_ns - head.time_ns));
  setText(cells.about, parts.filter((part) => part).join(" · "));
  fillMarks(cells.marks, app.recording.findings.filter((found) => found.exchange === head.exchange).slice(0, 99));
}
