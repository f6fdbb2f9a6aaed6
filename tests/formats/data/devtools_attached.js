async () => {
    const until = async met => { while (!met()) await new Promise(again => setTimeout(again, 10)); };
    const SDK = await import('/devtools/core/sdk/sdk.js');
    const targets = SDK.TargetManager.TargetManager.instance();
    await until(() => targets.primaryPageTarget()?.model(SDK.NetworkManager.NetworkManager));
    const Logs = await import('/devtools/models/logs/logs.js');
    Logs.NetworkLog.NetworkLog.instance();
    // What is asked of it is answered in order: the network is watched from here on.
    await targets.primaryPageTarget().networkAgent().invoke_enable({});
}
