async () => {
    const headers = {Authorization: "Bearer key"};
    const created = await fetch("http://service.test/v1/sessions", {method: "POST", headers});
    const {id} = await created.json();
    const url = `http://service.test/v1/sessions/${id}/events/stream`;
    const source = new EventSource(url);
    const events = [];
    await new Promise(done => {
        for (const type of ["run.started", "message.delta", "run.completed"])
            source.addEventListener(type, ({data, lastEventId}) => {
                events.push([type, lastEventId, JSON.parse(data).text ?? null]);
                if (type === "run.completed") done();
            });
    });
    source.close();
    const fetched = await (await fetch(url, {headers})).text();
    const missing = await fetch("http://service.test/v1/other").then(() => "answered", () => "aborted");
    return {status: created.status, events, fetched, missing};
}
