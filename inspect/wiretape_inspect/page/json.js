// Reads JSON without losing anything: integers that a double cannot hold, digits of numbers, keys that occur twice.

const DEEPEST = 400;
const TOKEN = /[ \t\r\n]*(?:("(?:[^"\\]|\\[^])*")|(-?\d[\d.eE+-]*|true|false|null)|([{}[\],:]))/y;

/** Parse JSON; integers that a double cannot hold become BigInt. */
export function parseJson(text) {
  if (!/[0-9]{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(text, (_key, value, context) => {
    if (typeof value !== "number" || Number.isSafeInteger(value) || !context) return value;
    return /^-?\d+$/.test(context.source) ? BigInt(context.source) : value;
  });
}

/**
 * Parse JSON as a tree of its text: `{kind: "object" | "array", items: [[key, node]] | [node]}` or
 * `{kind: "string" | "word", text}`.  Return null if the text is not JSON, or nested too deep.
 */
export function parseJsonTree(text) {
  const open = [];
  let root = null, key = null;
  TOKEN.lastIndex = 0;
  const put = (node) => {
    const parent = open.at(-1);
    if (!parent) root = node;
    else if (parent.kind === "array") parent.items.push(node);
    else parent.items.push([key, node]);
    key = null;
  };
  for (;;) {
    const found = TOKEN.exec(text);
    if (!found) return null;
    const [, string, word, sign] = found;
    const parent = open.at(-1);
    if (string !== undefined && parent && parent.kind === "object" && key === null) key = unquote(string);
    else if (string !== undefined) put({ kind: "string", text: unquote(string) });
    else if (word !== undefined) put({ kind: "word", text: word });
    else if (sign === "{" || sign === "[") {
      if (open.length >= DEEPEST) return null;
      const node = { kind: sign === "{" ? "object" : "array", items: [] };
      put(node);
      open.push(node);
    } else if (sign === "}" || sign === "]") {
      if (!parent || (sign === "}") !== (parent.kind === "object")) return null;
      open.pop();
    }
    if (root && !open.length) return text.slice(TOKEN.lastIndex).trim() ? null : root;
  }
}

function unquote(string) {
  try {
    return JSON.parse(string);
  } catch {
    return string.slice(1, -1);
  }
}
