// The list of all findings, in place of the timeline; a report also lists all rules.

import { element, setClass, setText, severityMark } from "./dom.js";
import { SEVERITY_SIGNS, printable } from "./format.js";
import { reportSummary, showReportTabs } from "./report_summary.js";
import { RulesList } from "./rules_list.js";
import { VirtualList } from "./virtual_list.js";

export class FindingsPane {
  constructor(host, app) {
    this.app = app;
    if (app.recording.report) host.append(reportSummary(app));
    this.findings = new VirtualList(host, {
      label: "Findings", height: 46,
      columns: ["severity", "rule", "place", "message"].map((name) => ({ name })),
      fill: (cells, found, node) => this.fillRow(cells, found, node),
      chosen: (index, _found, event) => (event.type === "click" ? this.open(index) : this.preview(index)),
    });
    this.findings.root.addEventListener("keydown", (event) => { if (event.key === "Enter") this.open(this.findings.selected); });
    this.none = element("p", { class: "empty nothing", text: "No findings.", hidden: true });
    this.findings.root.before(this.none);
    if (app.recording.report) this.rules = new RulesList(host, app);
  }

  /** The list that is shown: the findings, or the rules of a report. */
  get list() {
    return this.showsRules ? this.rules.list : this.findings;
  }

  get showsRules() {
    return Boolean(this.rules && this.app.view.verdicts);
  }

  show() {
    const { findings } = this.app.recording;
    const { x, e } = this.app.view;
    if (this.rules) {
      this.rules.host.hidden = !this.showsRules;
      showReportTabs(this.showsRules);
    }
    this.none.hidden = this.showsRules || findings.length > 0;
    this.findings.root.hidden = this.showsRules || !findings.length;
    if (this.showsRules) this.rules.show();
    else {
      const same = e === null ? 0 : findings.findIndex((found) => found.exchange === x && found.event === e);
      this.findings.show(findings, -1);
      this.preview(Math.max(same, 0));
    }
    this.list.root.focus({ preventScroll: true });
  }

  /** Show a finding in the details. */
  preview(index) {
    this.findings.select(index);
    this.app.detail.showFinding(this.app.recording.findings[index] || null);
  }

  /** Go to the event of a finding. */
  open(index) {
    const found = this.app.recording.findings[index];
    if (found) this.app.navigation.goFinding(found);
  }

  fillRow(cells, found, node) {
    const rule = this.app.recording.rules[found.code];
    const severity = SEVERITY_SIGNS[found.severity] ? found.severity : "error";
    setClass(node, "row");
    if (cells.severity.dataset.severity !== severity) {
      cells.severity.dataset.severity = severity;
      cells.severity.replaceChildren(severityMark(severity));
    }
    setText(cells.rule, `${printable(found.code)} ${rule ? printable(rule.name) : ""}`);
    setText(cells.place, found.event === null ? `#${found.exchange}` : `${found.exchange}:${found.event}`);
    setText(cells.message, printable(found.message));
  }
}
