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

function parseView(hash) {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const number = (name) => (/^\d{1,15}$/.test(parameters.get(name) || "") ? Number(parameters.get(name)) : null);
  const flag = (name) => parameters.get(name) === "1";
  return {
    x: number("x"),
    e: number("e"),
    r: number("r"),
    q: parameters.get("q") || "",
    tab: TABS.includes(parameters.get("tab")) ? parameters.get("tab") : "payload",
    deltas: flag("deltas"),
    tools: flag("tools"),
    open: parameters.getAll("open").slice(0, 50),
    resume: number("resume"),
    findings: flag("findings"),
    diff: flag("diff"),
    verdicts: flag("verdicts"),
    time: Object.hasOwn(TIME_MODES, parameters.get("time")) ? parameters.get("time") : "recording",
  };
}

function formatView(view, recording) {
  const parts = [];
  const add = (name, value) => parts.push(`${name}=${encodeURIComponent(value).replace(/%3A/g, ":").replace(/%2C/g, ",")}`);
  if (recording > 1) add("f", recording);
  for (const name of ["x", "e", "r"]) if (view[name] !== null) add(name, view[name]);
  if (view.q) add("q", view.q);
  if (view.tab !== "payload") add("tab", view.tab);
  for (const name of ["deltas", "tools", "findings", "diff"]) if (view[name]) add(name, 1);
  if (view.findings && view.verdicts) add("verdicts", 1);
  if (view.time !== "recording") add("time", view.time);
  for (const name of view.open) add("open", name);
  if (view.resume !== null) add("resume", view.resume);
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
