"""curl, called again after each end with the last id in its output: what a shell script does.

See eventsource.mjs for what is told and what is written.
"""

import json
import subprocess
import sys

told = json.loads(sys.argv[1])
cursor = ""
while cursor != told["last"]:
    command = ["curl", "--silent", "--no-buffer", "--header", f"Authorization: Bearer {told['key']}", told["url"]]
    command += ["--header", f"Last-Event-ID: {cursor}"] if cursor else []
    event: dict[str, str] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as curl:
        for line in curl.stdout:
            name, _, value = line.rstrip("\n").partition(": ")
            if name:
                event[name] = value
            elif "data" in event:
                cursor = event.get("id", cursor)
                print(json.dumps({"type": event.get("event"), "id": cursor, "data": event["data"]}), flush=True)
                event = {}
                if cursor == told["last"]:
                    curl.kill()
            else:
                event = {}
