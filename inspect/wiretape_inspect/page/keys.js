// The keys, for the whole page.

const TYPING = /^(INPUT|TEXTAREA|SELECT)$/;

function watchKeys(app) {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || byId("dialog").open) return;
    if (event.key === "Escape") { escape(app, event); return; }
    if (TYPING.test(event.target.tagName)) return;
    if (event.key.startsWith("Arrow") && !event.target.closest(".list")) return;
    // Enter and Space are a button's own.
    if ([" ", "Enter"].includes(event.key) && event.target.closest("button, [role=separator], a")) return;
    const todo = keyTable(app)[event.key];
    if (!todo) return;
    event.preventDefault();
    todo();
  });
}

function keyTable(app) {
  const durable = (item) => item.kind === "row" && item.row.kind === "durable";
  const found = (item) => findingsOf(item, app.timeline).length > 0;
  return {
    j: () => app.step(1), k: () => app.step(-1),
    J: () => app.step(1, durable, "durable event"), K: () => app.step(-1, durable, "durable event"),
    n: () => app.stepFinding(1, found), p: () => app.stepFinding(-1, found),
    Enter: () => app.flip(), ArrowRight: () => app.flip(true), ArrowLeft: () => app.flip(false),
    d: () => app.view.go({ deltas: !app.view.now.deltas, open: app.view.now.open.filter((key) => !key.startsWith("e")) }),
    t: () => app.view.go({ tools: !app.view.now.tools }),
    g: () => askPlace(app), "/": () => byId("filter").select(), "?": () => showHelp(app),
    r: () => app.view.go({ tab: app.view.now.tab === "bytes" ? "payload" : "bytes" }),
    ...Object.fromEntries(TABS.map((tab, at) => [String(at + 1), () => app.view.go({ tab })])),
    y: () => copy(location.href, "a link to this view"), Y: () => app.copyCommand(),
    x: () => pickExchange(app), "[": () => app.stepExchange(-1), "]": () => app.stepExchange(1),
    o: () => pickFile(),
    c: () => app.compare(), f: () => app.view.go({ findings: !app.view.now.findings, resume: null }, true),
    ...(app.playhead ? app.playhead.keys() : {}),
  };
}

/** Escape takes back one thing at a time. */
function escape(app, event) {
  const { now } = app.view;
  const filter = byId("filter");
  event.preventDefault();
  if (document.activeElement === filter && !filter.value) app.focusList();
  else if (now.findings || now.resume !== null) app.view.go({ findings: false, resume: null }, true);
  else if (now.q || filter.value) { filter.value = ""; app.view.go({ q: "" }); }
  else app.focusList();
}

/** The border between list and details, by mouse and by arrow keys. */
function watchSplitter() {
  const [splitter, main] = [byId("splitter"), byId("main")];
  let part = 0.42;
  const set = (wanted) => {
    part = Math.min(Math.max(wanted, 0.2), 0.75);
    main.style.setProperty("--details", `${(part * 100).toFixed(1)}%`);
    splitter.setAttribute("aria-valuenow", Math.round(part * 100));
  };
  splitter.setAttribute("aria-valuemin", 20);
  splitter.setAttribute("aria-valuemax", 75);
  set(part);
  splitter.addEventListener("pointerdown", (event) => { splitter.setPointerCapture(event.pointerId); event.preventDefault(); });
  splitter.addEventListener("pointermove", (event) => {
    if (splitter.hasPointerCapture(event.pointerId)) set(1 - event.clientX / main.clientWidth);
  });
  splitter.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: 0.03, ArrowRight: -0.03 }[event.key];
    if (by) { event.preventDefault(); event.stopPropagation(); set(part + by); }
  });
}
