// Filters the rows of a page without a server, which contains no answers about filters.

import { parseFilter } from "./filter_grammar.js";
import { RowSubject, needsMessages, wantedTexts } from "./filter_match.js";
import { splitRun } from "./filtered_rows.js";
import { JoinedTextSearch } from "./joined_text_search.js";
import { deltaText } from "./vocabulary.js";

export class PageFilter {
  constructor(source) {
    Object.assign(this, { source, subject: new RowSubject() });
  }

  async filteredRows(exchange, filter, matches) {
    const head = (await this.source.recording()).exchanges.find((one) => one.exchange === exchange);
    const matchesRow = (row) => matches(this.subject.of(row, head));
    const found = [];
    for (const { row, messages } of await this.searchedRows(head, filter)) {
      if (row.row === "deltas") found.push(...splitRun(row, messages, matchesRow, head));
      else if (row.row !== "exchange" && matchesRow(messages[0] || row)) found.push(row);
    }
    return found;
  }

  /** The rows of an exchange, each with its messages in full, and those with the texts of the filter that were found in them. */
  async searchedRows(head, filter) {
    const { exchange } = head;
    const search = new JoinedTextSearch(wantedTexts(parseFilter(filter)), head);
    const rows = [];
    let before = 1;
    for (const row of await this.source.allRows(exchange)) {
      const messages = [];
      const last = row.row === "deltas" ? row.last_event : row.row === "event" ? row.event : 0;
      const details = new Map(last ? (await this.source.deltas(exchange, row.event, last)).map((each) => [each.event, each]) : []);
      for (let event = row.event; event <= last; event += 1) {
        const message = details.get(event) || { ...row, row: "event", kind: row.kind || "delta", event };
        messages.push({ ...message, ...search.add(message, deltaText(message, head)) });
      }
      if (last) before = last;
      else if (row.row !== "pause") search.interrupt();
      // The row has only the beginning of an unfinished event.
      if (row.row === "cut") messages.push({ ...row, preview: (await this.source.cut(exchange, row.start, before)).text ?? row.preview });
      rows.push({ row, messages });
    }
    search.interrupt();
    return rows;
  }

  /** How often a filter matches in each exchange, in the order of the exchanges. */
  async matches(filter, take, signal, matches) {
    const isQuick = !needsMessages(parseFilter(filter));
    for (const head of (await this.source.recording()).exchanges) {
      if (signal.aborted) return;
      const rows = isQuick || !head.stream
        ? (await this.source.allRows(head.exchange)).filter((row) => (row.row !== "exchange" || !head.stream) && matches(this.subject.of(row, head)))
        : await this.filteredRows(head.exchange, filter, matches);
      const count = rows.reduce((sum, row) => sum + (row.row === "deltas" ? row.count : row.row === "event" ? 1 : 0), 0);
      if (rows.length) take([{ exchange: head.exchange, matches: count || 1 }]);
    }
  }
}
