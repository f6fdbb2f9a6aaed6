// The list of all findings, in place of the timeline, in groups and filtered; a report also lists all rules.

import { codeText, element, setClass, setProperties, setText, severityMark } from "./dom.js";
import { SEVERITIES, SEVERITY_SIGNS, formatCount, formatNumber, printable } from "./format.js";
import { reportSummary, showReportTabs } from "./report_summary.js";
import { RulesList } from "./rules_list.js";
import { VirtualList } from "./virtual_list.js";

const GROUPS = {
  none: ["not grouped", () => ""],
  rule: ["by rule", (found) => found.code],
  severity: ["by severity", (found) => found.severity],
  side: ["by side", (found) => found.side],
  exchange: ["by exchange", (found) => `#${found.exchange}`],
};

export class FindingsPane {
  constructor(host, app) {
    Object.assign(this, { app, group: "none", closed: new Set(), chosen: { code: "", severity: "", side: "" } });
    if (app.recording.report) host.append(reportSummary(app));
    this.tools = element("div", { class: "bar findings-bar" });
    host.append(this.tools);
    this.findings = new VirtualList(host, {
      label: "Findings", height: 46,
      columns: ["severity", "rule", "place", "message"].map((name) => ({ name })),
      fill: (cells, item, node) => this.fillRow(cells, item, node),
      chosen: (index, item, event) => (event.type === "click" && item.all ? this.open(index) : this.preview(index)),
      opened: (index) => this.open(index),
    });
    this.findings.root.addEventListener("keydown", (event) => { if (event.key === "Enter") this.open(this.findings.selected); });
    this.none = element("p", { class: "empty nothing", text: "No findings.", hidden: true });
    this.findings.root.before(this.none);
    if (app.recording.report) this.rules = new RulesList(host, app);
    this.fillTools();
  }

  /** The list that is shown: the findings, or the rules of a report. */
  get list() {
    return this.showsRules ? this.rules.list : this.findings;
  }

  get showsRules() {
    return Boolean(this.rules && this.app.view.verdicts);
  }

  /** The choices of what is listed, and how it is grouped. */
  fillTools() {
    const { recording } = this.app;
    const values = (name) => [...new Set(recording.findings.map((found) => found[name]))].sort();
    const choice = (label, options, value, change) => {
      const select = element("select", { "aria-label": label, onchange: () => { change(select.value); this.update(); } });
      for (const [name, text] of options) select.append(element("option", { value: name, text, selected: name === value }));
      return select;
    };
    const filter = (label, name, all, names) => setProperties(choice(
      label, [["", all], ...names.map((one) => [one, printable(one)])], this.chosen[name], (value) => { this.chosen[name] = value; },
    ), { name });
    this.count = element("output", { class: "count" });
    this.tools.replaceChildren(
      filter("Severity", "severity", "all severities", SEVERITIES.filter((one) => values("severity").includes(one))),
      filter("Side", "side", "all sides", values("side")),
      filter("Rule", "code", "all rules", values("code")),
      choice("Group", Object.entries(GROUPS).map(([name, [text]]) => [name, text]), this.group, (value) => { this.group = value; this.closed.clear(); }),
      this.count,
    );
    this.known = recording.findings.length;
  }

  /** Show with each choice how many of its findings the other choices leave. */
  countChoices(findings) {
    for (const { name, options } of this.tools.querySelectorAll("select[name]")) {
      const others = { ...this.chosen, [name]: "" };
      const counts = new Map();
      for (const found of findings) if (isChosen(found, others)) counts.set(found[name], (counts.get(found[name]) || 0) + 1);
      for (const option of options) {
        if (option.value) setText(option, `${printable(option.value)} (${formatNumber(counts.get(option.value) || 0)})`);
      }
    }
  }

