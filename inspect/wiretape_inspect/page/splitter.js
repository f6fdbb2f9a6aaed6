// The border between the timeline and the details, moved with the mouse or the arrow keys.

import { byId } from "./dom.js";

const [LEAST, MOST, STEP] = [0.2, 0.75, 0.03];

export function watchSplitter() {
  const [splitter, main] = [byId("splitter"), byId("main")];
  let share = 0.42;
  const set = (wanted) => {
    share = Math.min(Math.max(wanted, LEAST), MOST);
    main.style.setProperty("--details", `${(share * 100).toFixed(1)}%`);
    splitter.setAttribute("aria-valuenow", Math.round(share * 100));
  };
  splitter.setAttribute("aria-valuemin", LEAST * 100);
  splitter.setAttribute("aria-valuemax", MOST * 100);
  set(share);
  splitter.addEventListener("pointerdown", (event) => { splitter.setPointerCapture(event.pointerId); event.preventDefault(); });
  splitter.addEventListener("pointermove", (event) => {
    if (splitter.hasPointerCapture(event.pointerId)) set(1 - event.clientX / main.clientWidth);
  });
  splitter.addEventListener("keydown", (event) => {
    const change = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (change) { event.preventDefault(); event.stopPropagation(); set(share + change); }
  });
}
