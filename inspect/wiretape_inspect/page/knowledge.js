// What a client knew just after an event: session, runs, open tool calls, texts, and the cursor that it would send.

function showKnowledge(panel, state, app) {
  const session = make("span", { class: `session ${state.session}`, text: state.session });
  panel.append(factList([
    ["session", session],
    ["would resume", cursorSaid(state)],
    ["learned from", connectionsSaid(state, app)],
  ]));
  panel.append(make("h3", { text: "Tool calls that are open" }), spanList(state.open_calls, app, "none"));
  panel.append(make("h3", { text: "Runs" }), spanList([...state.runs].reverse(), app, "none was told of"));
  spokenBox(panel, "Text so far", state.text);
  spokenBox(panel, "Reasoning so far", state.reasoning);
}

function cursorSaid(state) {
  const cursor = state.cursor;
  const box = make("span");
  if (cursor === null) box.append("without a cursor: from the beginning");
  else box.append(`${CONTRACT.cursorHeader}: `, make("code", { text: shown(cursor, 200) }));
  if (state.last_sequence !== null) box.append(make("span", { class: "dim", text: ` after sequence ${digits(state.last_sequence)}` }));
  return box;
}

function connectionsSaid(state, app) {
  const box = make("span");
  state.connections.forEach((number, at) => {
    if (at) box.append(", ");
    box.append(make("button", { type: "button", class: "link", text: `#${number}`, onclick: () => app.goExchange(number) }));
  });
  return box;
}

/** Runs or tool calls, each with the events where it began and ended. */
function spanList(spans, app, none) {
  if (!spans.length) return make("p", { class: "dim", text: none });
  const list = make("ul", { class: "spans" });
  for (const span of spans.slice(0, 200)) list.append(spanItem(span, app));
  if (spans.length > 200) list.append(make("li", { class: "dim", text: `${grouped(spans.length - 200)} more` }));
  return list;
}

function spanItem(span, app) {
  const item = make("li", null, make("code", { text: shown(span.id, 80) }));
  if (span.name) item.append(make("span", { class: "dim", text: `  ${shown(span.name, 200)}` }));
  const words = span.ended ? ` ${shown(span.outcome, 60)} ` : " open ";
  item.append(make("span", { class: span.ended ? "outcome" : "outcome open", text: words }));
  if (span.began) item.append(placeLink(span.began, app));
  if (span.ended) item.append(" – ", placeLink(span.ended, app));
  return item;
}

function placeLink(place, app) {
  const words = `${place.exchange}:${place.event}`;
  const about = `Go to event ${place.event} of exchange ${place.exchange}`;
  return make("button", { type: "button", class: "link", text: words, "aria-label": about, title: about, onclick: () => app.goEvent(place.exchange, place.event) });
}

function spokenBox(panel, name, spoken) {
  const about = spoken.final ? "whole" : spoken.characters ? "so far" : "";
  const title = make("h3", { text: name });
  if (spoken.characters) title.append(make("span", { class: "dim", text: ` ${counted(spoken.characters, "character")}, ${about}` }));
  panel.append(title);
  if (!spoken.text) panel.append(make("p", { class: "dim", text: "nothing" }));
  else {
    if (spoken.characters > spoken.text.length) panel.append(make("p", { class: "dim", text: `its last ${grouped(spoken.text.length)} characters` }));
    panel.append(longText(spoken.text, "spoken"));
  }
}
