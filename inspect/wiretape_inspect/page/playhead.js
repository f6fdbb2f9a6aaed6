// The playhead of a replay: its position, what it sends next, its breakpoints, and the buttons that move it.

import { bytesOf } from "./recorded_answers.js";
import { byId, codeText, element, setClass, setText, severityMark, showOptions } from "./dom.js";
import { formatCount, formatDuration, formatNumber, formatSize, isSameFinding, printable, shorten, shortenNumber } from "./format.js";
import { parseJson } from "./json.js";
import { eventLink } from "./navigation.js";
import { announce, showError } from "./notices.js";
import { allVocabularies, channelOf, keyOf, labelOf, matchesType } from "./vocabulary.js";

const NEXT_BYTES = 160;
const SPEEDS = ["0.1", "0.5", "1", "2", "10", "max"];
const MOST_NOTICES = 3;
const STATUSES = { breakpoint: "at a breakpoint", end: "at the end" };
const KEY = "key ";

/** What a breakpoint can stop before, with what people call it. */
function breakpointKinds() {
  const inner = allVocabularies().flatMap(({ entities }) => entities.filter(({ within }) => within !== null));
  const keys = Object.fromEntries(inner.map(({ name }) => [`${KEY}${name}`, labelOf(name)]));
  return { type: "type", sequence: "sequence", ...keys, finding: "finding" };
}

export class Playhead {
  constructor(app) {
    Object.assign(this, { app, channels: new Map(), channel: null, isFollowing: true, findings: [], drawn: {} });
    const host = byId("playhead");
    host.hidden = false;
    this.connect();
    host.addEventListener("keydown", (event) => {
      const open = event.key === "Escape" && host.querySelector("details[open]");
      if (open) { event.preventDefault(); open.open = false; open.firstElementChild.focus(); }
    });
    this.refresh();
    const stream = app.source.replay.listen();
    stream.addEventListener("playhead", () => this.refresh());
    stream.addEventListener("finding", (event) => this.addFinding(parseJson(event.data)));
    addEventListener("pagehide", () => stream.close());
  }

  /** Connect the parts of the bar, which page.html has. */
  connect() {
    for (const part of byId("playhead").querySelectorAll("[data-part]")) this[part.dataset.part] = part;
    const on = (part, name, action) => part.addEventListener(name, action);
    on(this.picker, "change", () => { this.channel = this.picker.value; this.draw(); });
    on(this.speed, "change", () => this.post("speed", { speed: this.speed.value }));
    on(this.followButton, "click", () => this.toggleFollowing());
    on(this.runButton, "click", () => this.runOrPause());
    on(this.reset, "click", () => this.post("reset", {}));
    this.stepButtons = [...byId("playhead").querySelectorAll("[data-step]")];
    for (const button of this.stepButtons) on(button, "click", () => this.step(button.dataset.step));
    setText(this.address, `Clients connect to ${printable(this.app.recording.replay.url)}`);
    showOptions(this.kind, Object.entries(breakpointKinds()), "type");
    on(this.adder, "submit", async (event) => {
      event.preventDefault();
      if (await this.post("breakpoints", conditionFor(this.kind.value, this.before.value))) this.before.value = "";
    });
  }

  toggleFollowing() {
    this.isFollowing = !this.isFollowing;
    this.followButton.setAttribute("aria-pressed", this.isFollowing);
    this.followed = null;
    if (this.state) this.follow(this.state);
  }

  addFinding(found) {
    if (this.findings.some((one) => isSameFinding(one, found))) return;
    this.findings.push(found);
    this.notices.hidden = false;
    const dismiss = { type: "button", class: "drop", text: "✕", "aria-label": "Dismiss", onclick: () => { this.findings.length = 0; this.notices.replaceChildren(); this.notices.hidden = true; } };
    const count = this.findings.length > MOST_NOTICES ? [element("li", { class: "dim", text: `${formatNumber(this.findings.length - MOST_NOTICES)} earlier` })] : [];
    this.notices.replaceChildren(...count, ...this.findings.slice(-MOST_NOTICES).map((one) => (
      element("li", null, "The client broke a rule: ", severityMark(one.severity), ` ${printable(one.code)} `, ...codeText(one.message))
    )), element("li", null, element("button", dismiss)));
  }

  /** The state of the selected channel; undefined if there is none. */
  get state() {
    return this.channels.get(this.channel);
  }

  keys() {
    return [
      ["Space", "pause or run", () => this.runOrPause()],
      [".", "step: send one event", () => this.step("event")],
      [">", "step to the next durable event", () => this.step("durable")],
      ["F", "follow the playhead: select the next event whenever it moves", () => this.toggleFollowing()],
      ["b", "breakpoint before the selected event; for a delta, before any event of its type", () => this.breakHere()],
      ["s", "seek to just after the selected event", () => this.seekHere()],
    ];
  }

