async hash => {
    document.getElementById("dialog").close();
    document.querySelector(".strip-fit").click();
    if (location.hash !== hash) {
        const changed = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
        location.hash = hash;
        await changed;
    }
    document.querySelector("#timeline .list").focus();
}
