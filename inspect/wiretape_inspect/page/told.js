// What becomes of the view when something is told about the recording.

class Told extends Moves {
  /** An exchange began, changed or ended. */
  tellExchange(head) {
    const at = this.recording.exchanges.findIndex((one) => one.exchange === head.exchange);
    if (at >= 0) this.recording.exchanges[at] = head;
    else this.recording.exchanges.push(head);
    if (this.head && this.head.exchange === head.exchange) this.changeHead(head);
    else if (!this.head || (!this.settled && head.stream && !this.head.stream)) this.view.go({ x: head.exchange, e: null, r: null });
    else if (at < 0) say(`Exchange ${head.exchange} began.`);
    this.changed();
  }

  /** The exchange that is shown: one that was found to be a stream, or that has ended, is read anew. */
  changeHead(head) {
    const before = this.head;
    this.head = head;
    this.timeline.head = head;
    if (before.stream !== head.stream || (!head.stream && before.ended_ns !== head.ended_ns)) {
      this.detail.forget();
      this.timeline = null;
      this.become(this.view.now, this.view.now);
    }
  }

  /** Something was found about rows that are here already. */
  readAnew() {
    clearTimeout(this.anew);
    this.anew = setTimeout(() => {
      this.detail.forget();
      this.timeline = null;
      this.become(this.view.now, this.view.now);
    }, 500);
  }

  tellFinding(found, rule) {
    const known = this.recording.findings.some((one) => one.code === found.code && one.exchange === found.exchange && one.time_ns === found.time_ns && one.message === found.message);
    if (!known) this.recording.findings.push(found);
    if (rule) this.recording.rules[found.code] = rule;
    if (!known && this.head && found.exchange === this.head.exchange && !this.fromLive) this.readAnew();
    if (this.view.now.findings) this.panes.findings.list.grew();
    this.changed();
  }
}
