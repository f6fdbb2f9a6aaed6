// What comes while the recording is being written.  The reader's place is never taken away.

class Live {
  constructor(app) {
    this.app = app;
    this.position = app.recording.position;
    this.stream = null;
    this.on = app.source.live && app.recording.live;
    if (!this.on) return;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.follow()));
    byId("live").hidden = false;
    byId("more").addEventListener("click", () => { app.list.toBottom(); this.look(); app.focusList(); });
    app.list.scrolled = () => this.look();
  }

  /** Whether the rows of an exchange come from here, all of them. */
  tells(head) {
    return this.on && head.stream && head.ending === "open";
  }

  /** Listen, to the rows of the exchange that is shown where it is open. */
  follow() {
    this.stop();
    if (!this.on) return;
    const { head } = this.app;
    const query = [];
    if (head && this.app.fromLive) query.push(`exchange=${head.exchange}`, `rows=${this.settled || 0}`);
    if (this.position !== null && this.position !== undefined) query.push(`after=${encodeURIComponent(this.position)}`);
    const stream = this.app.source.listen(query.join("&"));
    this.stream = stream;
    const hear = (name, todo) => stream.addEventListener(name, (event) => {
      if (this.stream !== stream) return;
      if (event.lastEventId) this.position = event.lastEventId;
      todo(readJson(event.data));
    });
    hear("exchange", (head) => this.app.tellExchange(head));
    hear("finding", (said) => this.app.tellFinding(said.finding, said.rule));
    hear("rows", (said) => this.rows(said));
    hear("closed", (said) => this.closed(said));
    stream.addEventListener("error", () => setText(byId("live"), stream.readyState === 2 ? "lost" : "reconnecting"));
    stream.addEventListener("open", () => setText(byId("live"), "live"));
  }

  /** Another exchange is shown. */
  anew() {
    this.settled = 0;
    this.unseen = 0;
    this.look();
    this.follow();
  }

  rows({ exchange, first, rows, settled }) {
    const { timeline } = this.app;
    if (!timeline || exchange !== timeline.head.exchange || !this.app.fromLive) return;
    const [before, bottom] = [timeline.events, this.app.list.atEnd];
    timeline.tell(first, rows);
    this.settled = settled;
    this.unseen = bottom ? 0 : (this.unseen || 0) + Math.max(timeline.events - before, 0);
    this.look();
  }

  /** Say how many came that the reader has not seen. */
  look() {
    const button = byId("more");
    if (this.app.list.atEnd) this.unseen = 0;
    button.hidden = !this.unseen;
    if (this.unseen) setText(button, `↓ ${grouped(this.unseen)} new`);
  }

  closed({ ended_ns: ended }) {
    this.stop();
    this.on = false;
    this.app.recording.ended_ns = ended;
    setText(byId("live"), ended === null ? "recorder gone" : "closed");
    byId("live").classList.add("over");
    say("The recording was closed.");
  }

  stop() {
    if (this.stream) this.stream.close();
    this.stream = null;
  }
}
