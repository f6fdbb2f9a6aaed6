// The data of an event: JSON as a tree that can be folded, anything else as text.  Huge ones are drawn in parts.

const LINES_AT_ONCE = 300;
const STRING_SHORT = 600;
const TEXT_PART = 20000;

function showPayload(panel, detail) {
  const text = detail.data;
  const tree = text.trim() ? jsonTree(text) : null;
  const tools = make("div", { class: "tools" });
  tools.append(make("button", { type: "button", class: "plain", text: "Copy", title: "Copy the data as they came", onclick: () => copy(text, "the data") }));
  tools.append(make("span", { class: "dim", text: `${amount(detail.end - detail.start)} · ${tree ? "JSON" : text ? "text" : "no data"}` }));
  panel.append(tools);
  if (tree) panel.append(make("div", { class: "json", role: "group", "aria-label": "JSON" }, jsonNode(tree, null, { left: LINES_AT_ONCE }, 0)));
  else if (text) panel.append(longText(text, "plain-text"));
  const fields = fieldLines(detail);
  if (fields) panel.append(make("h3", { text: "Fields" }), fields);
}

/** The fields of an event besides its data: what else stood in its lines. */
function fieldLines(detail) {
  const known = { data: () => true, id: (value) => value === detail.id, event: (value) => value === detail.type };
  const others = detail.fields.filter(([name, value]) => !Object.hasOwn(known, name) || !known[name](value));
  const list = factList(others.map(([name, value]) => [shown(name || "(comment)", 60), make("code", { text: shown(value, 2000) || "(empty)" })]));
  return others.length ? list : null;
}

/** A text of any length: its beginning, and a button for more. */
function longText(text, name, printing = printableLines) {
  const pre = make("pre", { class: name, tabIndex: -1 });
  const box = make("div", null, pre);
  let until = 0;
  const button = make("button", { type: "button", class: "plain fold-more" });
  const more = () => {
    const next = cutAt(text.slice(until, until + TEXT_PART), TEXT_PART);
    until += next.length || TEXT_PART;
    pre.append(printing(next));
    button.textContent = `Show more (${grouped(Math.max(text.length - until, 0))} characters left)`;
    if (until >= text.length) button.remove();
  };
  button.addEventListener("click", more);
  box.append(button);
  more();
  return box;
}

/** One value with its key; `budget.left` lines may still be drawn before things are folded. */
function jsonNode(node, key, budget, depth) {
  budget.left -= 1;
  if (node.kind !== "object" && node.kind !== "array") return make("div", { class: "json-line" }, ...keyOf(key), jsonLeaf(node));
  const [begin, end] = node.kind === "object" ? "{}" : "[]";
  if (!node.items.length) return make("div", { class: "json-line" }, ...keyOf(key), make("span", { class: "punctuation", text: begin + end }));
  return jsonBranch(node, key, budget, depth, begin, end);
}

function jsonBranch(node, key, budget, depth, begin, end) {
  const things = counted(node.items.length, node.kind === "object" ? "key" : "item");
  const fold = make("button", { type: "button", class: "fold-button", "aria-label": key === null ? `JSON, ${things}` : `${shown(key, 60)}, ${things}` });
  const summary = make("span", { class: "json-summary", text: ` … ${things} ${end}` });
  const line = make("div", { class: "json-line" }, fold, ...keyOf(key), make("span", { class: "punctuation", text: begin }), summary);
  const children = make("div", { class: "json-children" });
  const closing = make("div", { class: "json-line json-close" }, make("span", { class: "punctuation", text: end }));
  let drawn = false;
  const set = (open) => {
    if (open && !drawn) jsonItems(children, node, 0, budget, depth);
    drawn = drawn || open;
    fold.setAttribute("aria-expanded", open);
    fold.textContent = open ? "▾" : "▸";
    for (const part of [children, closing]) part.hidden = !open;
    summary.hidden = open;
  };
  const flip = () => {
    if (fold.getAttribute("aria-expanded") === "false") budget.left = Math.max(budget.left, LINES_AT_ONCE);
    set(fold.getAttribute("aria-expanded") === "false");
  };
  fold.addEventListener("click", flip);
  summary.addEventListener("click", flip);
  set(budget.left > 0 && depth < 40);
  if (fold.getAttribute("aria-expanded") === "true") fold.tabIndex = -1;
  return make("div", { class: "json-branch" }, line, children, closing);
}

/** The items of a container from number `from` on, as many as the budget has. */
function jsonItems(box, node, from, budget, depth) {
  let at = from;
  for (; at < node.items.length && (budget.left > 0 || at < from + 5); at += 1) {
    const item = node.items[at];
    box.append(node.kind === "object" ? jsonNode(item[1], item[0], budget, depth + 1) : jsonNode(item, null, budget, depth + 1));
  }
  if (at >= node.items.length) return;
  const button = make("button", { type: "button", class: "plain fold-more", text: `${grouped(node.items.length - at)} more` });
  button.addEventListener("click", () => {
    button.remove();
    jsonItems(box, node, at, { left: LINES_AT_ONCE }, depth);
  });
  box.append(button);
}

function keyOf(key) {
  if (key === null) return [];
  return [make("span", { class: "json-key", text: shown(key, 400) }), make("span", { class: "punctuation", text: ": " })];
}

function jsonLeaf(node) {
  if (node.kind === "word") {
    const known = /^(true|false|null)$/.test(node.text);
    return make("span", { class: known ? "json-word" : "json-number", text: shown(node.text, 400) });
  }
  const { text } = node;
  const value = make("span", { class: "json-string", text: quoted(text.length > STRING_SHORT ? cutAt(text, STRING_SHORT) : text) });
  if (text.length <= STRING_SHORT) return value;
  const box = make("span", null, value, make("span", { class: "dim", text: "… " }));
  const button = make("button", { type: "button", class: "plain fold-more", text: `all ${grouped(text.length)} characters` });
  button.addEventListener("click", () => box.replaceChildren(longText(text, "json-string json-long")));
  box.append(button);
  return box;
}

/** A string as JSON would have it, with what is unsafe to show escaped. */
function quoted(text) {
  return `"${printable(text.replace(/[\\"]/g, "\\$&"))}"`;
}
