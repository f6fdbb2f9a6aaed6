"""Names of query parameters that carry credentials."""

CREDENTIAL_PARAMETERS = (
    "access_token",
    "api-key",
    "api_key",
    "apikey",
    "auth",
    "authorization",
    "key",
    "password",
    "secret",
    "token",
)
"""In lower case.  Their values are redacted, and CLI008 reports them."""
