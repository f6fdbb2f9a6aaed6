// Highlights the texts of the filter wherever the page shows them, with ranges: the document does not change.

import { onNextFrame } from "./dom.js";
import { printable } from "./format.js";

export class TextHighlight {
  /** `hosts` are the parts of the page in which texts are highlighted, now and when they change. */
  constructor(hosts) {
    Object.assign(this, { hosts, texts: [] });
    this.draw = onNextFrame(() => this.drawNow());
    const observer = new MutationObserver(() => { if (this.texts.length) this.draw(); });
    for (const host of hosts) observer.observe(host, { childList: true, characterData: true, subtree: true, attributeFilter: ["hidden"] });
  }

  set(texts) {
    this.texts = texts.map((text) => printable(text).toLowerCase());
    this.draw();
  }

  drawNow() {
    if (!CSS.highlights) return;
    const ranges = this.texts.length ? this.hosts.flatMap(textsOf).flatMap((nodes) => this.find(nodes)) : [];
    CSS.highlights.set("match", new Highlight(...ranges));
  }

  /** The ranges of the texts in consecutive nodes. */
  find(nodes) {
    const joined = nodes.map((node) => node.data).join("").toLowerCase();
    const ranges = [];
    for (const text of this.texts) {
      for (let at = joined.indexOf(text); at >= 0; at = joined.indexOf(text, at + text.length)) {
        let begin = 0;
        for (const node of nodes) {
          const [from, to] = [Math.max(at - begin, 0), Math.min(at + text.length - begin, node.length)];
          if (from < to) ranges.push(new StaticRange({ startContainer: node, startOffset: from, endContainer: node, endOffset: to }));
          begin += node.length;
        }
      }
    }
    return ranges;
  }
}

/** The texts of a part of the page: lists of nodes.  Deltas that follow each other are one text. */
function textsOf(host) {
  const found = [];
  const walker = document.createTreeWalker(host, NodeFilter.SHOW_TEXT);
  let before = null;
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const row = node.parentElement.closest(".row");
    if (row && (row.hidden || row.closest(".list-head"))) continue;
    const isDelta = row && row.classList.contains("delta") && node.parentElement.matches(".text");
    if (row && !row.classList.contains("delta")) before = null;
    if (isDelta && before) before.push(node);
    else found.push([node]);
    if (isDelta && !before) before = found.at(-1);
  }
  return found;
}
