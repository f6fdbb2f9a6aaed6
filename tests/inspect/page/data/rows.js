async ([expected, timeout]) => {
    const frame = () => new Promise(requestAnimationFrame);
    const until = performance.now() + timeout;
    const text = (row, name) => row.querySelector(`:scope > .${name}`).textContent;
    const read = () => [...document.querySelectorAll("#timeline .list-rows .row:not([hidden])")].map((row) => {
        const number = text(row, "n");
        return [number, /^\d+$/.test(number) ? `${text(row, "gap")} ${text(row, "id") || text(row, "what > .tag")}`.trim() : ""];
    });
    const isShown = () => JSON.stringify(read()) === JSON.stringify(expected);
    const isBusy = () => document.querySelector("#count.reading") || !isShown();
    do { await frame(); await frame(); } while (isBusy() && performance.now() < until);
    return read();
}
