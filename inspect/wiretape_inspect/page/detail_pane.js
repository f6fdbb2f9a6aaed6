// The details on the right: four tabs about the selected item.

import { clockTime } from "./clock.js";
import { showBytes } from "./bytes_tab.js";
import { byId, delay, element, factList, setText } from "./dom.js";
import { code, showHeaders, showRequest, showStream } from "./exchange_details.js";
import { explanationList, findingCard, findingList, showFindings } from "./finding_card.js";
import { capitalize, formatCount, formatDuration, formatNumber, lastCharacters, printable, shorten, shortenNumber } from "./format.js";
import { eventLink } from "./navigation.js";
import { longText, showPayload } from "./payload_tab.js";
import { showState } from "./state_tab.js";
import { findingsOf, lastEvent } from "./timeline.js";
import { TABS } from "./url_state.js";
import { keyOf, labelOf, matchesType, vocabularyOf, withFailure } from "./vocabulary.js";

const TAB_LABELS = { payload: "Payload", bytes: "Bytes", findings: "Findings", state: "Client state", headers: "Headers" };
const [STEP_PAUSE_MS, MOST_LISTED] = [120, 200];

export class DetailPane {
  constructor(app) {
    Object.assign(this, { app, loaded: null, shown: null });
    const properties = { type: "button", role: "tab", "aria-controls": "panel", class: "tab" };
    const button = (tab) => element("button", { ...properties, id: `tab-${tab}`, text: TAB_LABELS[tab], onclick: () => app.go({ tab }) });
    this.buttons = TABS.map(button);
    byId("tabs").replaceChildren(...this.buttons);
    byId("tabs").addEventListener("keydown", (event) => this.pressKey(event));
  }

  pressKey(event) {
    const at = TABS.indexOf(this.app.view.tab);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const tab = TABS[(to + TABS.length) % TABS.length];
    this.app.go({ tab });
    byId(`tab-${tab}`).focus();
  }

  /**
   * Show an item of the timeline; without one, or if the exchange is not a stream, show the exchange.  `hidden` is the
   * selected item if the filter hides it.
   */
  async show(item, hidden = null) {
    const { head, view } = this.app;
    this.markTab(view.tab, item);
    const isRequest = head && !head.stream;
    const name = this.nameOf(isRequest ? null : item || hidden) + (hidden ? view.q : "");
    if (name === this.shown) return;
    this.shown = name;
    if (hidden) this.fill((panel) => panel.append(hiddenText(hidden, this.app)));
    else if (head && view.tab === "headers") this.fill((panel) => showHeaders(panel, this.app));
    else if (head && view.tab === "findings") this.showFindings(isRequest ? null : item);
    else if (isRequest) this.fill((panel) => showRequest(panel, this.app, view.tab));
    else if (item) await this.showItem(item, view.tab, name);
    else this.fill((panel) => showStream(panel, this.app, view.tab));
  }

  /** A text that differs whenever the details would. */
  nameOf(item) {
    const { head, view, timeline, recording } = this.app;
    const parts = [view.x, view.tab];
    if (item) parts.push(item.kind, item.at, item.event, item.row.event, item.row.last_event, (item.row.findings || []).length, this.app.isUnreleased(item));
    else parts.push("exchange", Boolean(this.app.reader.overview), head && head.ended_ns, timeline && (head.stream ? timeline.done : timeline.rows.length), recording.findings.length);
    return JSON.stringify(parts);
  }

  markTab(tab, item) {
    for (const button of this.buttons) {
      const selected = button.id === `tab-${tab}`;
      button.setAttribute("aria-selected", selected);
      button.tabIndex = selected ? 0 : -1;
    }
    byId("panel").setAttribute("aria-labelledby", `tab-${tab}`);
    const count = item ? findingsOf(item, this.app.timeline).length : 0;
    setText(byId("tab-findings"), count ? `Findings ${count}` : "Findings");
  }

  async showItem(item, tab, name) {
    // While the reader steps quickly, nothing is loaded until the steps stop.
    const isQuick = performance.now() - (this.lastStep || 0) < STEP_PAUSE_MS;
    this.lastStep = performance.now();
    if (isQuick) await delay(STEP_PAUSE_MS);
    const busy = setTimeout(() => { if (this.shown === name) byId("panel").setAttribute("aria-busy", "true"); }, 150);
    const detail = this.shown === name ? await this.load(item, tab).catch((error) => ({ error: error.message })) : null;
    clearTimeout(busy);
    if (this.shown !== name) return;
    this.fill((panel) => {
      panel.append(itemFacts(item, this.app));
      if (this.app.isUnreleased(item)) panel.append(element("p", { class: "dim", text: "The replay has not sent this yet." }));
      const found = findingsOf(item, this.app.timeline);
      if (found.length) panel.append(findingList(found.slice(0, 10), () => "", () => this.app.go({ tab: "findings" })));
      if (item.kind === "call") panel.append(this.callEvents(item));
      if (detail && detail.error) panel.append(element("p", { class: "wrong", text: printable(detail.error) }));
      else this.fillTab(panel, item, tab, detail);
    });
  }

