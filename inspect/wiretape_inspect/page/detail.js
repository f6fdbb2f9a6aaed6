// The pane on the right: the tabs of what is selected.

const TAB_NAMES = { payload: "Payload", bytes: "Bytes", findings: "Findings", state: "State here" };
const KEPT_DETAILS = 200;
const LARGE_DETAIL = 200000;

class Detail {
  constructor(app) {
    this.app = app;
    this.kept = new Map();
    this.shown = null;
    this.buttons = TABS.map((tab) => this.button(tab));
    byId("tabs").replaceChildren(...this.buttons);
    byId("tabs").addEventListener("keydown", (event) => this.key(event));
  }

  button(tab) {
    const about = { type: "button", role: "tab", id: `tab-${tab}`, "aria-controls": "panel", class: "tab", text: TAB_NAMES[tab] };
    return make("button", { ...about, onclick: () => this.app.view.go({ tab }) });
  }

  key(event) {
    const at = TABS.indexOf(this.app.view.now.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = TABS[(to + TABS.length) % TABS.length];
    this.app.view.go({ tab });
    byId(`tab-${tab}`).focus();
  }

  /** Show what is selected: an item of the timeline, the exchange itself where that is no stream, or nothing. */
  async show(item) {
    const { tab } = this.app.view.now;
    this.mark(tab, item);
    const what = this.app.head && !this.app.head.stream ? { exchange: this.app.head } : item;
    const name = `${this.app.view.now.x}/${tab}/${what && !what.exchange ? `${what.kind}${what.at}/${what.event || ""}/${what.row.last_event || ""}/${(what.row.findings || []).length}` : what ? `head/${this.app.timeline.rows.length}/${this.app.recording.findings.length}` : `none/${this.app.recording.findings.length}/${this.app.head ? this.app.head.ended_ns : ""}`}`;
    if (name === this.shown) return;
    this.shown = name;
    if (!what) this.fill((panel) => showSummary(panel, this.app, tab));
    else if (what.exchange) this.fill((panel) => showExchange(panel, this.app, tab));
    else await this.showItem(what, tab, name);
  }

  mark(tab, item) {
    for (const button of this.buttons) {
      const chosen = button.id === `tab-${tab}`;
      button.setAttribute("aria-selected", chosen);
      button.tabIndex = chosen ? 0 : -1;
    }
    byId("panel").setAttribute("aria-labelledby", `tab-${tab}`);
    const number = item ? findingsOf(item, this.app.timeline).length : 0;
    setText(byId("tab-findings"), number ? `Findings ${number}` : "Findings");
  }

  async showItem(item, tab, name) {
    if (tab === "findings") {
      this.fill((panel) => showItemFindings(panel, item, this.app));
      return;
    }
    const asking = this.asking(item, tab);
    let detail = null;
    // Whoever steps fast is shown where they stop.
    const fast = performance.now() - (this.asked || 0) < 120;
    this.asked = performance.now();
    if (fast) {
      await new Promise((wake) => { setTimeout(wake, 120); });
      if (this.shown !== name) return;
    }
    if (asking) {
      const wait = setTimeout(() => { if (this.shown === name) byId("panel").setAttribute("aria-busy", "true"); }, 150);
      detail = await asking().catch((error) => ({ trouble: error.message }));
      clearTimeout(wait);
      if (this.shown !== name) return;
    }
    this.fill((panel) => {
      panel.append(itemFacts(item, this.app));
      const found = findingsOf(item, this.app.timeline);
      if (found.length) panel.append(foundList(found.slice(0, 10), () => "", () => this.app.view.go({ tab: "findings" })));
      if (item.kind === "call") panel.append(callEvents(item, this.app));
      if (detail && detail.trouble) panel.append(make("p", { class: "wrong", text: printable(detail.trouble) }));
      else this.tab(panel, item, tab, detail);
    });
  }

  tab(panel, item, tab, detail) {
    const odd = item.kind === "row" && !["event", "deltas"].includes(item.row.row);
    if (tab === "state") {
      if (detail) showKnowledge(panel, detail.state, this.app);
      else panel.append(make("p", { class: "empty", text: "No event came before this, so a client knew nothing from this connection." }));
    } else if (odd && detail) showBytes(panel, detail);
    else if (odd) panel.append(make("p", { class: "empty", text: item.row.row === "cut" ? "No client got this event: it was never finished. Bytes shows what came of it." : "This is no event: it has no data of its own." }));
    else if (item.kind === "row" && item.row.row === "deltas") this.run(panel, item.row, tab, detail);
    else if (tab === "bytes") showBytes(panel, detail);
    else showPayload(panel, detail);
  }

  /** A run of deltas that is closed: its text, which is the end of what a client has by then. */
  run(panel, row, tab, detail) {
    const open = () => this.app.toggleOpen(`e${row.event}`, true);
    panel.append(make("div", { class: "tools" }, make("button", { type: "button", class: "plain", text: `Show the ${counted(row.count, "delta")}`, title: "Enter", onclick: open })));
    if (tab === "bytes") {
      panel.append(make("p", { class: "dim", text: `The last of them, event ${row.last_event}:` }));
      showBytes(panel, detail);
      return;
    }
    const spoken = row.type === CONTRACT.textDelta ? detail.state.text : row.type === CONTRACT.reasoningDelta ? detail.state.reasoning : null;
    const text = spoken && spoken.text ? runText(spoken.text, row.characters) : row.preview;
    panel.append(make("h3", { text: "What they say together" }), longText(text, "spoken"));
  }

  /** A finding of the list of all findings. */
  showFound(found) {
    this.shown = null;
    byId("panel").removeAttribute("aria-labelledby");
    this.fill((panel) => {
      if (!found) return;
      panel.append(findingCard(found, this.app));
      panel.append(make("p", { class: "empty" }, make("kbd", { text: "Enter" }), found.event === null ? ` goes to where it is, in exchange ${found.exchange}.` : ` goes to event ${found.event} of exchange ${found.exchange}.`));
    });
  }

  /** A rule of the list of all rules. */
  showRule(rule) {
    this.shown = null;
    byId("panel").removeAttribute("aria-labelledby");
    this.fill((panel) => panel.append(ruleCard(rule, this.app)));
  }

  /** What has to be asked for to show an item; null where nothing is. */
  asking(item, tab) {
    if (item.row.row === "cut" && tab === "bytes") {
      return () => this.app.source.cut(this.app.view.now.x, item.row.start, this.app.timeline.eventBefore(item.at) || 1);
    }
    const event = this.eventOf(item);
    return event === null ? null : () => this.get(event);
  }

  eventOf(item) {
    if (item.kind === "delta") return item.event;
    if (item.row.row === "event") return item.row.event;
    if (item.row.row === "deltas") return item.row.last_event;
    return this.app.view.now.tab === "state" ? this.app.timeline.eventBefore(item.at) : null;
  }

  /** One event closely; a few are kept, large ones are not. */
  async get(event) {
    const key = `${this.app.view.now.x}/${event}`;
    if (this.kept.has(key)) return this.kept.get(key);
    const detail = await this.app.source.event(this.app.view.now.x, event);
    if (detail.data.length < LARGE_DETAIL) this.kept.set(key, detail);
    if (this.kept.size > KEPT_DETAILS) this.kept.delete(this.kept.keys().next().value);
    return detail;
  }

  forget() {
    this.kept.clear();
    this.shown = null;
  }

  fill(draw) {
    const panel = byId("panel");
    panel.removeAttribute("aria-busy");
    panel.replaceChildren();
    panel.scrollTop = 0;
    draw(panel);
  }
}

/** The last `length` characters of a text, in which one may take two units. */
function runText(text, length) {
  return length >= text.length ? text : Array.from(text.slice(-2 * length)).slice(-length).join("");
}

/** What the row says, in full: nothing is cut here. */
function itemFacts(item, app) {
  const row = item.kind === "delta" ? app.timeline.single.get(item.event) || item.row : item.row;
  const box = make("div", { class: "facts-box" });
  box.append(make("h2", { class: `title ${row.kind || row.row}`, text: titleOf(item, row) }));
  if (row.note) box.append(make("p", { class: "wrong", text: printable(row.note) }));
  box.append(factList(row.row === "event" ? eventFacts(row) : row.row === "deltas" ? runFacts(row) : otherFacts(row)));
  return box;
}

/** The events of a tool call, each a link. */
function callEvents(item, app) {
  const list = make("ul", { class: "spans" });
  for (const at of item.call.rows.slice(0, 200)) {
    const row = app.timeline.rows[at];
    list.append(make("li", null, placeLink({ exchange: app.view.now.x, event: row.event }, app), ` ${shown(row.type, 80)} `, make("span", { class: "dim", text: moment(row.time_ns) })));
  }
  return list;
}

function titleOf(item, row) {
  if (item.kind === "call") return `Tool call ${shown(item.call.id, 100)}`;
  if (row.row === "event") return shown(row.type || "(no type)", 200);
  if (row.row === "deltas") return `${counted(row.count, "delta")} ${shown(row.type, 100)}`;
  const titles = { pause: "Pause", cut: "Cut off", oversized: "Too large", lost: "Not recorded", omitted: "Left out", end: "End" };
  return titles[row.row] || printable(row.row);
}

function code(text) {
  return text === null || text === undefined ? null : make("code", { text: shown(text, 500) || "(empty)" });
}

function eventFacts(row) {
  return [
    ["event", `${row.event} · ${row.kind}`],
    ["sequence", row.sequence === null ? null : digits(row.sequence)],
    ["id", code(row.id)],
    ["run", code(row.run_id)],
    ["tool call", code(row.tool_call_id)],
    ["time", `${moment(row.time_ns)}  (+${duration(row.gap_ns)})`],
  ];
}

function runFacts(row) {
  return [
    ["events", `${row.event} to ${row.last_event}`],
    ["characters", grouped(row.characters)],
    ["run", code(row.run_id)],
    ["time", `${moment(row.time_ns)} to ${moment(row.until_ns)}  (+${duration(row.gap_ns)})`],
    ["bytes", `${grouped(row.start)}–${grouped(row.end)}`],
  ];
}

function otherFacts(row) {
  const facts = [["time", row.time_ns === null ? "still open" : moment(row.time_ns)]];
  if (row.row === "pause") {
    facts.push(["until", `${moment(row.until_ns)}  (${duration(row.until_ns - row.time_ns)})`]);
    facts.push(["keep-alives", grouped(row.keep_alives)], ["comment", row.comment ? code(row.comment) : null]);
    facts.push(["longest silence", duration(row.silence_ns)]);
  } else if (row.row === "end") {
    facts.push(["how", printable(row.ending_label)], ["detail", row.detail ? shown(row.detail, 1000) : null]);
    facts.push(["durable", grouped(row.durable)], ["deltas", grouped(row.deltas)], ["other", grouped(row.ephemeral)]);
    facts.push(["keep-alives", grouped(row.keep_alives)], ["not decoded", row.undecodable ? printable(row.undecodable) : null]);
  } else if (row.row === "omitted") return [["events", `${grouped(row.first)} to ${grouped(row.last)}, which are not near a finding`]];
  else if (row.row === "lost") facts.push(["bytes", grouped(row.count)], ["from", grouped(row.start)], ["why", printable(row.why)]);
  else facts.push(["bytes", `${grouped(row.start)}–${grouped(row.end)}`], ["begins", code(row.preview)]);
  return facts;
}
