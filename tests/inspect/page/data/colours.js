() => {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = "var(--error)";
    const colours = { "--error": getComputedStyle(probe).color };
    probe.remove();
    for (const type of document.querySelectorAll("#timeline .list-rows .row:not([hidden]) > .type")) {
        colours[type.textContent] = getComputedStyle(type).color;
    }
    return colours;
}
