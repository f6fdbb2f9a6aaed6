// The playhead of a replay: where it is, what comes next, and the buttons that move it.

const BREAK_KINDS = { type: "type", sequence: "sequence", tool_call_id: "tool call", finding: "finding" };

class Playhead {
  constructor(app) {
    Object.assign(this, { app, sessions: new Map(), session: null, follows: true });
    this.host = byId("playhead");
    this.host.hidden = false;
    this.host.replaceChildren(...this.parts());
    this.refresh().catch((error) => this.fail(error));
    const stream = app.source.replay.listen();
    const take = (event) => this.hear(readJson(event.data));
    stream.addEventListener("playhead", take);
    addEventListener("pagehide", () => stream.close());
  }

  parts() {
    const button = (name, text, about, todo) => (this[name] = make("button", { type: "button", class: "plain", text, title: about, "aria-label": about, onclick: todo }));
    this.pick = make("select", { "aria-label": "Session", hidden: true });
    this.pick.addEventListener("change", () => { this.session = this.pick.value; this.draw(); });
    this.status = make("span", { class: "play-status", role: "status" });
    this.bar = make("progress", { max: 1, value: 0, "aria-label": "Place of the playhead" });
    this.count = make("span", { class: "count" });
    this.next = make("span", { class: "play-next" });
    this.streams = make("span", { class: "dim" });
    const moving = make("div", { class: "play-row" }, this.pick,
      button("run", "▶ Run", "Run or pause (Space)", () => this.runOrPause()),
      button("one", "Step", "Step: let one event out (.)", () => this.step("event")),
      button("durable", "Step durable", "Step to the next durable event (>)", () => this.step("durable")),
      button("found", "Step finding", "Step to the next event with a finding", () => this.step("finding")),
      button("again", "Reset", "Begin anew; breakpoints stay", () => this.post("reset", {})),
      this.status, this.bar, this.count, this.next, this.streams);
    return [moving, make("div", { class: "play-row breaks" }, this.breaks = make("ul", { class: "breakpoints", "aria-label": "Breakpoints" }), this.adder())];
  }

