// An exchange as a whole: how a stream went, or both messages of what is no stream.

/** The stream as a whole, while nothing of it is chosen: how it went, and what was found. */
function showSummary(panel, app, tab) {
  const { head } = app;
  if (!head || tab === "bytes" || tab === "state") {
    panel.append(make("p", { class: "empty", text: head ? "Choose an event: j and k step through them." : "There is no exchange to look at." }));
    return;
  }
  const found = app.recording.findings.filter((one) => one.exchange === head.exchange);
  if (tab === "findings") {
    panel.append(...found.slice(0, 200).map((one) => findingCard(one, app)));
    if (!found.length) panel.append(make("p", { class: "empty", text: "Nothing was found about this exchange." }));
    return;
  }
  panel.append(make("h2", { class: "title", text: shown(pathOf(head), 1000) }));
  panel.append(factList([
    ["to", shown(`${head.scheme}://${head.authority}`, 200)],
    ["session", code(head.session_id)],
    ["resumed after", code(cursorOf(head))],
    ["began", moment(head.time_ns)],
    ["ended", head.ended_ns === null ? "still open" : `${moment(head.ended_ns)} · ${printable(head.ending_label)}`],
    ["detail", head.detail ? shown(head.detail, 500) : null],
  ]));
  panel.append(make("h3", { text: found.length ? "Findings" : "No findings" }));
  panel.append(foundList(found.slice(0, 100), (one) => (one.event === null ? "" : ` event ${one.event}`), (one) => app.goFinding(one)), make("p", { class: "empty" }, make("kbd", { text: "j" }), " and ", make("kbd", { text: "k" }), " step through the events, ", make("kbd", { text: "n" }), " goes to the next finding, ", make("kbd", { text: "?" }), " tells all keys."));
}

/** Findings in a few words each; `place` says where each is, and `go` goes there. */
function foundList(found, place, go) {
  const list = make("ul", { class: "found-list" });
  for (const one of found) {
    const about = make("span", { class: "dim", text: place(one) });
    const words = make("span", { class: "found-words", text: `${printable(one.code)}: ${printable(one.message)}` });
    list.append(make("li", null, make("button", { type: "button", class: "found-item", onclick: () => go(one) }, severityMark(one.severity), about, words)));
  }
  return list;
}

/** An exchange that is no stream: both of its messages. */
function showExchange(panel, app, tab) {
  const head = app.timeline.rows.find((row) => row.row === "exchange") || app.head;
  if (tab === "findings") {
    const found = app.recording.findings.filter((one) => one.exchange === head.exchange);
    if (found.length) panel.append(...found.slice(0, 200).map((one) => findingCard(one, app)));
    else panel.append(make("p", { class: "empty", text: "Nothing was found about this exchange." }));
    return;
  }
  if (tab !== "payload") {
    panel.append(make("p", { class: "empty", text: "This exchange is no event stream: Payload shows its request and its response." }));
    return;
  }
  showSide(panel, app, head, "request", `${head.method} ${head.target}`, head.request_headers, head.request_bytes);
  const status = head.status === null ? "No response" : String(head.status);
  showSide(panel, app, head, "response", `${status} · ${head.ending_label}`, head.response_headers, head.response_bytes);
  if (head.detail) panel.append(make("p", { class: "wrong", text: printable(head.detail) }));
}

function showSide(panel, app, head, side, title, headers, size) {
  panel.append(make("h2", { class: "title side" }, make("span", { class: "dim", text: side === "request" ? "→ " : "← " }), shown(title, 1000)));
  const body = make("div", { class: "body-box" });
  panel.append(body);
  const preview = head[`${side}_preview`] || "";
  const whole = preview ? jsonTree(preview) : null;
  if (whole) body.append(make("div", { class: "json" }, jsonNode(whole, null, { left: LINES_AT_ONCE }, 0)));
  else if (preview) body.append(longText(preview, "plain-text"));
  else body.append(make("p", { class: "dim", text: size ? `${amount(size)}` : "no body" }));
  if (headers) body.append(make("h3", { text: "Headers" }), factList(headers.map(([name, value]) => [shown(name, 80), make("code", { text: shown(value, 2000) })])));
  if (size) fillBody(body, app, head, side);
}

/** The whole body in place of how it begins. */
async function fillBody(box, app, head, side) {
  try {
    const said = (await app.wholeBodies(head))[side];
    const first = box.firstElementChild;
    if (!said) return;
    if (said.omitted) first.after(make("p", { class: "dim", text: `It is too large to be shown: ${printable(said.omitted)}.` }));
    if (said.base64 !== undefined) first.replaceWith(make("p", { class: "dim", text: `${amount(head[`${side}_bytes`])} that are no text` }));
    if (said.text === undefined) return;
    const tree = jsonTree(said.text);
    first.replaceWith(tree ? make("div", { class: "json" }, jsonNode(tree, null, { left: LINES_AT_ONCE }, 0)) : longText(said.text, "plain-text"));
  } catch (error) {
    trouble(error.message);
  }
}
