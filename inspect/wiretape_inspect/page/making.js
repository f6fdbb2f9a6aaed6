// Elements are made here and nowhere else.  Texts become text nodes: nothing recorded is ever read as markup.

/** An element; `about` holds properties, attributes (with a hyphen, or role) and `on…` listeners. */
function make(name, about, ...children) {
  const element = document.createElement(name);
  dress(element, about);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

function draw(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes || {})) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function dress(element, about) {
  for (const [key, value] of Object.entries(about || {})) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key === "text") element.textContent = value;
    else if (key.includes("-") || key === "role") element.setAttribute(key, value);
    else element[key] = value;
  }
  return element;
}

function byId(id) {
  return document.getElementById(id);
}

/** Write a text only where it differs: what does not change is neither laid out nor read out again. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setClass(element, name) {
  if (element.className !== name) element.className = name;
}

/** Names and values as a list of facts; values are texts or elements, those that are null are left out. */
function factList(facts) {
  const list = make("dl", { class: "facts-list" });
  for (const [name, value] of facts) {
    if (value === null || value === undefined || value === "") continue;
    list.append(make("div", { class: "fact" }, make("dt", { text: name }), make("dd", null, value)));
  }
  return list;
}

/** A severity as a sign and a word. */
function severityMark(severity) {
  const known = SIGNS[severity] ? severity : "error";
  const sign = make("span", { class: "sign", text: SIGNS[known], "aria-hidden": "true" });
  return make("span", { class: `severity ${known}` }, sign, ` ${known}`);
}

/** What people hear who do not see. */
function say(text) {
  byId("said").textContent = text;
}

let troubleTimer = 0;

function trouble(text) {
  const box = byId("trouble");
  box.textContent = printable(text);
  box.hidden = false;
  clearTimeout(troubleTimer);
  troubleTimer = setTimeout(() => { box.hidden = true; }, 8000);
}

/** Call `todo` once before the next picture, however often it is asked for. */
function soon(todo) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; todo(); });
  };
}

async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = make("textarea", { value: text, readOnly: true, class: "quiet" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`Copied ${what}.`);
  flash(`Copied ${what}`);
}

let flashTimer = 0;

function flash(text) {
  let box = byId("flash");
  if (!box) document.body.append(box = make("div", { id: "flash", class: "flash", "aria-hidden": "true" }));
  box.textContent = text;
  box.hidden = false;
  clearTimeout(flashTimer);
  flashTimer = setTimeout(() => { box.hidden = true; }, 1600);
}
