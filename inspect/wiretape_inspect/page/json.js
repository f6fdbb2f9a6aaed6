// Reads JSON without losing anything: integers that a double cannot hold, digits of numbers, keys that occur twice.

const DEEPEST = 400;
const TOKEN = /[ \t\r\n]*(?:("(?:[^"\\]|\\[^])*")|(-?\d[\d.eE+-]*|true|false|null)|([{}[\],:]))/gy;

/** Parse JSON; integers that a double cannot hold become BigInt. */
export function parseJson(text) {
  if (!/(?:^|[:,[\s])-?[0-9]{16}/.test(text)) return JSON.parse(text);
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
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const open = [];
  let root = null, key = null;
  const put = (node) => {
    const parent = open.at(-1);
    if (!parent) root = node;
    else if (parent.kind === "array") parent.items.push(node);
    else parent.items.push([key, node]);
    key = null;
  };
  for (const [, string, word, sign] of text.matchAll(TOKEN)) {
    if (string && open.at(-1)?.kind === "object" && key === null) key = JSON.parse(string);
    else if (string) put({ kind: "string", text: JSON.parse(string) });
    else if (word) put({ kind: "word", text: word });
    else if (sign === "{" || sign === "[") {
      if (open.length >= DEEPEST) return null;
      const node = { kind: sign === "{" ? "object" : "array", items: [] };
      put(node);
      open.push(node);
    } else if (sign === "}" || sign === "]") open.pop();
  }
  return root;
}
