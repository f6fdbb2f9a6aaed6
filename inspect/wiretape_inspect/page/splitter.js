// The borders between the parts of the page, moved with the mouse or the arrow keys.

const [LEAST, MOST, STEP] = [0.1, 0.8, 0.03];

/** Let a splitter set `variable`, the share of `box` that the part before it has, or with `isLast` the part after it. */
export function watchSplitter(splitter, { variable, box, isLast = false }) {
  /** The share of the part if the border were at a point of the screen. */
  const shareAt = ({ x, y }) => {
    const { left, top, width, height } = box.getBoundingClientRect();
    const before = getComputedStyle(box).flexDirection === "column" ? (y - top) / height : (x - left) / width;
    return isLast ? 1 - before : before;
  };
  const shareNow = () => shareAt(splitter.getBoundingClientRect());
  const tell = (share) => splitter.setAttribute("aria-valuenow", Math.round(share * 100));
  const set = (wanted) => {
    const share = Math.min(Math.max(wanted, LEAST), MOST);
    box.style.setProperty(variable, `${(share * 100).toFixed(1)}%`);
    tell(share);
  };
  splitter.setAttribute("aria-valuemin", LEAST * 100);
  splitter.setAttribute("aria-valuemax", MOST * 100);
  tell(shareNow());
  splitter.addEventListener("focus", () => tell(shareNow()));
  splitter.addEventListener("pointerdown", (event) => { splitter.setPointerCapture(event.pointerId); event.preventDefault(); });
  splitter.addEventListener("pointermove", (event) => { if (splitter.hasPointerCapture(event.pointerId)) set(shareAt(event)); });
  splitter.addEventListener("keydown", (event) => {
    const change = { ArrowLeft: -STEP, ArrowUp: -STEP, ArrowRight: STEP, ArrowDown: STEP }[event.key];
    if (change) { event.preventDefault(); event.stopPropagation(); set(shareNow() + (isLast ? -change : change)); }
  });
}
