// Going from one place of a recording to another; the application is one of these.

class Moves {
  choose(index) {
    const item = this.list.items[index];
    if (!item) return;
    this.settled = true;
    this.list.selected = index;
    this.wanted = true;
    this.view.go(placeOf(item, this.timeline));
  }

  step(by, wanted, name = "row") {
    const { list } = this;
    if (this.view.now.findings || this.view.now.resume !== null) { this.stepOther(by); return; }
    const from = list.selected >= 0 ? list.selected : by > 0 ? -1 : list.items.length;
    const index = wanted ? this.sought(from, by, wanted) : Math.min(Math.max(from + by, 0), list.items.length - 1);
    if (index >= 0) this.choose(index);
    else say(`There is no ${by > 0 ? "later" : "earlier"} ${name}.`);
  }

  /** Where the next of these stands; -1 where there is none, as in a recording without exchanges. */
  sought(from, by, wanted) {
    return this.timeline ? this.timeline.seek(from, by, wanted) : -1;
  }

  stepOther(by) {
    const { list } = this.view.now.findings ? this.panes.findings : this.panes.resume;
    const index = Math.min(Math.max(list.selected + by, 0), list.items.length - 1);
    if (list.items[index]) list.chosen(index, list.items[index], { type: "key" });
  }

  /** The next finding: in this exchange, then in others. */
  stepFinding(by, found) {
    if (this.view.now.findings || this.view.now.resume !== null) { this.stepOther(by); return; }
    const from = this.list.selected >= 0 ? this.list.selected : by > 0 ? -1 : this.list.items.length;
    const index = this.sought(from, by, found);
    if (index >= 0) {
      this.choose(index);
      say(findingsOf(this.list.items[index], this.timeline).map((one) => `${one.severity} ${one.code}: ${one.message}`).join(" "));
      return;
    }
    const others = this.recording.findings.filter((one) => (by > 0 ? one.exchange > this.view.now.x : one.exchange < this.view.now.x));
    const ordered = others.sort((a, b) => (a.exchange - b.exchange || a.time_ns - b.time_ns) * by);
    if (ordered.length) this.goFinding(ordered[0], this.view.now.tab);
    else { say(`There is no ${by > 0 ? "later" : "earlier"} finding.`); flash(`No ${by > 0 ? "later" : "earlier"} finding`); }
  }

  goFinding(found, tab = "findings") {
    this.soughtFinding = found.event === null ? found : null;
    this.settled = true;
    this.list.selected = -1;
    this.view.go({ x: found.exchange, e: found.event, r: null, q: "", findings: false, resume: null, tab }, true);
    this.focusList();
  }

  goExchange(number) {
    if (number === this.view.now.x && !this.view.now.findings) return;
    this.settled = true;
    this.view.go({ x: number, e: null, r: null, open: [], resume: null, findings: false }, true);
    this.focusList();
  }

  goEvent(exchange, event, push = true) {
    const hidden = exchange === this.view.now.x && this.timeline.filter && this.timeline.indexOfEvent(event) < 0;
    const other = exchange === this.view.now.x ? {} : { open: [] };
    this.settled = true;
    this.wanted = true;
    this.view.go({ ...other, x: exchange, e: event, r: null, findings: false, resume: null, ...(hidden ? { q: "" } : {}) }, push);
  }

  /** Go to what is nearest to a time. */
  goTime(timeNs) {
    let best = -1, least = Infinity;
    this.list.items.forEach((item, index) => {
      const { row } = item;
      if (row.time_ns === null) return;
      const away = row.row === "deltas" && row.time_ns <= timeNs && timeNs <= row.until_ns ? 0 : Math.abs(row.time_ns - timeNs);
      if (away < least) { least = away; best = index; }
    });
    if (best >= 0) this.choose(best);
  }

  stepExchange(by) {
    const at = this.recording.exchanges.indexOf(this.head) + by;
    const head = this.recording.exchanges[at];
    if (head) this.goExchange(head.exchange);
  }

  /** Open or close the run or the tool call that is selected. */
  flip(open) {
    const item = this.list.items[this.list.selected];
    const key = item && item.kind !== "side" ? (item.kind === "delta" ? `e${item.row.event}` : openKey(item)) : null;
    if (!key || (item.kind === "delta" && open !== false)) return;
    const now = item.kind === "call" ? this.timeline.open.has(key) : this.timeline.isOpen(item.row);
    if (open === undefined || open !== now) this.toggleOpen(key, !now, item);
  }

  toggleOpen(key, open, item = this.item) {
    const rest = this.view.now.open.filter((one) => one !== key);
    // A run that is open is named by its row, one that is closed by its first event.
    const place = open ? { e: null, r: item.at } : { e: item.row.event, r: null };
    this.list.selected = -1;
    this.view.go({ ...place, open: open ? [...rest, key].slice(-50) : rest, ...(open ? {} : { deltas: false }) });
  }

  compare() {
    const earlier = earlierOf(this, this.head);
    if (this.view.now.resume !== null) this.view.go({ resume: null }, true);
    else if (earlier) this.view.go({ resume: earlier.exchange, findings: false }, true);
    else say("This exchange goes on from no other stream.");
  }

  copyCommand() {
    const { x, e } = this.view.now;
    const said = this.recording.report ? this.recording.report.file : this.recording.file;
    const file = /^[\w./-]+$/.test(said) ? said : `'${printable(said).replace(/'/g, "'\\''")}'`;
    copy(`wiretape show ${file} ${e === null ? `--exchange ${x}` : `--at ${x}:${e}`}`, "the command");
  }

  /** What an exchange that is no stream said, asked for once. */
  wholeBodies(head) {
    const name = `${head.exchange}/${head.ended_ns}`;
    if (!this.bodies || this.bodies.name !== name) this.bodies = { name, said: this.source.bodies(head.exchange) };
    return this.bodies.said;
  }

  markNext(place) {
    this.next = place;
    this.list.draw();
  }

  focusList() {
    const other = this.view.now.findings ? this.panes.findings : this.view.now.resume !== null ? this.panes.resume : null;
    (other ? other.list : this.list).root.focus({ preventScroll: true });
  }
}
