// The dialog that saves the recording in another format.

import { recordingArgument } from "./copying.js";
import { openDialog } from "./dialogs.js";
import { element, factList } from "./dom.js";
import { copyText } from "./notices.js";

const FORMATS = [
  ["html", "html", "this page with the recording in it, as one file"],
  ["har", "har", "HTTP Archive, for browsers and other tools"],
  ["tape", "tape", "YAML for people and git, to edit and to replay"],
  ["events", "jsonl", "one JSON object per exchange and per event, for jq"],
  ["sse", "sse", "the bytes of the event stream that is shown"],
];

export function showExportDialog({ source, recording, head }) {
  const name = recording.file.replace(/[^]*[/\\]|\.\w+$/g, "");
  const rows = FORMATS.filter(([kind]) => kind !== "sse" || head?.stream).map(([kind, ending, about]) => {
    const number = kind === "sse" ? head.exchange : "";
    const file = `${name}${number && `-${number}`}.${ending}`;
    const command = `wiretape export ${recordingArgument(recording)} --format ${kind}${number && ` --exchange ${number}`} --output ${recordingArgument({ file })}`;
    const href = `/api/export?format=${kind}${number && `&exchange=${number}`}`;
    const save = source.live ? [element("a", { class: "link", href, download: file, text: `Save ${file}` }), ", or "] : [];
    const copy = element("button", { type: "button", class: "link", text: "copy the command", title: command, onclick: () => copyText(command, "the command") });
    return [kind, element("span", null, `${about}: `, ...save, copy)];
  });
  const note = "Files contain what was recorded, including prompts and outputs of tools. Credentials are redacted.";
  openDialog("Export", factList(rows), element("p", { class: "dim", text: note }));
}
