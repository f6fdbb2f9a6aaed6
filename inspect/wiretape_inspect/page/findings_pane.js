// The list of all findings, in place of the timeline, in groups and filtered; a report also lists all rules.

import { codeText, element, setClass, setProperties, setText } from "./dom.js";
import { SEVERITIES, SEVERITY_SIGNS, formatCount, formatNumber, printable, worstSeverity } from "./format.js";
import { listCount, reportSummary, showReportTabs } from "./report_summary.js";
import { RulesList } from "./rules_list.js";
import { ROW_HEIGHT } from "./timeline_row.js";
import { VirtualList } from "./virtual_list.js";

const GROUPS = {
  none: ["not grouped", () => ""],
  rule: ["by rule", (found) => found.code],
  severity: ["by severity", (found) => found.severity],
  side: ["by side", (found) => found.side],
  exchange: ["by exchange", (found) => `#${found.exchange}`],
};
const MANY = 10; // findings that are in groups at first
const FILTERS = { severity: "all severities", side: "all sides", code: "all rules" };

export class FindingsPane {
  constructor(host, app) {
    Object.assign(this, { app, group: null, closed: new Set(), chosen: { code: "", severity: "", side: "" } });
    if (app.recording.report) host.append(reportSummary(app));
    this.tools = element("div", { class: "bar findings-bar" });
    host.append(this.tools);
    this.findings = new VirtualList(host, {
      label: "Findings", height: ROW_HEIGHT,
      columns: [["severity"], ["rule"], ["message"], ["place"]],
      fill: (cells, item, node) => this.fillRow(cells, item, node),
      chosen: (index, item, event) => (event.type === "click" && item.all ? this.open(index) : this.preview(index)),
      opened: (index) => this.open(index),
    });
    this.none = element("p", { class: "empty nothing", hidden: true });
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

  get grouping() {
    return this.group ?? (this.app.recording.findings.length < MANY ? "none" : "rule");
  }

  /** The number of findings, and the choices of what is listed and how it is grouped, as far as they change anything. */
  fillTools(shown) {
    const { findings } = this.app.recording;
    const choice = (label, options, value, change) => {
      const select = element("select", { "aria-label": label, onchange: () => { change(select.value); this.update(); this.previewSelected(); } });
      for (const [name, text] of options) select.append(element("option", { value: name, text, selected: name === value }));
      return options.length > 2 || (options.length && value) ? select : null;
    };
    const selects = Object.entries(FILTERS).map(([name, all]) => {
      const known = [...new Set(findings.map((found) => found[name]))].sort((a, b) => SEVERITIES.indexOf(a) - SEVERITIES.indexOf(b) || (a < b ? -1 : 1));
      const others = findings.filter((found) => isChosen(found, { ...this.chosen, [name]: "" }));
      const count = (one) => formatNumber(others.filter((found) => found[name] === one).length);
      const options = [["", all], ...known.map((one) => [one, `${printable(one)} (${count(one)})`])];
      return choice(name === "code" ? "Rule" : name === "side" ? "Side" : "Severity", options, this.chosen[name], (value) => { this.chosen[name] = value; });
    });
    const groups = findings.length < 2 ? [] : Object.entries(GROUPS).map(([name, [text]]) => [name, text]);
    const total = listCount(this.app);
    const count = element("output", { class: "count", text: shown.length === findings.length ? total : `${formatNumber(shown.length)} / ${total}` });
    const group = choice("Group", groups, this.grouping, (value) => { this.group = value; this.closed.clear(); });
    const focused = document.activeElement?.ariaLabel;
    this.tools.replaceChildren(...[count, ...selects, group].filter((one) => one));
    if (focused) this.tools.querySelector(`[aria-label="${CSS.escape(focused)}"]`)?.focus();
  }

  show() {
    if (this.rules) {
      this.rules.host.hidden = !this.showsRules;
      showReportTabs(this.showsRules);
    }
    this.update();
    if (this.showsRules) this.rules.show();
    else this.previewSelected();
    this.list.root.focus({ preventScroll: true });
  }

  update() {
    const { findings } = this.app.recording;
    const selected = this.findings.items[this.findings.selected];
    const shown = findings.filter((found) => isChosen(found, this.chosen));
    const items = this.grouping === "none" ? shown.map((found) => ({ found })) : this.grouped(shown);
    this.none.hidden = this.showsRules || items.length > 0;
    setText(this.none, findings.length ? "No findings match." : "No findings.");
    this.findings.root.hidden = this.showsRules || !items.length;
    this.findings.root.classList.toggle("by-rule", this.grouping === "rule");
    this.tools.hidden = this.showsRules;
    this.fillTools(shown);
    this.findings.show(items, selected ? items.findIndex((item) => item.found === selected.found && item.group === selected.group) : -1);
  }

  /** Show the selected finding, or else the first one about the event that the view names, or else the first. */
  previewSelected() {
    const { items, selected } = this.findings;
    const { x, e } = this.app.view;
    const same = e === null ? -1 : items.findIndex(({ found }) => found && found.exchange === x && found.event === e);
    this.preview(selected >= 0 ? selected : same >= 0 ? same : Math.max(items.findIndex((item) => item.found), 0));
  }

  /** Each group, followed by its findings unless it is closed; the largest group of the worst severity comes first. */
  grouped(findings) {
    const groups = Map.groupBy(findings, GROUPS[this.grouping][1]);
    const worst = (all) => SEVERITIES.indexOf(worstSeverity(all));
    const sorted = [...groups].sort(([, a], [, b]) => worst(a) - worst(b) || b.length - a.length);
    return sorted.flatMap(([group, all]) => [{ group, all }, ...(this.closed.has(group) ? [] : all.map((found) => ({ found })))]);
  }

  /** Show a finding, or what its group has in common, in the details; list and strip mark its place. */
  preview(index) {
    const { app } = this;
    this.findings.select(index);
    const item = this.findings.items[index];
    if (item && item.all) app.detail.showGroup(this.titleOf(item.group), app.recording.rules[item.group]);
    else app.detail.showFinding(item ? item.found : null);
    if (!item || !item.found) return;
    const head = app.recording.exchanges.find((one) => one.exchange === item.found.exchange);
    app.sidebar.select(head);
    app.strip.showExchanges(app.recording.exchanges, head);
    app.strip.setLines({ cursor: item.found.time_ns });
  }

  /** Go to the event of a finding, or open or close a group. */
  open(index) {
    const item = this.findings.items[index];
    if (item?.found) this.app.navigation.goFinding(item.found);
    else if (item) {
      if (!this.closed.delete(item.group)) this.closed.add(item.group);
      this.update();
      this.preview(index);
    }
  }

  /** A rule with its name; of another group, its name. */
  titleOf(code) {
    const rule = this.app.recording.rules[code];
    return `${printable(code)} ${rule ? printable(rule.name) : ""}`;
  }

  fillRow(cells, { found, all, group }, node) {
    const severity = worstSeverity(all || [found]);
    setClass(node, found ? "row" : "row group");
    if (found) node.removeAttribute("aria-expanded");
    else node.setAttribute("aria-expanded", !this.closed.has(group));
    setClass(cells.severity, `severity ${severity}`);
    setText(cells.severity, SEVERITY_SIGNS[severity]);
    setProperties(cells.severity, { "aria-label": severity });
    setText(cells.rule, found ? this.titleOf(found.code) : `${this.closed.has(group) ? "▸" : "▾"} ${this.titleOf(group)}`);
    setText(cells.place, !found ? formatCount(all.length, "finding") : found.event === null ? `#${found.exchange}` : `${found.exchange}:${found.event}`);
    cells.message.replaceChildren(...(found ? codeText(found.message) : []));
  }
}

function isChosen(found, { code, severity, side }) {
  return (!code || found.code === code) && (!severity || found.severity === severity) && (!side || found.side === side);
}
