"""Names of headers and query parameters that carry credentials, in lower case."""

CREDENTIAL_HEADERS = ("authorization", "proxy-authorization", "x-api-key", "api-key")
"""Headers whose credential is redacted; their scheme, such as `Bearer`, is kept."""

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
"""Query parameters whose values are redacted; CLI008 reports them."""
