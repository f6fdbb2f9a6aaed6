"""Responses that do not come from a recording: errors, authentication and rate limits."""
