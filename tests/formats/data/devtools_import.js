async har => {
    const {HARFormat, Importer} = await import('/devtools/models/har/har.js');
    const requests = Importer.Importer.requestsFromHARLog(new HARFormat.HARRoot(har).log);
    return Promise.all(requests.map(async request => ({
        url: request.url(), type: request.resourceType().name(), status: request.statusCode, finished: request.finished,
        body: (await request.requestContentData()).text, start: request.startTime, end: request.endTime,
        events: request.eventSourceMessages().map(({time, eventName, eventId, data}) =>
            [time, eventName, eventId, data]),
    })));
}
