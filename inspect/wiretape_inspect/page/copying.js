// What is copied of an exchange and its events: a curl command, and bytes.

import { copyText } from "./notices.js";

/** Headers that curl sets itself, or that would make the response unreadable. */
const OMITTED_HEADERS = ["host", "content-length", "accept-encoding", "connection", "transfer-encoding"];
const REDACTED = /\[redacted:[0-9a-f]+\]/;

/** The curl command that sends the request of an exchange again; `$API_KEY` stands for a redacted credential. */
export function curlCommand(head, body) {
  const parts = [head.stream ? "curl -N" : "curl"];
  if (head.method !== (body ? "POST" : "GET")) parts.push(`-X ${shellQuoted(head.method)}`);
  parts.push(shellQuoted(`${head.scheme}://${head.authority}${head.target}`));
  for (const [name, value] of head.request_headers || []) {
    if (!OMITTED_HEADERS.includes(name.toLowerCase())) parts.push(`-H ${header(`${name}: ${value}`)}`);
  }
  if (body && body.text !== undefined) parts.push(`--data-raw ${shellQuoted(body.text)}`);
  return parts.join(" \\\n  ");
}

/** The path of a recording, or its name if only that is known, as an argument of a command. */
export function recordingArgument({ report, file, path }) {
  const name = report ? report.file : path ?? file;
  return /^[\w./-]+$/.test(name) ? name : shellQuoted(name);
}

function header(line) {
  const found = REDACTED.exec(line);
  if (!found) return shellQuoted(line);
  const after = line.slice(found.index + found[0].length);
  return `${shellQuoted(line.slice(0, found.index))}"$API_KEY"${after ? shellQuoted(after) : ""}`;
}

/** Quote a text for a shell.  Control characters are escaped: a terminal would act on them when they are pasted. */
function shellQuoted(text) {
  if (/^[\x20-\x7e]*$/.test(text)) return `'${text.replace(/'/g, "'\\''")}'`;
  const escaped = (byte) => {
    const char = String.fromCharCode(byte);
    return byte < 0x20 || byte > 0x7e || char === "'" || char === "\\" ? `\\x${byte.toString(16).padStart(2, "0")}` : char;
  };
  return `$'${Array.from(new TextEncoder().encode(text), escaped).join("")}'`;
}

/** Copy bytes as they are, or in base64 if they are not UTF-8 text. */
export function copyRaw(bytes) {
  try {
    copyText(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes), "the raw bytes");
  } catch {
    copyText(btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join("")), "the raw bytes in base64: they are not UTF-8");
  }
}
