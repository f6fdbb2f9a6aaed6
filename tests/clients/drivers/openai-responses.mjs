// openai: asks for a response in the background, and reads on if the connection breaks.  Told in JSON: url, question.
// Writes one JSON line: the text, the type of the last event, and how often it read on.
import OpenAI from "openai";

const told = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL: `${told.url}/v1`, apiKey: "any-key", maxRetries: 0 });
const ends = ["response.completed", "response.incomplete", "response.failed"];
let [text, type, id, last, resumed] = ["", "", "", -1, 0];

let stream = await client.responses.create({ model: "demo", input: told.question, background: true, stream: true });
while (!ends.includes(type) && resumed < 5) {
  try {
    for await (const event of stream) {
      ({ type, sequence_number: last } = event);
      if (type === "response.created") id = event.response.id;
      if (type === "response.output_text.delta") text += event.delta;
    }
  } catch {
    resumed += 1;
    stream = await client.responses.retrieve(id, { stream: true, starting_after: last });
  }
}
process.stdout.write(JSON.stringify({ text, type, resumed }) + "\n");
