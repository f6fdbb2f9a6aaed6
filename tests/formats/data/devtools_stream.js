async last => {
    await new Promise(done => {
        const source = new EventSource('/stream?source');
        source.addEventListener(last, () => { source.close(); done(); });
    });
    await (await fetch('/stream?fetch', {headers: {authorization: 'Bearer abcdefghijkl'}})).text();
}
