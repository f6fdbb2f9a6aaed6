// A list of any length; the document contains only its visible rows.
//
// The rows lie in a layer that does not move (`position: sticky`) while a tall empty box scrolls under it, and are
// filled again for each scroll position: rows may be late for a moment, but there is never a gap.

import { element, onNextFrame } from "./dom.js";

const NARROWEST = 24; // pixels of a column
const TALLEST = 15000000; // pixels; browsers have a limit somewhere above

export class VirtualList {
  /**
   * `columns`: [[name, label]]; `height` of a row in pixels; `fill(cells, item, node, index)` sets the texts of a row;
   * `chosen(index, item, event)` is called for a click or an arrow key, `opened(index, item)` for a double click or Enter, and
   * `sorted(name)` for a click on the head of a column.
   */
  constructor(host, { label, columns, height, fill, chosen, opened, sorted }) {
    Object.assign(this, { columns, height, fill, chosen, opened, sorted, scrolled: null, items: [], selected: -1, slots: [], top: 0, end: true, viewHeight: 0 });
    this.id = host.id;
    this.rows = element("div", { class: "list-rows", role: "presentation" });
    this.window = element("div", { class: "list-window", role: "presentation" }, this.rows);
    this.space = element("div", { class: "list-space", role: "presentation" }, this.window);
    this.scroller = element("div", { class: "list-scroller", tabIndex: -1, role: "presentation" }, this.space);
    this.root = element("div", { class: `list ${host.id}-list`, role: "grid", tabIndex: 0, "aria-label": label });
    this.titles = columns.map(([name, text]) => this.title(name, text));
    if (columns.some(([, text]) => text)) this.root.append(element("div", { class: "list-head row", role: "row" }, ...this.titles));
    this.root.append(this.scroller);
    host.append(this.root);
    this.draw = onNextFrame(() => this.drawNow());
    this.scroller.addEventListener("scroll", () => { this.drawNow(); if (this.scrolled) this.scrolled(); }, { passive: true });
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.rows.addEventListener("click", (event) => this.click(event, this.chosen));
    this.rows.addEventListener("dblclick", (event) => this.click(event, this.opened));
    new ResizeObserver(() => this.resized()).observe(this.scroller);
  }

  /** The head of a column, with a grip that changes its width. */
  title(name, label) {
    const text = this.sorted && label ? element("button", { type: "button", class: "sort", text: label, onclick: () => this.sorted(name) }) : label;
    const cell = element("span", { class: name, role: "columnheader" }, text);
    const grip = element("span", { class: "grip", "aria-hidden": "true" });
    const set = (width) => this.root.style.setProperty(`--w-${name}`, width);
    grip.addEventListener("pointerdown", (event) => { grip.setPointerCapture(event.pointerId); event.preventDefault(); });
    grip.addEventListener("pointermove", (event) => {
      if (!grip.hasPointerCapture(event.pointerId)) return;
      set(`${Math.max(Math.round(event.clientX - cell.getBoundingClientRect().left), NARROWEST)}px`);
    });
    grip.addEventListener("dblclick", () => this.root.style.removeProperty(`--w-${name}`));
    cell.append(grip);
    return cell;
  }

  /** Show by which column the items are sorted. */
  markSorted(name, isDescending) {
    this.columns.forEach(([column], at) => {
      const isSorted = column === name;
      if (isSorted) this.titles[at].setAttribute("aria-sort", isDescending ? "descending" : "ascending");
      else this.titles[at].removeAttribute("aria-sort");
    });
  }

  /** Replace the items. */
  show(items, selected) {
    this.items = items;
    this.selected = selected;
    this.fit();
    if (!items.length) Object.assign(this, { top: this.scroller.scrollTop, end: true });
    this.draw();
  }

  /** Show items that were added at the end; with `follow`, a list that shows its end keeps showing it. */
  grew(follow) {
    const bottom = follow && this.atEnd;
    this.follow = follow;
    this.fit();
    if (bottom) this.toBottom();
    this.draw();
  }

  /** Measure the list when its size changes: that makes the browser lay out the page. */
  measure() {
    this.viewHeight = this.scroller.clientHeight;
    this.wide = this.root.clientWidth;
    this.root.style.setProperty("--scrollbar", `${this.scroller.offsetWidth - this.scroller.clientWidth}px`);
    this.fit();
  }

