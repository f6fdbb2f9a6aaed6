// Live updates while a recording is made: new exchanges, findings and rows.  The reader's place never changes.

import { byId, setText } from "./dom.js";
import { formatNumber, isSameFinding } from "./format.js";
import { parseJson } from "./json.js";
import { announce } from "./notices.js";

const READ_AGAIN_MS = 500;

export class LiveUpdates {
  constructor(app) {
    Object.assign(this, { app, position: app.recording.position, stream: null, settled: 0, unseen: 0 });
    this.isOn = app.source.live && app.recording.live;
    if (!this.isOn) return;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.listen()));
    byId("live").hidden = false;
    byId("more").addEventListener("click", () => { app.list.toBottom(); this.showUnseen(); app.focusList(); });
    app.list.scrolled = () => this.showUnseen();
  }

  /** Whether the rows of an exchange come from the live updates. */
  sendsRows(head) {
    return this.isOn && head.stream && head.ending === "open";
  }

  /** Listen to the updates, including the rows of the exchange that is shown if it is open. */
  listen() {
    this.stop();
    if (!this.isOn) return;
    const { reader, source } = this.app;
    const query = [];
    if (reader.isLive) query.push(`exchange=${reader.head.exchange}`, `rows=${this.settled}`);
    if (this.position) query.push(`after=${encodeURIComponent(this.position)}`);
    const stream = source.listen(query.join("&"));
    this.stream = stream;
    const on = (name, handle) => stream.addEventListener(name, (event) => {
      if (this.stream !== stream) return;
      if (event.lastEventId) this.position = event.lastEventId;
      handle(parseJson(event.data));
    });
    on("exchange", (head) => this.updateExchange(head));
    on("finding", ({ finding, rule }) => this.addFinding(finding, rule));
    // The recorder replaces all findings; those that hold now follow.
    on("findings-replaced", () => { this.app.recording.findings.length = 0; this.showFindings(this.app.head); });
    on("rows", (update) => this.updateRows(update));
    on("closed", (update) => this.close(update));
    stream.addEventListener("error", () => setText(byId("live"), stream.readyState === 2 ? "disconnected" : "reconnecting"));
    stream.addEventListener("open", () => setText(byId("live"), "live"));
  }

  restart() {
    this.settled = 0;
    this.unseen = 0;
    this.showUnseen();
    this.listen();
  }

  updateExchange(head) {
    const { app } = this;
    const { exchanges } = app.recording;
    const at = exchanges.findIndex((one) => one.exchange === head.exchange);
    if (at >= 0) exchanges[at] = head;
    else exchanges.push(head);
    if (app.head && app.head.exchange === head.exchange) this.updateHead(head);
    else if (!app.head || (!app.navigation.isUsed && head.stream && !app.head.stream)) app.go({ x: head.exchange, e: null, r: null });
    else if (at < 0) announce(`Exchange ${head.exchange} began.`);
    app.sidebar.changed();
    app.strip.showExchanges(exchanges, app.head);
    app.redraw();
  }

  /** Update the exchange that is shown; if it became a stream, or ended and is not a stream, read it again. */
  updateHead(head) {
    const { app } = this;
    const before = app.head;
    app.reader.head = head;
    app.timeline.head = head;
    if (before.stream !== head.stream || (!head.stream && before.ended_ns !== head.ended_ns)) app.reopen();
  }

  addFinding(found, rule) {
    const { app } = this;
    const { recording } = app;
    const isKnown = recording.findings.some((one) => one.exchange === found.exchange && isSameFinding(one, found));
    if (!isKnown) recording.findings.push(found);
    if (rule) recording.rules[found.code] = rule;
    this.showFindings(!isKnown && app.head && found.exchange === app.head.exchange);
  }

  /** Show findings that have changed; `isHere` if they change rows that are already shown: the exchange is read again. */
  showFindings(isHere) {
    const { app } = this;
    if (isHere && !app.reader.isLive) {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => app.reopen(), READ_AGAIN_MS);
    }
    if (app.view.findings) app.panes.findings.update();
    app.sidebar.changed();
    app.redraw();
  }

  updateRows({ exchange, first, rows, settled }) {
    const { timeline, reader, list } = this.app;
    if (!timeline || exchange !== timeline.head.exchange || !reader.isLive) return;
    const [before, wasAtEnd] = [timeline.events, list.atEnd];
    timeline.replace(first, rows);
    this.settled = settled;
    this.unseen = wasAtEnd ? 0 : this.unseen + Math.max(timeline.events - before, 0);
    this.showUnseen();
  }

  showUnseen() {
    const button = byId("more");
    if (this.app.list.atEnd) this.unseen = 0;
    button.hidden = !this.unseen;
    if (this.unseen) setText(button, `↓ ${formatNumber(this.unseen)} new`);
  }

  close({ ended_ns: ended }) {
    this.stop();
    this.isOn = false;
    this.app.recording.ended_ns = ended;
    setText(byId("live"), ended === null ? "recorder stopped" : "closed");
    byId("live").classList.add("over");
    announce("The recording was closed.");
  }

  stop() {
    if (this.stream) this.stream.close();
    this.stream = null;
  }
}
