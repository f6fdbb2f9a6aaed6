// Starts the page, with the recording that it contains or the one that its server has.

import { SourceError, apiSource } from "./api_client.js";
import { App } from "./app.js";
import { byId } from "./dom.js";
import { printable } from "./format.js";
import { readReportIndex, recordedAnswers, recordingNumber } from "./recorded_answers.js";

const report = readReportIndex();
if (report && !location.hash) history.replaceState(null, "", `#${report.start}`);
const number = recordingNumber(location.hash);
const app = new App(apiSource(recordedAnswers(number)), report, number);
app.start().catch((error) => {
  const box = byId("error-message");
  box.hidden = false;
  box.textContent = printable(error instanceof SourceError ? error.message : `Internal error of the page: ${error.message}`);
  if (!(error instanceof SourceError)) throw error;
});