  showFindings(item) {
    const { recording, head, timeline } = this.app;
    const all = recording.findings;
    const found = item ? findingsOf(item, timeline) : all.filter((one) => one.exchange === head.exchange);
    const others = `No findings here. The recording has ${formatCount(all.length, "finding")}: n goes to the next one, f lists all.`;
    const none = all.length ? others : "This recording has no findings.";
    this.fill((panel) => showFindings(panel, found, this.app, none));
  }

  fillTab(panel, item, tab, detail) {
    const isMessage = item.kind !== "row" || ["event", "deltas"].includes(item.row.row);
    if (tab === "state") {
      const text = "No event precedes this row, so the client knew nothing from this connection.";
      if (detail) showState(panel, detail, this.app);
      else panel.append(element("p", { class: "empty", text }));
    } else if (!isMessage && detail) showBytes(panel, detail);
    else if (!isMessage) {
      const text = item.row.row === "cut"
        ? "This event is unfinished, so no client received it. The Bytes tab shows what arrived."
        : "This row is not an event and has no data.";
      panel.append(element("p", { class: "empty", text }));
    } else if (item.kind === "row" && item.row.row === "deltas") this.fillRun(panel, item, tab, detail);
    else if (tab === "bytes") showBytes(panel, detail);
    else showPayload(panel, detail, this.app);
  }

  /** A closed run of deltas: its joined text, which is the end of the text that the client has by then. */
  fillRun(panel, item, tab, detail) {
    const { row } = item;
    const open = () => this.app.navigation.setOpen(`e${row.event}`, true, item);
    panel.append(element("div", { class: "tools" }, element("button", { type: "button", class: "plain", text: `Show the ${formatCount(row.count, "delta")}`, title: "Enter", onclick: open })));
    if (tab === "bytes") {
      panel.append(element("p", { class: "dim", text: `The last delta, event ${row.last_event}:` }));
      showBytes(panel, detail);
      return;
    }
    const joined = vocabularyOf(this.app.head).texts.find((one) => matchesType(one.deltas, row.type));
    const state = joined && detail.state.texts[joined.name];
    const isWhole = row === this.app.timeline.rows[item.at];
    const text = state && state.text && isWhole ? lastCharacters(state.text, row.characters) : row.preview;
    panel.append(element("h3", { text: "Joined text" }), longText(text, "spoken"));
  }

  showFinding(found) {
    this.showContent((panel) => {
      if (!found) return;
      panel.append(findingCard(found, this.app));
      const place = found.event === null ? `exchange ${found.exchange}` : `event ${found.event} of exchange ${found.exchange}`;
      const go = { type: "button", class: "link", text: `Go to ${place}`, onclick: () => this.app.navigation.goFinding(found) };
      panel.append(element("p", { class: "empty" }, element("button", go), " ", element("kbd", { text: "Enter" })));
    });
  }

  /** Show what a group of findings has in common: for a rule, its explanation. */
  showGroup(title, rule) {
    this.showContent((panel) => panel.append(element("h2", { class: "title", text: title }), ...(rule ? [explanationList(rule)] : [])));
  }

  /** Show what a pane in place of the timeline has selected. */
  showContent(fill) {
    this.shown = null;
    byId("panel").removeAttribute("aria-labelledby");
    this.fill(fill);
  }

  /** Load what an item needs: an event in full, or the bytes of an unfinished event; null if it needs nothing. */
  async load(item, tab) {
    const { source, view, timeline } = this.app;
    if (item.row.row === "cut" && tab === "bytes") {
      return source.cut(view.x, item.row.start, timeline.eventBefore(item.at) || 1);
    }
    const isMessage = ["event", "deltas"].includes(item.row.row);
    const event = item.event ?? (isMessage ? lastEvent(item.row) : tab === "state" ? timeline.eventBefore(item.at) : null);
    return event === null ? null : this.event(event);
  }

