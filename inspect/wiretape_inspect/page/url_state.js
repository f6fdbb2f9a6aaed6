// The state of the view, which is stored in the fragment of the URL: every view has a link.

import { TIME_MODES } from "./clock.js";
import { recordingNumber } from "./recorded_answers.js";

export const EMPTY_VIEW = {
  x: null, // the exchange
  e: null, // the selected event, or
  r: null, // the selected row if it is not an event: its index among the rows of the exchange
  q: "", // the filter
  tab: "payload",
  deltas: false, // show every delta
  tools: false, // show one row for each entity inside another one
  open: [], // the runs of deltas and entities that are open
  resume: null, // the earlier connection with which the exchange is compared
  diff: false, // show what differs from another recording in place of the timeline
  findings: false, // show all findings in place of the timeline
  time: "recording", // how times are shown
  verdicts: false, // and in a report, show all rules in place of the findings
};
export const TABS = ["payload", "bytes", "findings", "state", "headers"];

const NUMBERS = ["x", "e", "r", "resume"];
const FLAGS = ["deltas", "tools", "findings", "diff", "verdicts"];

function parseView(hash) {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const view = { ...EMPTY_VIEW, q: parameters.get("q") || "", open: parameters.getAll("open").slice(0, 50) };
  for (const name of NUMBERS) if (/^\d{1,15}$/.test(parameters.get(name) || "")) view[name] = Number(parameters.get(name));
  for (const name of FLAGS) view[name] = parameters.get(name) === "1";
  if (TABS.includes(parameters.get("tab"))) view.tab = parameters.get("tab");
  if (Object.hasOwn(TIME_MODES, parameters.get("time"))) view.time = parameters.get("time");
  return view;
}

function formatView(view, recording) {
  const parts = recording > 1 ? [`f=${recording}`] : [];
  for (const [name, initial] of Object.entries(EMPTY_VIEW)) {
    const isShown = view[name] !== initial && (name !== "verdicts" || view.findings);
    const values = !isShown ? [] : name === "open" ? view.open : [view[name] === true ? 1 : view[name]];
    for (const value of values) parts.push(`${name}=${encodeURIComponent(value).replace(/%3A/g, ":").replace(/%2C/g, ",")}`);
  }
  return `#${parts.join("&")}`;
}

/** Keeps the view and the URL equal; `changed(view, before, isLink)` is called when the view changes. */
export class UrlState {
  constructor(recording, changed) {
    Object.assign(this, { recording, changed, view: { ...EMPTY_VIEW }, hash: null });
    addEventListener("popstate", () => this.read());
    addEventListener("hashchange", () => this.read());
  }

  /** Read the view from the URL. */
  read() {
    if (location.hash === this.hash) return;
    if (recordingNumber(location.hash) !== this.recording) {
      location.reload();
      return;
    }
    this.hash = location.hash;
    this.set(parseView(location.hash), "replaceState", true);
  }

  /** Change some of the view; with `push`, the browser's back button undoes it. */
  change(changes, push = false) {
    this.set({ ...this.view, ...changes }, push ? "pushState" : "replaceState");
  }

  set(view, write, isLink = false) {
    const before = this.view;
    this.view = view;
    const hash = formatView(view, this.recording);
    if (hash !== this.hash) {
      this.hash = hash;
      this.write(write, hash);
    }
    this.changed(view, before, isLink);
  }

  /** Write the URL.  Browsers refuse URLs that change too often, so the last one is written again later. */
  write(method, hash) {
    clearTimeout(this.retry);
    try {
      history[method](null, "", hash);
    } catch {
      this.retry = setTimeout(() => this.write("replaceState", this.hash), 500);
    }
  }
}
