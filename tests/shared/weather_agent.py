"""An agent that speaks AG-UI, with scripted turns: reasoning, tools of both sides, an interrupt, and shared state.

It answers what the request has: a run without an answer of the tool `confirm` ends with a call of it, the next one
with an interrupt, and the one that resumes with a text.  A `defect` plants a mistake into each run.
"""

import json

from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

DEFECTS = {
    "an error and an end": lambda events: [*events[:-1], {"type": "RUN_ERROR", "message": "Broken."}, events[-1]],
    "a message that stays open": lambda events: [each for each in events if each["type"] != "TEXT_MESSAGE_END"],
    "no end": lambda events: events[:-1],
    "another run": lambda events: [each | ({"runId": "x"} if "runId" in each else {}) for each in events],
}


def turn(asked):
    """Yield the events of a run, without the first and the last one, and then its outcome."""
    answers = [each["toolCallId"] for each in asked["messages"] if each["role"] == "tool"]
    run = asked["runId"]
    if "confirm-1" not in answers:
        yield {"type": "STATE_SNAPSHOT", "snapshot": {"city": None}}
        yield {"type": "REASONING_START", "messageId": f"{run} span"}
        yield {"type": "REASONING_MESSAGE_START", "messageId": f"{run} thought", "role": "reasoning"}
        yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": f"{run} thought", "delta": "Where is "}
        yield {"type": "REASONING_MESSAGE_CONTENT", "messageId": f"{run} thought", "delta": "the user?"}
        yield {"type": "REASONING_MESSAGE_END", "messageId": f"{run} thought"}
        yield {"type": "REASONING_END", "messageId": f"{run} span"}
        yield {"type": "STEP_STARTED", "stepName": "locate"}
        yield {"type": "TOOL_CALL_START", "toolCallId": "locate-1", "toolCallName": "locate"}
        yield {"type": "TOOL_CALL_ARGS", "toolCallId": "locate-1", "delta": "{}"}
        yield {"type": "TOOL_CALL_END", "toolCallId": "locate-1"}
        yield {"type": "TOOL_CALL_RESULT", "messageId": f"{run} place", "toolCallId": "locate-1", "content": "Rome"}
        yield {"type": "STATE_DELTA", "delta": [{"op": "replace", "path": "/city", "value": "Rome"}]}
        yield {"type": "STEP_FINISHED", "stepName": "locate"}
        for delta in ('{"city": ', '"Rome"}'):
            yield {"type": "TOOL_CALL_CHUNK", "toolCallId": "confirm-1", "toolCallName": "confirm", "delta": delta}
        yield {"type": "success", "pendingToolCallIds": ["confirm-1"]}
    elif not asked.get("resume"):
        yield {"type": "TEXT_MESSAGE_CHUNK", "messageId": f"{run} text", "delta": "One more "}
        yield {"type": "TEXT_MESSAGE_CHUNK", "delta": "question."}
        yield {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "approval", "message": "Now?"}]}
    else:
        yield {"type": "TEXT_MESSAGE_START", "messageId": f"{run} text", "role": "assistant"}
        for delta in ("No, ", "it is ", "sunny."):
            yield {"type": "TEXT_MESSAGE_CONTENT", "messageId": f"{run} text", "delta": delta}
        yield {"type": "TEXT_MESSAGE_END", "messageId": f"{run} text"}
        yield {"type": "success"}


def events_of(asked, defect=None):
    """Return the events of a run, those of its boundaries included."""
    *events, outcome = turn(asked)
    ids = {"threadId": asked["threadId"], "runId": asked["runId"]}
    events = [{"type": "RUN_STARTED", "protocolVersion": "1.0"} | ids, *events]
    events.append({"type": "RUN_FINISHED", "outcome": outcome} | ids)
    return DEFECTS[defect](events) if defect else events


async def run(request):
    """Answer a run."""
    try:
        events = events_of(await request.json(), request.query_params.get("defect"))
    except (ValueError, KeyError) as error:
        return JSONResponse({"error": f"invalid input: {error}"}, 400)
    frames = (f"data: {json.dumps(each)}\n\n" for each in events)
    return StreamingResponse(frames, media_type="text/event-stream")


APP = Starlette(routes=[Route("/agent", run, methods=["POST"])])
