"""The catalogue of rules."""

import re

from for_each import for_each

from wiretape.contract import CLAUSES
from wiretape.rules import CATALOGUE
from wiretape.rules.vectors import vectors_of

ROWS = """
AUTH001 keyless-request-accepted       stated   error   service   exchange
AUTH002 keyless-request-misanswered    stated   error   service   exchange
BUSY001 active-run-missing             stated   error   service   exchange
BUSY002 recovery-missing               stated   error   service   exchange
BUSY003 message-incomplete             stated   warning service   exchange
CLI001  missing-bearer-key             stated   error   client    exchange
CLI002  resumed-from-wrong-event       stated   error   client    client
CLI003  refused-cursor-sent-again      stated   error   client    client
CLI004  retried-too-soon               stated   error   client    client
CLI005  resync-ignored                 stated   warning client    client
CLI006  retry-with-new-idempotency-key stated   warning client    client
CLI007  resolved-tool-answered-again   stated   warning client    client
CLI008  key-in-url                     inferred warning client    exchange
CLI009  ended-run-cancelled            inferred note    client    client
DUR001  id-without-sequence            stated   error   service   message
DUR002  sequence-without-id            stated   error   service   message
DUR003  id-disagrees                   stated   error   service   message
DUR004  delta-with-id                  stated   error   service   message
DUR005  delta-with-sequence            stated   error   service   message
DUR006  stored-event-without-id        stated   error   service   message
DUR007  unrequested-delta              stated   error   service   stream
ERR001  not-an-envelope                stated   error   service   exchange
ERR002  envelope-field-malformed       stated   error   service   exchange
ERR003  unknown-error-code             stated   error   service   exchange
ERR004  status-disagrees               stated   error   service   exchange
ERR005  details-malformed              stated   error   service   exchange
ERR006  key-beside-error               stated   error   service   exchange
ERR007  field-not-in-contract          inferred note    service   exchange
ERR008  error-not-json-typed           inferred note    service   exchange
ERR009  request-id-reused              inferred warning service   recording
ERR010  error-with-success-status      inferred error   service   exchange
EVT001  data-not-one-json-object       stated   error   service   message
EVT002  unknown-event-type             stated   error   service   message
EVT003  event-name-disagrees           stated   error   service   message
EVT004  durable-field-malformed        stated   error   service   message
EVT005  created-at-not-utc             stated   error   service   message
EVT006  content-malformed              stated   error   service   message
EVT007  tool-started-malformed         stated   error   service   message
EVT008  tool-summary-disagrees         inferred warning service   message
EVT009  wrong-session                  inferred error   service   stream
EVT010  workspace-changed              inferred error   service   session
EVT011  ephemeral-malformed            stated   error   service   message
EVT012  duplicate-json-key             inferred note    service   message
KAL001  silent-too-long                stated   warning service   stream
KAL002  keep-alive-not-a-comment       inferred note    service   message
KAL003  keep-alive-with-blank-line     inferred note    service   stream
RATE001 retry-after-missing            stated   error   service   exchange
RATE002 limit-details-malformed        stated   error   service   exchange
RATE003 retry-after-disagrees          stated   error   service   exchange
RATE004 unpublished-limit              stated   note    service   exchange
REC001  capture-incomplete             inferred error   recording recording
REC002  capture-began-mid-session      inferred note    recording session
REC003  stream-not-checked             inferred warning recording stream
RES001  event-repeated-on-resume       stated   error   service   session
RES002  event-lost-on-resume           stated   error   service   session
RES003  event-changed-on-resume        stated   error   service   session
RES004  live-before-replay-ended       stated   error   service   session
RES005  issued-cursor-refused          stated   error   service   session
RES006  foreign-cursor-accepted        inferred error   service   session
RUN001  two-active-runs                stated   error   service   session
RUN002  event-after-run-ended          inferred warning service   session
RUN003  run-ended-twice                inferred error   service   session
RUN004  idle-with-active-run           stated   error   service   session
RUN005  event-before-run-started       inferred note    service   session
RUN006  active-run-not-cancellable     stated   warning service   session
RUN007  busy-with-ended-run            stated   warning service   session
SEQ001  sequence-not-increasing        stated   error   service   stream
SEQ002  sequence-reused                inferred error   service   session
SEQ003  id-reused                      inferred error   service   stream
SEQ004  sequence-gap                   inferred note    service   stream
SEQ005  created-at-going-back          inferred note    service   stream
SSE001  invalid-utf8                   stated   error   service   message
SSE002  message-cut-off                inferred warning service   stream
SSE003  unknown-field                  stated   note    service   message
SSE004  nul-in-id                      stated   error   service   message
SSE005  repeated-field                 stated   warning service   message
SSE006  missing-event-line             stated   error   service   message
SSE007  wrong-content-type             stated   error   service   exchange
SSE008  message-without-data           inferred note    service   message
SSE009  compressed-stream              inferred note    service   exchange
SSE010  unusable-retry                 inferred warning service   message
SSE011  id-unfit-for-header            inferred warning service   message
TOOL001 missing-tool-call-id           stated   error   service   message
TOOL002 end-without-start              inferred warning service   session
TOOL003 ended-twice                    inferred warning service   session
TOOL004 call-changed                   inferred warning service   session
TOOL005 call-left-open                 inferred note    service   session
"""


def test_a_published_code_keeps_its_name_basis_severity_side_and_scope():
    found = [(r.code, r.name, r.basis, r.severity, r.side, r.scope) for r in CATALOGUE.values()]
    assert found == [tuple(line.split()) for line in ROWS.strip().splitlines()]


@for_each("code", CATALOGUE)
def test_every_rule_quotes_its_clause_and_describes_what_breaks_it(code):
    row = CATALOGUE[code]
    assert re.search(r'"[^"]+"', row.clause)
    assert row.about.endswith(".")


@for_each("code", CATALOGUE)
def test_every_rule_has_a_vector_that_breaks_it_and_one_that_keeps_it(code):
    names = {vector.name for vector in vectors_of(code)}
    assert {"breaks", "keeps"} <= names


def test_every_rule_names_a_clause():
    """Of the specification, of the standard for event streams, or about the recording itself."""
    known = CLAUSES | {"WHATWG", "About the recording"}
    assert {rule.code for rule in CATALOGUE.values() if rule.clause.partition(": ")[0] not in known} == set()
