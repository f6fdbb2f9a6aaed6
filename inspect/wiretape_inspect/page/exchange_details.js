// The details of an exchange as a whole: a stream of which nothing is selected, or a request and its response.

import { clockTime } from "./clock.js";
import { bytesFromBase64 } from "./recorded_answers.js";
import { copyRaw, curlCommand } from "./copying.js";
import { codeText, element, factList } from "./dom.js";
import { pathOf } from "./exchange_heads.js";
import { findingList } from "./finding_card.js";
import { capitalize, formatDuration, formatSize, printable, shorten } from "./format.js";
import { parseJsonTree } from "./json.js";
import { copyText, orShowError, showError } from "./notices.js";
import { jsonBox, longText } from "./payload_tab.js";
import { channelOf, labelOf, vocabularyOf } from "./vocabulary.js";

const MOST_FINDINGS = 100;

export function code(text) {
  return text === null || text === undefined ? null : element("code", { text: shorten(text, 500) || "(empty)" });
}

/** A stream of which nothing is selected: how it went, and its findings. */
export function showStream(panel, app, tab) {
  const { head, recording, navigation } = app;
  if (!head || tab === "bytes" || tab === "state") {
    const text = head ? "No event selected. The keys j and k move between events." : "No exchange to show.";
    panel.append(element("p", { class: "empty", text }));
    return;
  }
  const found = recording.findings.filter((one) => one.exchange === head.exchange);
  panel.append(element("h2", { class: "title", text: shorten(pathOf(head), 1000) }), copyButtons(app, head));
  panel.append(factList([
    ["to", shorten(`${head.scheme}://${head.authority}`, 200)],
    [labelOf(vocabularyOf(head).channel), code(channelOf(head))],
    ["resumed after", code(head.cursor)],
    ["began", clockTime(head.time_ns)],
    ["ended", head.ended_ns === null ? "still open" : `${clockTime(head.ended_ns)} · ${printable(head.ending_label)}`],
    ["detail", head.detail ? shorten(head.detail, 500) : null],
    ["longest silence", longestSilence(app)],
  ]));
  panel.append(element("h3", { text: found.length ? "Findings" : "No findings" }));
  const place = (one) => (one.event === null ? "" : ` event ${one.event}`);
  panel.append(findingList(found.slice(0, MOST_FINDINGS), place, (one) => navigation.goFinding(one)));
  const keys = "`j` and `k` move between events, `n` jumps to the next finding, `l` to the longest silence of the recording, `?` lists all keys.";
  panel.append(element("p", { class: "empty" }, ...codeText(keys)));
}

/** A button that goes to the longest time without an event; null if there is only one event. */
function longestSilence({ reader, timeline, navigation }) {
  if (!reader.overview || !timeline.done) return null;
  const events = timeline.rows.filter((row) => row.gap_ns && row.row !== "end");
  // The overview has only silences of a second or more, but also those within runs of deltas.
  const silences = reader.overview.silences.length ? reader.overview.silences : events.map((row) => [row.time_ns - row.gap_ns, row.time_ns]);
  if (!silences.length) return null;
  const [since, until] = silences.reduce((a, b) => (b[1] - b[0] > a[1] - a[0] ? b : a));
  const text = `${formatDuration(until - since)}, from ${clockTime(since)} to ${clockTime(until)}`;
  return element("button", { type: "button", class: "link", text, onclick: () => navigation.goTime((since + until) / 2) });
}

/** An exchange that is not a stream: its request and its response. */
export function showRequest(panel, app, tab) {
  const head = wholeHead(app);
  if (tab !== "payload") panel.append(element("p", { class: "dim", text: "This exchange is not an event stream. Its request and its response:" }));
  panel.append(copyButtons(app, head));
  showSide(panel, app, head, "request", pathOf(head), head.request_bytes);
  const status = head.status === null ? "No response" : String(head.status);
  showSide(panel, app, head, "response", `${status} · ${head.ending_label}`, head.response_bytes);
  if (head.detail) panel.append(element("p", { class: "wrong", text: printable(head.detail) }));
}

