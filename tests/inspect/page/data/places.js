selector => [...document.querySelectorAll(selector)].map(text => {
    const { left, right } = text.getBoundingClientRect();
    return [left, right, text.textContent];
})