  show() {
    const { x, e } = this.app.view;
    if (this.rules) {
      this.rules.host.hidden = !this.showsRules;
      showReportTabs(this.showsRules);
    }
    this.update();
    if (this.showsRules) this.rules.show();
    else {
      const items = this.findings.items;
      const same = e === null ? -1 : items.findIndex((item) => item.found && item.found.exchange === x && item.found.event === e);
      this.preview(same >= 0 ? same : Math.max(items.findIndex((item) => item.found), 0));
    }
    this.list.root.focus({ preventScroll: true });
  }

  /** List the findings again. */
  update() {
    const { findings } = this.app.recording;
    if (this.known !== findings.length) this.fillTools();
    const selected = this.findings.items[this.findings.selected];
    const shown = findings.filter((found) => isChosen(found, this.chosen));
    this.countChoices(findings);
    const items = this.group === "none" ? shown.map((found) => ({ found })) : this.grouped(shown);
    this.none.hidden = this.showsRules || items.length > 0;
    setText(this.none, findings.length ? "No findings match." : "No findings.");
    this.findings.root.hidden = this.showsRules || !items.length;
    this.tools.hidden = this.showsRules || !findings.length;
    setText(this.count, shown.length === findings.length ? "" : `${formatNumber(shown.length)} / ${formatNumber(findings.length)}`);
    this.findings.show(items, selected ? items.findIndex((item) => item.found === selected.found && item.group === selected.group) : -1);
  }

  /** Each group, followed by its findings unless it is closed; the largest group of the worst severity comes first. */
  grouped(findings) {
    const groups = new Map();
    const nameOf = GROUPS[this.group][1];
    for (const found of findings) {
      const name = nameOf(found);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(found);
    }
    const worst = (all) => Math.min(...all.map((found) => SEVERITIES.indexOf(found.severity) >>> 0));
    const sorted = [...groups].sort(([, a], [, b]) => worst(a) - worst(b) || b.length - a.length);
    return sorted.flatMap(([group, all]) => [
      { group, all }, ...(this.closed.has(group) ? [] : all.map((found) => ({ found }))),
    ]);
  }

  /** Show a finding, or what its group has in common, in the details. */
  preview(index) {
    this.findings.select(index);
    const item = this.findings.items[index];
    if (item && item.group !== undefined) this.app.detail.showGroup(this.titleOf(item), this.app.recording.rules[item.group]);
    else this.app.detail.showFinding(item ? item.found : null);
  }

  /** Go to the event of a finding, or open or close a group. */
  open(index) {
    const item = this.findings.items[index];
    if (!item) return;
    if (item.found) {
      this.app.navigation.goFinding(item.found);
      return;
    }
    if (!this.closed.delete(item.group)) this.closed.add(item.group);
    this.update();
    this.preview(index);
  }

  titleOf({ group }) {
    const rule = this.app.recording.rules[group];
    return `${printable(group)} ${rule ? printable(rule.name) : ""}`;
  }

  fillRow(cells, item, node) {
    const { found, all } = item;
    const severity = found ? (SEVERITY_SIGNS[found.severity] ? found.severity : "error") : "";
    setClass(node, found ? "row" : "row group");
    if (found) node.removeAttribute("aria-expanded");
    else node.setAttribute("aria-expanded", !this.closed.has(item.group));
    if (cells.severity.dataset.severity !== severity) {
      cells.severity.dataset.severity = severity;
      cells.severity.replaceChildren(...(severity ? [severityMark(severity)] : []));
    }
    if (!found) {
      setText(cells.rule, `${this.closed.has(item.group) ? "▸" : "▾"} ${this.titleOf(item)}`);
      setText(cells.place, formatCount(all.length, "finding"));
      cells.message.replaceChildren();
      return;
    }
    const rule = this.app.recording.rules[found.code];
    setText(cells.rule, `${printable(found.code)} ${rule ? printable(rule.name) : ""}`);
    setText(cells.place, found.event === null ? `#${found.exchange}` : `${found.exchange}:${found.event}`);
    cells.message.replaceChildren(...codeText(found.message));
  }
}

function isChosen(found, { code, severity, side }) {
  return (!code || found.code === code) && (!severity || found.severity === severity) && (!side || found.side === side);
}
