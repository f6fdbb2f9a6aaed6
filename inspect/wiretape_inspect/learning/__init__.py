"""`wiretape contract learn`: a draft contract from recordings of an API.

Recordings are read several times, so that memory does not grow with them: for the place of the type, for what holds
about streams and fields, for entities, and with the contract itself, which drops each rule that has a finding.
"""