  /** An event in full, loaded once for all tabs. */
  event(event) {
    const { source, view } = this.app;
    const name = `${view.x}/${event}`;
    if (this.loaded?.name !== name) this.loaded = { name, promise: source.event(view.x, event) };
    return this.loaded.promise;
  }

  forget() {
    this.loaded = this.shown = null;
  }

  fill(draw) {
    const panel = byId("panel");
    panel.removeAttribute("aria-busy");
    panel.replaceChildren();
    panel.scrollTop = 0;
    draw(panel);
  }

  callEvents(item) {
    const list = element("ul", { class: "spans" });
    for (const at of item.call.rows.slice(0, MOST_LISTED)) {
      const row = this.app.timeline.rows[at];
      const link = eventLink({ exchange: this.app.view.x, event: row.event }, this.app.navigation);
      const time = element("span", { class: "dim", text: clockTime(row.time_ns) });
      list.append(element("li", null, link, ` ${shorten(row.type, 80)} `, time));
    }
    return list;
  }
}

/** What is shown in place of an item that the filter hides. */
function hiddenText({ row }, app) {
  const name = row.row === "event" || row.row === "deltas" ? `event ${app.view.e ?? row.event}` : "row";
  const clear = element("button", { type: "button", class: "link", text: "Clear the filter", onclick: () => app.go({ q: "" }) });
  return element("p", { class: "empty", id: "hidden-item" }, `The filter hides the selected ${name}. `, clear, " to show it.");
}

function itemFacts(item, { timeline }) {
  const row = item.kind === "delta" ? timeline.single.get(item.event) || item.row : item.row;
  const box = element("div", { class: "facts-box" });
  box.append(element("h2", { class: withFailure(`title ${row.kind || row.row}`, row.type, timeline.head), text: titleOf(item, row) }));
  if (row.note) box.append(element("p", { class: "wrong", text: printable(row.note) }));
  box.append(factList(rowFacts(row, timeline.head)));
  return box;
}

function titleOf(item, row) {
  if (item.kind === "call") return `${capitalize(labelOf(item.call.entity.name))} ${shorten(item.call.id, 100)}`;
  if (row.row === "event") return shorten(row.type || "(no type)", 200);
  if (row.row === "deltas") return `${formatCount(row.count, "delta")} ${shorten(row.type, 100)}`;
  const titles = { pause: "Pause", cut: "Cut off", oversized: "Too large", lost: "Not recorded", omitted: "Omitted", end: "End" };
  return titles[row.row] || printable(row.row);
}

/** The facts of a row; those that it does not have are left out. */
function rowFacts(row, head) {
  if (row.row === "omitted") return [["events", `${formatNumber(row.first)} to ${formatNumber(row.last)}, which are not near a finding`]];
  const [number, text] = [formatNumber, printable].map((format) => (value) => (value === undefined || value === null ? null : format(value)));
  const isRun = row.row === "deltas";
  const until = row.until_ns ? ` to ${clockTime(row.until_ns)}` : "";
  const gap = ["event", "deltas"].includes(row.row) ? `  (+${formatDuration(row.gap_ns)})` : until && `  (${formatDuration(row.until_ns - row.time_ns)})`;
  const size = row.row === "event" || row.end === undefined ? null : `${formatNumber(row.start)}–${formatNumber(row.end)}`;
  return [
    ["event", row.row === "event" ? `${row.event} · ${row.kind}` : null],
    ["events", isRun ? `${row.event} to ${row.last_event}` : null],
    ["sequence", row.sequence === undefined || row.sequence === null ? null : shortenNumber(row.sequence)],
    ["id", code(row.id)],
    ["characters", number(row.characters)],
    ...vocabularyOf(head).entities.map(({ name }) => [labelOf(name), code(keyOf(row, name))]),
    ["time", row.time_ns === null ? "still open" : `${clockTime(row.time_ns)}${until}${gap}`],
    ["ending", text(row.ending_label)],
    ["detail", row.detail ? shorten(row.detail, 1000) : null],
    ["durable", number(row.durable)],
    ["deltas", isRun ? null : number(row.deltas)],
    ["other", number(row.ephemeral)],
    ["keep-alives", number(row.keep_alives)],
    ["comment", row.comment ? code(row.comment) : null],
    ["longest silence", row.silence_ns === undefined ? null : formatDuration(row.silence_ns)],
    ["not decoded", text(row.undecodable)],
    ["bytes", row.row === "lost" ? `${formatNumber(row.count)} from ${formatNumber(row.start)}` : size],
    ["reason", text(row.why)],
    ["begins with", ["cut", "oversized"].includes(row.row) ? code(row.preview) : null],
  ];
}
