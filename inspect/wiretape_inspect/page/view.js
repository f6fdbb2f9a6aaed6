// The state of the whole view, which lives in the address: every moment has a link.

const BLANK = {
  x: null, // the exchange
  e: null, // the selected event, or
  r: null, // the selected row, where it is no event: its number among the exchange's rows
  q: "", // the filter
  tab: "payload",
  deltas: false, // every delta shown
  tools: false, // a row for each tool call
  open: [], // runs of deltas and tool calls that are open
  resume: null, // the earlier connection that the exchange is compared with
  findings: false, // all findings in place of the timeline
  verdicts: false, // and of a report every rule in place of them
};
const TABS = ["payload", "bytes", "findings", "state"];

function readHash(hash) {
  const said = new URLSearchParams(hash.replace(/^#/, ""));
  const whole = (name) => (/^\d{1,15}$/.test(said.get(name) || "") ? Number(said.get(name)) : null);
  return {
    x: whole("x"),
    e: whole("e"),
    r: whole("r"),
    q: said.get("q") || "",
    tab: TABS.includes(said.get("tab")) ? said.get("tab") : "payload",
    deltas: said.get("deltas") === "1",
    tools: said.get("tools") === "1",
    open: said.getAll("open").slice(0, 50),
    resume: whole("resume"),
    findings: said.get("findings") === "1",
    verdicts: said.get("verdicts") === "1",
  };
}

function writeHash(view) {
  const parts = [];
  const add = (name, value) => parts.push(`${name}=${encodeURIComponent(value).replace(/%3A/g, ":").replace(/%2C/g, ",")}`);
  if (FILE > 1) add("f", FILE);
  for (const name of ["x", "e", "r"]) if (view[name] !== null) add(name, view[name]);
  if (view.q) add("q", view.q);
  if (view.tab !== "payload") add("tab", view.tab);
  for (const name of ["deltas", "tools", "findings"]) if (view[name]) add(name, 1);
  if (view.findings && view.verdicts) add("verdicts", 1);
  for (const name of view.open) add("open", name);
  if (view.resume !== null) add("resume", view.resume);
  return `#${parts.join("&")}`;
}

/** What the view is, and whom to tell when it becomes another. */
class View {
  constructor(told) {
    this.now = { ...BLANK };
    this.told = told;
    this.written = null;
    addEventListener("popstate", () => this.take());
    addEventListener("hashchange", () => this.take());
  }

  /** Become what the address says. */
  take() {
    if (location.hash === this.written) return;
    if (REPORT && fileIn(location.hash) !== FILE) {
      location.reload();
      return;
    }
    this.written = location.hash;
    this.become(readHash(location.hash));
  }

  /** Change some of it; `push` makes a place that the reader can go back to. */
  go(changes, push = false) {
    this.become({ ...this.now, ...changes }, push ? "pushState" : "replaceState");
  }

  become(next, write = "replaceState") {
    const before = this.now;
    this.now = next;
    const hash = writeHash(next);
    if (hash !== this.written) {
      this.written = hash;
      this.record(write, hash);
    }
    this.told(next, before);
  }

  /** Browsers refuse addresses that change too often; the last one is written a moment later. */
  record(write, hash) {
    clearTimeout(this.later);
    try {
      history[write](null, "", hash);
    } catch {
      this.later = setTimeout(() => this.record("replaceState", this.written), 500);
    }
  }
}
