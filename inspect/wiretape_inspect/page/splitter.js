// The borders between the parts of the page, moved with the mouse or the arrow keys.

const [LEAST, MOST, STEP] = [0.1, 0.8, 0.03];

/** Let a splitter set `variable`, the share of `box` that the part before it has, or with `isLast` the part after it. */
export function watchSplitter(splitter, { variable, share: initial, box, isLast = false }) {
  let share = initial;
  const set = (wanted) => {
    share = Math.min(Math.max(wanted, LEAST), MOST);
    box.style.setProperty(variable, `${(share * 100).toFixed(1)}%`);
    splitter.setAttribute("aria-valuenow", Math.round(share * 100));
  };
  splitter.setAttribute("aria-valuemin", LEAST * 100);
  splitter.setAttribute("aria-valuemax", MOST * 100);
  set(share);
  splitter.addEventListener("pointerdown", (event) => { splitter.setPointerCapture(event.pointerId); event.preventDefault(); });
  splitter.addEventListener("pointermove", (event) => {
    if (!splitter.hasPointerCapture(event.pointerId)) return;
    const { left, top, width, height } = box.getBoundingClientRect();
    const part = isStacked() ? (event.clientY - top) / height : (event.clientX - left) / width;
    set(isLast ? 1 - part : part);
  });
  splitter.addEventListener("keydown", (event) => {
    const change = { ArrowLeft: -STEP, ArrowUp: -STEP, ArrowRight: STEP, ArrowDown: STEP }[event.key];
    if (change) { event.preventDefault(); event.stopPropagation(); set(share + (isLast ? -change : change)); }
  });

  function isStacked() {
    return getComputedStyle(box).flexDirection === "column";
  }
}
