() => [...document.querySelectorAll("html, body, body *:not(script)")].flatMap((node) => [
    ...[...node.attributes].filter(({ name }) => /^(title|alt|aria-.*)$/.test(name)).map((each) => each.value),
    ...[...node.childNodes].filter((each) => each.nodeType === Node.TEXT_NODE).map((each) => each.data),
]).join("\n") + document.title
