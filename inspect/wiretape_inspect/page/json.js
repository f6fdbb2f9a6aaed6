// Reads JSON as it was written: numbers with all their digits, keys that come twice, spacing left away.

const JSON_DEEPEST = 400;
const JSON_TOKEN = /[ \t\r\n]*(?:("(?:[^"\\]|\\[^])*")|(-?\d[\d.eE+-]*|true|false|null)|([{}[\],:]))/y;

/** `{kind: "object" | "array", items: [[key, node]] | [node]}` or `{kind: "string" | "word", text}`; null: no JSON. */
function jsonTree(text) {
  const open = [];
  let root = null, key = null;
  JSON_TOKEN.lastIndex = 0;
  const put = (node) => {
    const within = open.at(-1);
    if (!within) root = node;
    else if (within.kind === "array") within.items.push(node);
    else within.items.push([key, node]);
    key = null;
  };
  for (;;) {
    const found = JSON_TOKEN.exec(text);
    if (!found) return null;
    const [, string, word, sign] = found;
    const within = open.at(-1);
    if (string !== undefined && within && within.kind === "object" && key === null) key = unquoted(string);
    else if (string !== undefined) put({ kind: "string", text: unquoted(string) });
    else if (word !== undefined) put({ kind: "word", text: word });
    else if (sign === "{" || sign === "[") {
      if (open.length >= JSON_DEEPEST) return null;
      const node = { kind: sign === "{" ? "object" : "array", items: [] };
      put(node);
      open.push(node);
    } else if (sign === "}" || sign === "]") {
      if (!within || (sign === "}") !== (within.kind === "object")) return null;
      open.pop();
    }
    if (root && !open.length) return text.slice(JSON_TOKEN.lastIndex).trim() ? null : root;
  }
}

function unquoted(string) {
  try {
    return JSON.parse(string);
  } catch {
    return string.slice(1, -1);
  }
}
