// @ag-ui/client: has a conversation.  Told in JSON: url, and the prefix of run ids.  Calls of its tool `confirm` and interrupts are answered.
// Writes one JSON line for each message at the end, or what went wrong.
import { HttpAgent } from "@ag-ui/client";

const told = JSON.parse(process.argv[2]);
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const agent = new HttpAgent({ url: told.url, threadId: "t1" });
const tools = [{ name: "confirm", description: "Asks the user.", parameters: { type: "object", properties: {} } }];
let runs = 0;
let errors = 0;
const subscriber = { onRunErrorEvent: () => void (errors += 1) };

agent.addMessage({ id: "m0", role: "user", content: "Shall I take an umbrella?" });
try {
  for (let goesOn = true; goesOn && runs < 5; runs += 1) {
    const resume = agent.pendingInterrupts.map((each) => ({ interruptId: each.id, status: "resolved", payload: true }));
    await agent.runAgent({ runId: `${told.prefix}${runs + 1}`, tools, ...(resume.length ? { resume } : {}) }, subscriber);
    const answered = new Set(agent.messages.filter((each) => each.role === "tool").map((each) => each.toolCallId));
    const open = agent.messages.flatMap((each) => each.toolCalls ?? []).filter((call) => !answered.has(call.id));
    for (const call of open) {
      agent.addMessage({ id: `answer ${call.id}`, role: "tool", toolCallId: call.id, content: "yes" });
    }
    goesOn = errors === 0 && (open.length > 0 || agent.pendingInterrupts.length > 0);
  }
} catch (error) {
  say({ failed: error.message });
}
for (const { role, content, toolCalls } of agent.messages) {
  say({ role, content, calls: (toolCalls ?? []).map((call) => call.function.name + call.function.arguments) });
}
say({ runs, errors, state: agent.state });
