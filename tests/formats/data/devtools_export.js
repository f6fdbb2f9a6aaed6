async sanitize => {
    const [HAR, Logs, Common] = await Promise.all([import('/devtools/models/har/har.js'),
        import('/devtools/models/logs/logs.js'), import('/devtools/core/common/common.js')]);
    const requests = Logs.NetworkLog.NetworkLog.instance().requests();
    const progress = new Common.Progress.CompositeProgress(new Common.Progress.Progress());
    return HAR.Writer.Writer.harStringForRequests(requests, {sanitize}, progress);
}
