// The dialog that chooses a recording of a report.

import { closeDialog, openDialog } from "./dialogs.js";
import { element, setText } from "./dom.js";
import { printable, shorten } from "./format.js";
import { severityCounts } from "./report_summary.js";
import { VirtualList } from "./virtual_list.js";

/** Choose a recording of a report: `report` is the index of its recordings, `current` the number of the one shown. */
export function pickRecording(report, current) {
  const host = element("div", { id: "recordings", class: "pane" });
  openDialog("Recordings", host);
  const choose = (index) => {
    closeDialog();
    if (index + 1 !== current) location.hash = `${index ? `f=${index + 1}&` : ""}findings=1`;
  };
  const list = new VirtualList(host, {
    label: "Recordings", height: 46,
    columns: [["n"], ["path"], ["marks"], ["about"]],
    fill: (cells, file) => {
      setText(cells.n, String(report.files.indexOf(file) + 1));
      setText(cells.path, shorten(file.file, 300));
      cells.marks.replaceChildren(...severityCounts(file.severities));
      setText(cells.about, printable(file.summary));
    },
    chosen: (index, _file, event) => (event.type === "click" ? choose(index) : list.select(index)),
    opened: choose,
  });
  list.show(report.files, -1);
  list.select(current - 1, { middle: true });
  list.root.focus();
}
