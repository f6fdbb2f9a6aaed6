// The state tab: what the client knew just after an event, and the cursor that it would send now.

import { curlCommand } from "./copying.js";
import { element, factList } from "./dom.js";
import { capitalize, formatCount, formatNumber, shorten, shortenNumber } from "./format.js";
import { eventLink } from "./navigation.js";
import { copyText } from "./notices.js";
import { longText } from "./payload_tab.js";
import { labelOf, vocabularyOf, withFailure } from "./vocabulary.js";

const MOST_SPANS = 200;

export function showState(panel, { state, may_be_unread }, { navigation, head }) {
  const copy = () => copyText(curlCommand(resumed(head, state.cursor)), "the curl command that resumes after this event");
  const title = "Copy the command that resumes the stream after this event";
  panel.append(element("p", { class: "dim", text: "What the client has read just after this event:" }));
  const { channel, entities, has_idle: hasIdle } = vocabularyOf(head);
  panel.append(factList([
    [labelOf(channel), hasIdle ? element("span", { class: `channel-state ${state.channel}`, text: state.channel }) : null],
    ["resumes with", cursorText(state, may_be_unread, head)],
    ["connections", connectionLinks(state, navigation)],
  ]));
  panel.append(element("div", { class: "tools" }, element("button", { type: "button", class: "plain", text: "Copy resume as curl", title, onclick: copy })));
  for (const [name, text] of Object.entries(state.texts)) showText(panel, `${capitalize(labelOf(name))} so far`, text);
  for (const { name, within } of [...entities].reverse()) {
    const spans = state.entities[name];
    const [title, shown] = within === null ? [capitalize(`${labelOf(name)}s`), [...spans].reverse()] : [`Open ${labelOf(name)}s`, spans];
    panel.append(element("h3", { text: title }), spanList(shown, navigation, head));
  }
}

/** The request of a stream, with another cursor. */
function resumed(head, cursor) {
  const { place, name } = vocabularyOf(head).cursor;
  if (place === "query") return { ...head, target: withParameter(head.target, name, cursor) };
  const others = (head.request_headers || []).filter(([key]) => key.toLowerCase() !== name.toLowerCase());
  return { ...head, request_headers: cursor === null ? others : [...others, [name, cursor]] };
}

/** A target with another value of a query parameter, or without it. */
function withParameter(target, name, value) {
  const [path, query = ""] = target.split("#")[0].split(/\?([^]*)/);
  const kept = query.split("&").filter((part) => part && ![name, encodeURIComponent(name)].includes(part.split("=")[0]));
  if (value !== null) kept.push(`${encodeURIComponent(name)}=${encodeURIComponent(value)}`);
  return kept.length ? `${path}?${kept.join("&")}` : path;
}

function cursorText(state, mayBeUnread, head) {
  const cursor = state.cursor;
  const box = element("span");
  if (cursor === null) box.append("no cursor: from the beginning");
  else box.append(`${vocabularyOf(head).cursor.name}: `, element("code", { text: shorten(cursor, 200) }));
  if (state.last_sequence !== null) box.append(element("span", { class: "dim", text: ` after sequence ${shortenNumber(state.last_sequence)}` }));
  if (mayBeUnread) box.append(element("span", { class: "dim", text: " if it has read this event: the connection ended within a second" }));
  return box;
}

function connectionLinks(state, navigation) {
  const link = (number) => element("button", { type: "button", class: "link", text: `#${number}`, onclick: () => navigation.goExchange(number) });
  return element("span", null, ...state.connections.flatMap((number, at) => [at ? ", " : "", link(number)]));
}

/** Entities, each with links to the events that began and ended it. */
function spanList(spans, navigation, head) {
  if (!spans.length) return element("p", { class: "dim", text: "none" });
  const list = element("ul", { class: "spans" });
  for (const span of spans.slice(0, MOST_SPANS)) list.append(spanItem(span, navigation, head));
  if (spans.length > MOST_SPANS) list.append(element("li", { class: "dim", text: `${formatNumber(spans.length - MOST_SPANS)} more` }));
  return list;
}

function spanItem(span, navigation, head) {
  const item = element("li", null, element("code", { text: shorten(span.id, 80) }));
  if (span.name) item.append(element("span", { class: "dim", text: `  ${shorten(span.name, 200)}` }));
  const outcome = span.ended ? ` ${shorten(span.outcome, 60)} ` : " open ";
  item.append(element("span", { class: span.ended ? withFailure("outcome", span.outcome, head) : "outcome open", text: outcome }));
  if (span.began) item.append(eventLink(span.began, navigation));
  if (span.ended) item.append(" – ", eventLink(span.ended, navigation));
  return item;
}

function showText(panel, name, { text, characters, final }) {
  const title = element("h3", { text: name });
  if (characters) title.append(element("span", { class: "dim", text: ` ${formatCount(characters, "character")}${final ? ", complete" : ""}` }));
  panel.append(title);
  if (!text) panel.append(element("p", { class: "dim", text: "none" }));
  else {
    if (characters > text.length) panel.append(element("p", { class: "dim", text: `the last ${formatNumber(text.length)} characters` }));
    panel.append(longText(text, "spoken"));
  }
}
