() => {
    const box = (node) => node.getBoundingClientRect();
    const shown = (selector) => [...document.querySelectorAll(selector)].filter((node) => node.offsetParent && box(node).width > 1);
    const probe = document.querySelector("#timeline .list-rows").appendChild(document.createElement("span"));
    probe.textContent = "0".repeat(100);
    const letter = box(probe).width / 100;
    probe.remove();
    const canvas = document.createElement("canvas").getContext("2d");
    const holds = (input) => {
        const style = getComputedStyle(input);
        canvas.font = style.font;
        return canvas.measureText(input.placeholder).width + parseFloat(style.paddingLeft) + parseFloat(style.paddingRight) <= input.clientWidth + 1;
    };
    const parts = shown(".top *, .bar *, .right-head *, .play-row *").filter((node) => node.scrollWidth > node.clientWidth + 1 && node.clientWidth);
    const [left, right] = [document.querySelector(".left"), document.querySelector(".right")].map(box);
    return {
        content: Math.min(...shown("#timeline .list-rows .row > .what").map((node) => box(node).width)) / letter,
        cut: [...parts, ...shown(".field input").filter((input) => !holds(input))].map((node) => node.id || node.className || node.textContent),
        isBelow: right.top >= left.bottom - 1,
        tabLines: new Set(shown("[role=tab]").map((tab) => box(tab).top)).size,
        values: shown("#panel .facts-list:not(.facts-box *) dd").map((value) => Math.round(box(value).left)),
        firstRow: box(document.querySelector("#timeline .list-rows .row")).top,
    };
}
