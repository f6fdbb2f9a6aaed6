// What the live checks found: beside an event, and all of it as a list.

function showItemFindings(panel, item, app) {
  const found = findingsOf(item, app.timeline);
  if (found.length) {
    panel.append(...found.slice(0, 200).map((one) => findingCard(one, app)));
    return;
  }
  const number = app.recording.findings.length;
  const words = number ? `Nothing was found here. The recording has ${counted(number, "finding")}: n goes to the next one, f lists them all.` : "Nothing was found, here or elsewhere in this recording.";
  panel.append(make("p", { class: "empty", text: words }));
}

/** A finding with what was expected and what came, and the clause that it is about. */
function findingCard(beside, app) {
  const found = reportOf(beside, app);
  const rule = app.recording.rules[found.code];
  const card = make("article", { class: `finding-card ${SIGNS[found.severity] ? found.severity : "error"}` });
  const title = make("h3", null, severityMark(found.severity), ` ${printable(found.code)} `, make("span", { class: "dim", text: rule ? printable(rule.name) : "" }));
  const both = [["expected", printable(found.expected)], ["got", printable(found.actual)]];
  card.append(title, found.expected && found.actual ? dress(factList(both), { class: "facts-list both" }) : make("p", { class: "message", text: printable(found.message) }));
  const evidence = evidenceBox(found);
  if (evidence) card.append(evidence);
  card.append(factList([
    ["request", found.request ? make("code", { text: shown(found.request, 300) }) : null],
    ["clause", rule ? `${printable(rule.clause)}${rule.basis ? ` (${printable(rule.basis)})` : ""}` : null],
    ["about", rule && rule.about ? inOneLine(rule.about) : null],
    ["side", printable(found.side)],
    ["sequence", found.sequence === null ? null : digits(found.sequence)],
    ["bytes", found.byte_offset === null ? null : found.end ? `${grouped(found.byte_offset)}–${grouped(found.end)}` : `from ${grouped(found.byte_offset)}`],
    ["time", found.see ? moment(found.time_ns) : null],
    ["shown by", found.see ? make("code", { text: printable(found.see) }) : null],
    ["explained by", make("code", { text: `wiretape rule ${printable(found.code)}` })],
  ]));
  return card;
}

/** The list of all findings, in place of the timeline. */
class FindingsPane {
  constructor(host, app) {
    this.app = app;
    if (app.recording.report) host.append(reportSummary(app));
    this.found = new VirtualList(host, {
      label: "Findings", height: 46,
      columns: ["severity", "rule", "place", "message"].map((name) => ({ name })),
      fill: (cells, found, node) => this.fillRow(cells, found, node),
      chosen: (index, _found, event) => (event.type === "click" ? this.open(index) : this.look(index)),
    });
    this.found.root.addEventListener("keydown", (event) => { if (event.key === "Enter") this.open(this.found.selected); });
    this.nothing = make("p", { class: "empty nothing", text: "Nothing was found.", hidden: true });
    this.found.root.before(this.nothing);
    if (app.recording.report) this.verdicts = new VerdictList(host, app);
  }

  /** The list that is shown: all findings, or of a report all rules. */
  get list() {
    return this.rules ? this.verdicts.list : this.found;
  }

  get rules() {
    return Boolean(this.verdicts && this.app.view.now.verdicts);
  }

  show() {
    const { findings } = this.app.recording;
    const { x, e } = this.app.view.now;
    if (this.verdicts) {
      this.verdicts.host.hidden = !this.rules;
      showSummaryTabs(this.rules);
    }
    this.nothing.hidden = this.rules || findings.length > 0;
    this.found.root.hidden = this.rules || !findings.length;
    if (this.rules) {
      this.verdicts.show();
      this.list.root.focus({ preventScroll: true });
      return;
    }
    const same = e === null ? 0 : findings.findIndex((found) => found.exchange === x && found.event === e);
    this.list.show(findings, -1);
    this.look(Math.max(same, 0));
    this.list.root.focus({ preventScroll: true });
  }

  /** Show a finding beside the list. */
  look(index) {
    this.list.select(index);
    const found = this.app.recording.findings[index];
    this.app.detail.showFound(found || null);
  }

  fillRow(cells, found, node) {
    const rule = this.app.recording.rules[found.code];
    const severity = SIGNS[found.severity] ? found.severity : "error";
    setClass(node, "row");
    if (cells.severity.dataset.said !== severity) {
      cells.severity.dataset.said = severity;
      cells.severity.replaceChildren(severityMark(severity));
    }
    setText(cells.rule, `${printable(found.code)} ${rule ? printable(rule.name) : ""}`);
    setText(cells.place, found.event === null ? `#${found.exchange}` : `${found.exchange}:${found.event}`);
    setText(cells.message, printable(found.message));
  }

  open(index) {
    const found = this.app.recording.findings[index];
    if (found) this.app.goFinding(found);
  }
}