  adder() {
    const kind = make("select", { "aria-label": "Kind of breakpoint" });
    for (const [name, words] of Object.entries(BREAK_KINDS)) kind.append(make("option", { value: name, text: words }));
    const value = make("input", { type: "text", "aria-label": "Break before", placeholder: "tool.*", spellcheck: false, autocomplete: "off" });
    const form = make("form", { class: "adder" }, make("span", { class: "dim", text: "Break before" }), kind, value, make("button", { class: "plain", text: "Add" }));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      const said = kind.value === "sequence" && /^\d+$/.test(value.value) ? Number(value.value) : value.value;
      if (await this.post("breakpoints", { [kind.value]: said })) value.value = "";
    });
    return form;
  }

  get now() {
    return this.sessions.get(this.session);
  }

  keys() {
    return {
      " ": () => this.runOrPause(), ".": () => this.step("event"), ">": () => this.step("durable"),
      b: () => this.breakHere(), s: () => this.seekHere(),
    };
  }

  async refresh() {
    this.take(await this.app.source.replay.state());
  }

  take(state) {
    for (const one of state.sessions || []) this.sessions.set(one.session, one);
    if (!this.now && this.sessions.size) this.session = this.sessions.keys().next().value;
    this.tape = !this.sessions.size;
    this.draw();
  }

  /** A change: shown at once, and asked for in full, since it tells lists as counts. */
  hear(state) {
    const was = this.sessions.get(state.session);
    if (was) this.sessions.set(state.session, { ...state, next: was.next, breakpoints: was.breakpoints, streams: was.streams });
    this.draw();
    this.stale = true;
    if (!this.asking) this.catchUp();
  }

  async catchUp() {
    this.asking = true;
    try {
      while (this.stale) {
        this.stale = false;
        await this.refresh();
      }
    } catch (error) {
      this.fail(error);
    }
    this.asking = false;
  }

  async post(what, body) {
    try {
      this.take(await this.app.source.replay.post(what, this.session === null ? body : { session: this.session, ...body }));
      return true;
    } catch (error) {
      this.fail(error);
      return false;
    }
  }

  fail(error) {
    trouble(error.message);
  }

  runOrPause() {
    if (this.now) this.post(this.now.standing || this.now.paused ? "resume" : "pause", {});
  }

  step(to) {
    this.post("step", { to });
  }

  seekHere() {
    const row = this.app.selectedRow();
    if (!row || row.row !== "event") say("Choose an event first.");
    else if (row.sequence !== null) this.post("seek", { sequence: Number(row.sequence) });
    else if (row.id) this.post("seek", { event: row.id });
    else trouble("This event has neither a sequence nor an id: seek to one that has.");
  }

  breakHere() {
    const row = this.app.selectedRow();
    if (!row || row.row !== "event") say("Choose an event first.");
    else if (row.sequence !== null) this.post("breakpoints", { sequence: Number(row.sequence) });
    else this.post("breakpoints", { type: row.type });
  }

  async remove(point) {
    const named = Object.fromEntries(Object.keys(BREAK_KINDS).filter((name) => point[name] !== null && point[name] !== undefined).map((name) => [name, point[name]]));
    try {
      await this.app.source.replay.remove({ session: this.session, ...named });
      await this.refresh();
    } catch (error) {
      this.fail(error);
    }
  }

  draw() {
    const state = this.now;
    for (const button of [this.run, this.one, this.durable, this.found]) button.disabled = !state;
    if (!state) {
      setText(this.status, this.tape ? "no session to step through: recorded answers only" : "…");
      return;
    }
    this.drawSessions();
    const stands = state.standing || state.paused;
    setText(this.run, stands ? "▶ Run" : "❚❚ Pause");
    setText(this.status, this.words(state));
    setClass(this.status, `play-status ${state.status}`);
    this.bar.max = Math.max(state.length, 1);
    this.bar.value = state.place;
    setText(this.count, `${grouped(state.place)} / ${grouped(state.length)} · ${duration(state.position_ms * 1e6)}`);
    this.drawNext(state.next);
    setText(this.streams, counted(state.streams.length, "stream") + " connected");
    this.drawBreaks(state);
    this.follow(state);
  }

  words(state) {
    const said = { waiting: "waits for a stream", moving: "moving", paused: "paused", breakpoint: "at a breakpoint", end: "at the end" };
    return said[state.status] || printable(state.status);
  }

  drawSessions() {
    this.pick.hidden = this.sessions.size < 2;
    if (this.pick.options.length === this.sessions.size) return;
    this.pick.replaceChildren(...[...this.sessions.keys()].map((name) => make("option", { value: name, text: shown(name, 60), selected: name === this.session })));
  }

  drawNext(next) {
    const name = next ? JSON.stringify(next) : "";
    if (this.nextName === name) return;
    this.nextName = name;
    this.next.replaceChildren();
    if (!next) return;
    const what = next.type || (next.ending ? `end: ${next.ending}` : next.kind);
    this.next.append(make("span", { class: "dim", text: "next " }), make("code", { text: shown(what, 60) }));
    if (next.sequence !== null) this.next.append(` seq ${digits(next.sequence)}`);
    const place = sourceOf(next);
    if (place) this.next.append(" ", placeLink(place, this.app));
  }

  drawBreaks(state) {
    const points = Array.isArray(state.breakpoints) ? state.breakpoints : [];
    const name = JSON.stringify([points, state.stopped_by]);
    if (this.breaksName === name) return;
    this.breaksName = name;
    this.breaks.replaceChildren(...points.map((point) => {
      const words = Object.entries(BREAK_KINDS).filter(([key]) => point[key] !== null && point[key] !== undefined).map(([key, said]) => `${said} ${shown(point[key], 60) || "any"}`).join(", ");
      const stopped = JSON.stringify(state.stopped_by) === JSON.stringify(point);
      const drop = make("button", { type: "button", class: "drop", text: "✕", "aria-label": `Remove the breakpoint ${words}`, onclick: () => this.remove(point) });
      return make("li", { class: stopped ? "stopped" : "" }, make("span", { "aria-hidden": "true", class: "sign", text: "● " }), words, drop);
    }));
  }

  /** Mark what comes next in the timeline, and go there where the playhead stands. */
  follow(state) {
    const place = state.next && sourceOf(state.next);
    const name = place ? `${place.exchange}:${place.event}` : "";
    if (this.followed === name) return;
    const first = this.followed === undefined;
    this.followed = name;
    this.app.markNext(place);
    if (place && !first && this.follows && state.status !== "moving") this.app.goEvent(place.exchange, place.event, false);
  }
}

function sourceOf(next) {
  const found = /^(\d+):(\d+)$/.exec(next.source || "");
  return found ? { exchange: Number(found[1]), event: Number(found[2]) } : null;
}
