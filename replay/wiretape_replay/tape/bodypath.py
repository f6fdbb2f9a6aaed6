"""Request bodies without what does not count when they are compared."""

from hashlib import sha256

import orjson

from wiretape.json_path import JsonPath
from wiretape_replay.front.asked import NO_BODY, Body, plain_json


def without(body: Body, paths: tuple[JsonPath, ...]) -> Body:
    """`body` as far as it counts: a JSON object or list without `paths`; anything else as it is, but for `$`."""
    if any(path.is_root for path in paths):
        return NO_BODY
    if not paths or body.text is None:
        return body
    try:
        value = plain_json(body.text)
        if value is None:
            return body
        for path in paths:
            path.remove_from(value)
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except (orjson.JSONEncodeError, RecursionError):
        return body
    return Body(sha256(text).digest(), text)