  /** Load the state; after changes during the load, load it once more. */
  async refresh() {
    this.isStale = true;
    if (this.isLoading) return;
    this.isLoading = true;
    while (this.isStale) {
      this.isStale = false;
      await this.attempt(() => this.app.source.replay.state());
    }
    this.isLoading = false;
  }

  /** Send a command, and return whether it succeeded. */
  post(command, body, method = "POST") {
    const channel = this.channel === null ? {} : { channel: this.channel };
    return this.attempt(() => this.app.source.replay.send(method, command, { ...channel, ...body }));
  }

  /** Show the state that a request returns; return whether it succeeded. */
  async attempt(request) {
    try {
      this.update(await request());
      return true;
    } catch (error) {
      showError(error.message);
      return false;
    }
  }

  update({ channels = [], speed = 1 }) {
    const speeds = new Set([...SPEEDS, String(speed)]);
    showOptions(this.speed, [...speeds].map((one) => [one, one === "max" ? one : `${one}×`]), String(speed));
    for (const one of channels) this.channels.set(one.channel, one);
    if (!this.state && this.channels.size) this.channel = this.channels.keys().next().value;
    this.isLoaded = true;
    this.draw();
  }

  get isStopped() {
    return this.state.stopped || this.state.paused;
  }

  runOrPause() {
    if (this.state) this.post(this.isStopped ? "resume" : "pause", {});
  }

  step(to) {
    this.post("step", { to });
  }

  /** The selected event; announces that there is none. */
  selectedEvent() {
    const row = this.app.selection.item?.row;
    if (row && row.row === "event") return row;
    announce("Select an event first.");
    return null;
  }

  seekHere() {
    const row = this.selectedEvent();
    if (!row) return;
    if (row.sequence !== null) this.post("seek", { sequence: Number(row.sequence) });
    else if (row.id) this.post("seek", { event: row.id });
    else showError("This event has no sequence and no id: seek to another one.");
  }

  breakHere() {
    const row = this.selectedEvent();
    if (row) this.post("breakpoints", row.sequence !== null ? { sequence: Number(row.sequence) } : { type: row.type });
  }

  removeBreakpoint(point) {
    this.post("breakpoints", Object.fromEntries(Object.entries(point).filter(([, value]) => value !== null)), "DELETE");
  }

  draw() {
    const { state } = this;
    for (const button of [this.runButton, ...this.stepButtons]) button.disabled = !state;
    if (!state) {
      setText(this.status, this.isLoaded ? "no playhead: this replay only repeats recorded responses" : "…");
      return;
    }
    this.picker.hidden = this.channels.size < 2;
    showOptions(this.picker, [...this.channels.keys()].map((value) => [value, shorten(value, 60)]), this.channel);
    setText(this.runButton, this.isStopped ? "▶ Run" : "❚❚ Pause");
    setText(this.status, STATUSES[state.status] || printable(state.status));
    setClass(this.status, `play-status ${state.status}`);
    setText(this.count, `${formatNumber(state.position)} / ${formatNumber(state.length)} · ${formatDuration(state.time_ms * 1e6)}`);
    this.drawNext(state.next);
    this.drawStreams(state);
    this.drawBreakpoints(state);
    this.follow(state);
  }

  /** Whether a part of the bar shows another value than the one drawn last. */
  isNew(part, value) {
    const before = this.drawn[part];
    this.drawn[part] = JSON.stringify(value);
    return this.drawn[part] !== before;
  }

  drawNext(next) {
    if (!this.isNew("next", next)) return;
    this.next.replaceChildren();
    if (!next) return;
    const type = next.type || (next.ending ? `end: ${next.ending}` : next.kind);
    this.next.append(element("span", { class: "dim", text: "next " }), element("code", { text: shorten(type, 60) }));
    if (next.sequence !== null) this.next.append(` seq ${shortenNumber(next.sequence)}`);
    const location = locationOf(next);
    if (location) this.next.append(" ", eventLink(location, this.app.navigation));
  }

  /** The clients that wait for the playhead, each with the bytes that it receives next. */
  drawStreams({ streams, position, next }) {
    const all = Array.isArray(streams) ? streams : [];
    setText(this.clients, all.length ? formatCount(all.length, "client") : "no client");
    if (!this.isNew("streams", [all, position, next])) return;
    const items = all.map((stream, at) => {
      const from = stream.cursor === null || stream.cursor === undefined ? "from the beginning" : `after ${shorten(stream.cursor, 60)}`;
      const text = `Client ${at + 1}: ${from}, ${stream.deltas ? "with" : "without"} deltas`;
      const receives = element("code", { class: "next-bytes" });
      const label = stream.position < position ? " · still receiving" : next ? " · waits for " : " · has everything";
      const item = element("li", null, element("span", { class: "dim", text: text + label }), receives);
      if (stream.position >= position && next) this.showNextBytes(receives, next, stream.deltas);
      return item;
    });
    if (!items.length) items.push(element("li", { class: "dim", text: "No client is connected." }));
    this.streams.replaceChildren(...items);
  }

