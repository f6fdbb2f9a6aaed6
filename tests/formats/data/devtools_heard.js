async count => {
    const until = async met => { while (!met()) await new Promise(again => setTimeout(again, 10)); };
    const Logs = await import('/devtools/models/logs/logs.js');
    const requests = () => Logs.NetworkLog.NetworkLog.instance().requests();
    await until(() => requests().filter(each => each.finished).length === 2);
    // Of a stream that fetch reads they have events only where they were quick enough.
    await until(() => requests()[0].eventSourceMessages().length === count);
}
