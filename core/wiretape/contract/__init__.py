"""Contracts: what streams of an API have to look like, as data that is built from a file.

A contract has operations, describes how to read the facts of an event, and declares rules with primitives.
The rules are ordinary rules of `wiretape.rules`; the checker runs them on the traffic of the operations.
"""
