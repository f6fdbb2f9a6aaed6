"""Open Responses, a specification of streams of language models, and the profile of OpenAI's own API."""

CONTRACT = "open-responses.toml"
OPENAI = "openai.toml"
"""The files of the contracts, in this folder."""
