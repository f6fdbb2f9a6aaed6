// The payload tab: JSON as a tree that can be folded, other data as text.  Large data is shown in parts.

import { element, factList } from "./dom.js";
import { cutText, formatCount, formatNumber, formatSize, printable, printableLines, quoted, shorten } from "./format.js";
import { parseJsonTree } from "./json.js";
import { copyText, orShowError } from "./notices.js";

const LINES_AT_ONCE = 300;
const SHORT_STRING = 600;
const TEXT_AT_ONCE = 20000;

export function showPayload(panel, detail, app) {
  const text = detail.data;
  const tree = text.trim() ? parseJsonTree(text) : null;
  const tools = element("div", { class: "tools" });
  const button = (label, title, onclick) => element("button", { type: "button", class: "plain", text: label, title, onclick });
  const event = detail.fields.map(([name, value]) => value.split("\n").map((line) => `${name}: ${line}\n`).join("")).join("");
  tools.append(button("Copy", "Copy the data unchanged", () => copyText(text, "the data")));
  tools.append(button("Copy event", "Copy the whole event with its fields", () => copyText(`${event}\n`, "the event")));
  if (app.source.test) tools.append(button("Copy as test", "Copy a pytest test that checks these bytes", async () => {
    const test = await orShowError(app.source.test(app.view.x, detail.event));
    if (test) copyText(test.code, "the test");
  }));
  tools.append(element("span", { class: "dim", text: `${formatSize(detail.end - detail.start)} · ${tree ? "JSON" : text ? "text" : "no data"}` }));
  panel.append(tools);
  if (tree) panel.append(jsonBox(tree));
  else if (text) panel.append(longText(text, "plain-text"));
  const fields = fieldLines(detail);
  if (fields) panel.append(element("h3", { text: "Fields" }), fields);
}

/** The fields of an event that the facts above do not show. */
function fieldLines(detail) {
  const known = { data: () => true, id: (value) => value === detail.id, event: (value) => value === detail.type };
  const others = detail.fields.filter(([name, value]) => !Object.hasOwn(known, name) || !known[name](value));
  const list = factList(others.map(([name, value]) => [shorten(name || "(comment)", 60), element("code", { text: shorten(value, 2000) || "(empty)" })]));
  return others.length ? list : null;
}

/** A value of any size as a tree that can be folded. */
export function jsonBox(tree) {
  const box = element("div", { class: "json", role: "group", "aria-label": "JSON" });
  box.append(jsonNode(tree, null, { left: LINES_AT_ONCE }, 0));
  return box;
}

/** A text of any length: its beginning, and a button that shows more. */
export function longText(text, name) {
  const pre = element("pre", { class: name, tabIndex: -1 });
  const box = element("div", null, pre);
  let until = 0;
  const button = element("button", { type: "button", class: "plain fold-more" });
  const more = () => {
    const next = cutText(text.slice(until, until + TEXT_AT_ONCE), TEXT_AT_ONCE);
    until += next.length || TEXT_AT_ONCE;
    pre.append(printableLines(next));
    button.textContent = `Show more (${formatNumber(Math.max(text.length - until, 0))} characters left)`;
    if (until >= text.length) button.remove();
  };
  button.addEventListener("click", more);
  box.append(button);
  more();
  return box;
}

/** One value with its key; after `budget.left` more lines, branches are folded. */
function jsonNode(node, key, budget, depth) {
  budget.left -= 1;
  if (node.kind !== "object" && node.kind !== "array") return element("div", { class: "json-line" }, ...keyOf(key), jsonLeaf(node));
  const [begin, end] = node.kind === "object" ? "{}" : "[]";
  if (!node.items.length) return element("div", { class: "json-line" }, ...keyOf(key), element("span", { class: "punctuation", text: begin + end }));
  return jsonBranch(node, key, budget, depth, begin, end);
}

function jsonBranch(node, key, budget, depth, begin, end) {
  const size = formatCount(node.items.length, node.kind === "object" ? "key" : "item");
  const line = element(
    "summary", { class: "json-line" }, ...keyOf(key), element("span", { class: "punctuation", text: begin }),
    element("span", { class: "json-summary", text: ` … ${size} ${end}` }),
  );
  const children = element("div", { class: "json-children" });
  const closing = element("div", { class: "json-line", role: "presentation" }, element("span", { class: "punctuation", text: end }));
  const open = budget.left > 0 && depth < 40;
  if (open) jsonItems(children, node, 0, budget, depth);
  // Branches that are open at first are left out of the order of the Tab key.
  line.tabIndex = open ? -1 : 0;
  const ontoggle = () => { if (!children.firstChild) jsonItems(children, node, 0, { left: LINES_AT_ONCE }, depth); };
  return element("details", { class: "json-branch", open, ontoggle }, line, children, closing);
}

/** Add the items of a container from index `from` on, as many as the budget allows. */
function jsonItems(box, node, from, budget, depth) {
  let at = from;
  for (; at < node.items.length && (budget.left > 0 || at < from + 5); at += 1) {
    const item = node.items[at];
    box.append(node.kind === "object" ? jsonNode(item[1], item[0], budget, depth + 1) : jsonNode(item, null, budget, depth + 1));
  }
  if (at >= node.items.length) return;
  const button = element("button", { type: "button", class: "plain fold-more", text: `${formatNumber(node.items.length - at)} more` });
  button.addEventListener("click", () => {
    button.remove();
    jsonItems(box, node, at, { left: LINES_AT_ONCE }, depth);
  });
  box.append(button);
}

function keyOf(key) {
  if (key === null) return [];
  return [element("span", { class: "json-key", text: shorten(key, 400) }), element("span", { class: "punctuation", text: ": " })];
}

function jsonLeaf(node) {
  if (node.kind === "word") {
    const known = /^(true|false|null)$/.test(node.text);
    return element("span", { class: known ? "json-word" : "json-number", text: shorten(node.text, 400) });
  }
  const { text } = node;
  const value = element("span", { class: "json-string", text: printable(quoted(text.length > SHORT_STRING ? cutText(text, SHORT_STRING) : text)) });
  if (text.length <= SHORT_STRING) return value;
  const box = element("span", null, value, element("span", { class: "dim", text: "… " }));
  const button = element("button", { type: "button", class: "plain fold-more", text: `all ${formatNumber(text.length)} characters` });
  button.addEventListener("click", () => box.replaceChildren(longText(text, "json-string json-long")));
  box.append(button);
  return box;
}