  /** Show the bytes of the next entry, unless the client does not receive it. */
  async showNextBytes(box, next, hasDeltas) {
    const location = locationOf(next);
    if (next.kind === "delta" && !hasDeltas) box.textContent = `what follows the ${shorten(next.type, 60)}, which it did not ask for`;
    else if (!location || location.event === 0) box.textContent = shorten(next.ending ? `the end: ${next.ending}` : next.kind, 60);
    else {
      box.textContent = shorten(next.type, 60);
      const detail = await this.app.source.event(location.exchange, location.event).catch(() => null);
      const bytes = detail ? bytesOf(detail) : new Uint8Array();
      box.textContent = `${formatSize(bytes.length)}: ${shorten(new TextDecoder().decode(bytes.subarray(0, 2 * NEXT_BYTES)), NEXT_BYTES)}`;
    }
  }

  drawBreakpoints({ breakpoints, stopped_by: stoppedBy }) {
    const points = Array.isArray(breakpoints) ? breakpoints : [];
    setText(this.points, points.length ? `● ${formatCount(points.length, "breakpoint")}` : "Breakpoints");
    if (!this.isNew("breakpoints", [points, stoppedBy])) return;
    this.app.list.draw();
    this.breakpoints.replaceChildren(...points.map((point) => {
      const text = conditionsOf(point).map(([name, value]) => `${name} ${shorten(value, 60) || "any"}`).join(", ");
      const isReached = JSON.stringify(stoppedBy) === JSON.stringify(point);
      const sign = element("span", { "aria-hidden": "true", class: "sign", text: "● " });
      const remove = element("button", { type: "button", class: "drop", text: "✕", "aria-label": `Remove the breakpoint ${text}`, onclick: () => this.removeBreakpoint(point) });
      return element("li", { class: isReached ? "stopped" : "" }, sign, text, remove);
    }));
  }

  /** Whether a breakpoint stops before a row. */
  stopsAt(row, head) {
    const points = this.state && Array.isArray(this.state.breakpoints) ? this.state.breakpoints : [];
    if (!row.event || (channelOf(head) ?? this.channel) !== this.channel) return false;
    return points.some(({ type, sequence, keys, finding }) => (
      (type === null || matchesType([type], row.type || ""))
      && (sequence === null || row.sequence === sequence)
      && (keys === null || Object.entries(keys).every(([name, key]) => keyOf(row, name) === key))
      && (finding === null || (row.findings || []).some((one) => one.code.startsWith(finding)))
    ));
  }

  /** Mark the next event in the timeline, and go there whenever the playhead stops; at the end, go to the last event. */
  follow(state) {
    const location = state.next && locationOf(state.next);
    const name = location ? `${location.exchange}:${location.event}` : "";
    const before = this.followed;
    if (before === name) return;
    this.followed = name;
    this.app.markNext(location);
    if (before === undefined || !this.isFollowing) return;
    const isLast = (one) => one.stream && one.events && (channelOf(one) ?? this.channel) === this.channel;
    const last = state.status === "end" && this.app.recording.exchanges.findLast(isLast);
    if (location) this.app.navigation.goEvent(location.exchange, location.event, false);
    else if (last) this.app.navigation.goEvent(last.exchange, last.events, false);
  }
}

/** The conditions of a breakpoint: `[[name, value]]`. */
function conditionsOf({ keys, ...others }) {
  const conditions = { ...others, ...Object.fromEntries(Object.entries(keys || {}).map(([name, key]) => [KEY + name, key])) };
  const given = Object.entries(conditions).filter(([, value]) => value !== null && value !== undefined);
  return given.map(([kind, value]) => [breakpointKinds()[kind] || labelOf(kind.replace(KEY, "")), value]);
}

/** The breakpoint with one condition. */
function conditionFor(kind, text) {
  if (kind.startsWith(KEY)) return { keys: { [kind.slice(KEY.length)]: text } };
  return { [kind]: kind === "sequence" && /^\d+$/.test(text) ? Number(text) : text };
}

/** The exchange and the event that an entry of the playhead's log comes from. */
function locationOf(entry) {
  const found = /^(\d+):(\d+)$/.exec(entry.source || "");
  return found ? { exchange: Number(found[1]), event: Number(found[2]) } : null;
}
