// Creates elements.  Text always becomes text nodes: recorded data is never parsed as markup.

import { SEVERITY_SIGNS, printable } from "./format.js";

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

/** Create an element.  `properties` may hold properties, attributes (names with a hyphen, and role) and listeners (on…). */
export function element(name, properties, ...children) {
  const created = document.createElement(name);
  setProperties(created, properties);
  created.append(...children.filter((child) => child !== null && child !== undefined));
  return created;
}

export function svg(name, attributes, ...children) {
  const created = document.createElementNS(SVG_NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes || {})) created.setAttribute(key, value);
  created.append(...children);
  return created;
}

export function setProperties(target, properties) {
  for (const [key, value] of Object.entries(properties || {})) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) target.addEventListener(key.slice(2), value);
    else if (key === "class") target.className = value;
    else if (key === "text") target.textContent = value;
    else if (key.includes("-") || key === "role") target.setAttribute(key, value);
    else target[key] = value;
  }
  return target;
}

export function byId(id) {
  return document.getElementById(id);
}

/** A text whose parts in backticks become code elements. */
export function codeText(text) {
  const pieces = String(text).split("`");
  // Without a partner, the last backtick is only a character.
  if (pieces.length % 2 === 0) pieces.push(`${pieces.splice(-2, 1)}\`${pieces.pop()}`);
  return pieces.map((piece, at) => (at % 2 ? element("code", { text: printable(piece) }) : printable(piece)));
}

/** Set a text only if it differs, to avoid needless layout and announcements. */
export function setText(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

export function setClass(target, name) {
  if (target.className !== name) target.className = name;
}

/** Names and values as a list; both are texts or elements, and empty values are left out. */
export function factList(facts) {
  const list = element("dl", { class: "facts-list" });
  for (const [name, value] of facts) {
    if (value === null || value === undefined || value === "") continue;
    list.append(element("div", { class: "fact" }, element("dt", null, name), element("dd", null, value)));
  }
  return list;
}

/** Show the options of a select, `[[value, text]]`, if they have changed. */
export function showOptions(select, options, chosen) {
  if (select.dataset.options !== String(options)) {
    select.dataset.options = String(options);
    select.replaceChildren(...options.map(([value, text]) => element("option", { value, text })));
  }
  select.value = chosen;
}

/** A severity as a sign and a word. */
export function severityMark(severity) {
  const known = SEVERITY_SIGNS[severity] ? severity : "error";
  const sign = element("span", { class: "sign", text: SEVERITY_SIGNS[known], "aria-hidden": "true" });
  return element("span", { class: `severity ${known}` }, sign, ` ${known}`);
}

/** Return a function that calls `action` once before the next frame, however often it is called. */
export function onNextFrame(action) {
  let scheduled = false;
  return () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => { scheduled = false; action(); });
  };
}

export function delay(milliseconds) {
  return new Promise((resolve) => { setTimeout(resolve, milliseconds); });
}