/** The request and the response without their bodies, and the connection; of a stream, too. */
export function showHeaders(panel, app) {
  const head = wholeHead(app);
  panel.append(copyButtons(app, head));
  panel.append(element("h2", { class: "title", text: "Request" }), factList([
    ["target", code(pathOf(head))],
    ["to", shorten(`${head.scheme}://${head.authority}`, 200)],
    ["client", head.client ? shorten(head.client, 80) : null],
    ["protocol", head.request_version ? printable(head.request_version) : null],
    ["request body", head.request_bytes ? formatSize(head.request_bytes) : null],
  ]), headerList(head.request_headers));
  panel.append(element("h2", { class: "title", text: "Response" }), factList([
    ["status", head.status === null ? "no response" : String(head.status)],
    ["protocol", head.response_version ? printable(head.response_version) : null],
    ["ending", printable(head.ending_label)],
    ["detail", head.detail ? shorten(head.detail, 500) : null],
    ["body", formatSize(head.response_bytes)],
  ]), headerList(head.response_headers));
}

/** The head of an exchange that is not a stream, with its bodies' beginnings if they have been read. */
function wholeHead({ head, timeline }) {
  return timeline.rows[0]?.row === "exchange" ? timeline.rows[0] : head;
}

function headerList(headers) {
  const box = element("section", null, element("h3", { text: "Headers" }));
  if (!headers) box.append(element("p", { class: "dim", text: "not recorded" }));
  else if (!headers.length) box.append(element("p", { class: "dim", text: "none" }));
  else box.append(factList(headers.map(([name, value]) => [shorten(name, 80), element("code", { text: shorten(value, 2000) || "(empty)" })])));
  return box;
}

function copyButtons(app, head) {
  const button = (text, title, onclick) => element("button", { type: "button", class: "plain", text, title, onclick });
  const body = async () => (head.request_bytes ? (await app.reader.bodies(head)).request : null);
  const guarded = (action) => () => orShowError(action());
  const buttons = [button("Copy as curl", "Copy the command that sends this request again", guarded(async () => copyCurl(curlCommand(head, await body()))))];
  if (!head.stream && head.response_bytes) {
    buttons.push(button("Copy response", "Copy the body of the response unchanged", guarded(async () => {
      const { response } = await app.reader.bodies(head);
      if (response.text !== undefined) copyText(response.text, "the response");
      else if (response.base64 !== undefined) copyRaw(bytesFromBase64(response.base64));
      else showError("The response is too large to copy: use `wiretape export`.");
    })));
  }
  return element("div", { class: "tools" }, ...buttons);
}

function copyCurl(command) {
  copyText(command, command.includes('"$API_KEY"') ? "the curl command: set API_KEY before you run it" : "the curl command");
}

function showSide(panel, app, head, side, title, size) {
  const box = element("div", { class: "body-box" });
  panel.append(element("h2", { class: "title", text: capitalize(side) }), element("p", null, code(title)), box);
  const preview = head[`${side}_preview`] || "";
  if (preview) box.append(bodyBox(preview));
  else box.append(element("p", { class: "dim", text: size ? formatSize(size) : "no body" }));
  if (size) showBody(box, app, head, side);
}

function bodyBox(text) {
  const tree = parseJsonTree(text);
  return tree ? jsonBox(tree) : longText(text, "plain-text");
}

/** Replace the preview of a body by the whole body. */
async function showBody(box, app, head, side) {
  const body = (await orShowError(app.reader.bodies(head)))?.[side];
  const first = box.firstElementChild;
  if (!body) return;
  if (body.omitted) first.after(element("p", { class: "dim", text: `The body is too large to show: ${printable(body.omitted)}.` }));
  if (body.base64 !== undefined) first.replaceWith(element("p", { class: "dim", text: `${formatSize(head[`${side}_bytes`])} of binary data` }));
  if (body.text !== undefined) first.replaceWith(bodyBox(body.text));
}