  /** Give the scrolled box the height of the items. */
  fit() {
    const whole = this.items.length * this.height;
    this.tall = Math.min(whole, TALLEST);
    this.scale = whole > this.tall ? (whole - this.viewHeight) / (this.tall - this.viewHeight) : 1;
    this.space.style.height = `${this.tall}px`;
    this.window.style.height = `${Math.min(this.viewHeight, this.tall)}px`;
    this.root.setAttribute("aria-rowcount", this.items.length + 1);
  }

  get offset() {
    return this.scroller.scrollTop * this.scale;
  }

  /** Whether the reader has scrolled to the end, even if the list has become longer since. */
  get atEnd() {
    const { scrollTop, clientHeight, scrollHeight } = this.scroller;
    if (scrollTop !== this.top || scrollHeight <= clientHeight + 2) this.end = scrollTop + clientHeight >= scrollHeight - 2;
    this.top = scrollTop;
    return this.end;
  }

  toBottom() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
    this.top = this.scroller.scrollTop;
    this.end = true;
  }

  resized() {
    const bottom = this.follow && this.atEnd;
    const top = this.selected * this.height;
    const isInSight = this.selected >= 0 && top + this.height > this.offset && top < this.offset + this.viewHeight;
    this.measure();
    if (bottom) this.toBottom();
    else if (isInSight) this.reveal(this.selected);
    this.drawNow();
  }

  drawNow() {
    const offset = this.offset;
    const first = Math.max(0, Math.min(Math.floor(offset / this.height), this.items.length - 1));
    const number = Math.min(Math.ceil(this.viewHeight / this.height) + 1, this.items.length - first);
    while (this.slots.length < number) this.slots.push(this.slot());
    this.rows.style.transform = `translateY(${Math.round(first * this.height - offset)}px)`;
    let active = null;
    this.slots.forEach((slot, at) => {
      const index = first + at;
      slot.node.hidden = at >= number;
      if (at >= number) { slot.index = -1; return; }
      const chosen = index === this.selected;
      if (chosen) active = slot.node.id;
      slot.index = index;
      slot.node.setAttribute("aria-selected", chosen);
      slot.node.setAttribute("aria-rowindex", index + 2);
      this.fill(slot.cells, this.items[index], slot.node, index);
      slot.node.classList.toggle("chosen", chosen);
    });
    if (active) this.root.setAttribute("aria-activedescendant", active);
    else this.root.removeAttribute("aria-activedescendant");
  }

  slot() {
    const id = `${this.id}-${this.slots.length}`;
    const node = element("div", { class: "row", role: "row", id });
    const cells = {};
    for (const [name] of this.columns) node.append(cells[name] = element("span", { class: name, role: "gridcell" }));
    node.style.height = `${this.height}px`;
    this.rows.append(node);
    return { node, cells, index: -1 };
  }

  /** Select an item, and scroll to it. */
  select(index, { reveal = true, middle = false } = {}) {
    this.selected = index;
    if (reveal && index >= 0) this.reveal(index, middle);
    this.drawNow();
  }

  reveal(index, middle) {
    if (!this.viewHeight) this.measure();
    const [top, bottom] = [index * this.height, (index + 1) * this.height];
    const offset = this.offset;
    const far = top < offset - this.viewHeight || bottom > offset + 2 * this.viewHeight;
    let place = offset;
    if ((middle || far) && (top < offset || bottom > offset + this.viewHeight)) place = top - Math.floor(this.viewHeight / 3);
    else if (top < offset) place = top;
    else if (bottom > offset + this.viewHeight) place = bottom - this.viewHeight;
    if (place !== offset) this.scroller.scrollTop = Math.max(0, place) / this.scale;
  }

  click(event, action) {
    const node = event.target.closest(".row");
    const slot = this.slots.find((one) => one.node === node);
    if (slot && slot.index >= 0 && action) action(slot.index, this.items[slot.index], event);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const item = this.items[this.selected];
    if (event.key === "Enter" && item && this.opened && !event.target.closest("button")) {
      event.preventDefault();
      event.stopPropagation();
      this.opened(this.selected, item);
    }
    const page = Math.max(1, Math.floor(this.viewHeight / this.height) - 1);
    const last = this.items.length - 1;
    const to = {
      ArrowDown: this.selected + 1, ArrowUp: Math.max(0, this.selected - 1),
      PageDown: this.selected + page, PageUp: this.selected - page, Home: 0, End: last,
    }[event.key];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    const index = Math.min(Math.max(to, 0), last);
    this.chosen(index, this.items[index], event);
  }
}
