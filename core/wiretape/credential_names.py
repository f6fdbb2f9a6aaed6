"""How credentials are called where they do not belong: in the query of a request."""

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
"""Names of query parameters that carry a credential, in lower case.  They are redacted, and found (CLI008)."""
