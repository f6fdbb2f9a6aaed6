"""Names of headers and parameters that carry credentials, in lower case."""

import re
from functools import lru_cache
from urllib.parse import unquote_plus

CREDENTIAL_HEADERS = (
    "authorization",
    "proxy-authorization",
    "anthropic-api-key",
    "api-key",
    "dpop",
    "ocp-apim-subscription-key",
    "sec-websocket-protocol",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "x-api-token",
    "x-auth",
    "x-auth-token",
    "x-csrf-token",
    "x-forwarded-authorization",
    "x-goog-api-key",
    "x-xsrf-token",
)
"""Headers whose credential is redacted; its scheme, such as `Bearer`, is kept."""

COOKIE_HEADERS = ("cookie", "set-cookie")
"""Headers whose whole value is redacted."""

SECRET_HEADERS = frozenset((*CREDENTIAL_HEADERS, *COOKIE_HEADERS))

CREDENTIAL_PARAMETERS = (
    "access_token",
    "api_key",
    "api_token",
    "auth",
    "auth_token",
    "authorization",
    "client_secret",
    "code",
    "id_token",
    "jwt",
    "key",
    "pass",
    "passwd",
    "password",
    "pwd",
    "refresh_token",
    "secret",
    "session_token",
    "sig",
    "signature",
    "token",
    "x_amz_credential",
    "x_amz_security_token",
    "x_amz_signature",
    "x_api_key",
    "x_goog_credential",
    "x_goog_signature",
)
"""Parameters of URLs whose values are redacted; CLI008 reports them.  See `is_credential_parameter`."""

_NESTING = re.compile(r"[\[\].]+")


def is_credential_parameter(name: str) -> bool:
    """Whether a parameter, as it is in a URL, carries a credential."""
    return is_parameter(name, CREDENTIAL_PARAMETERS)


def is_parameter(name: str, names: tuple[str, ...]) -> bool:
    """Whether a parameter, as it is in a URL, has one of these names.

    `access_token` also stands for `access-token`, `accessToken` and `access%5Ftoken`, and `token` for `filter[token]`.
    """
    return not _plain_names(names).isdisjoint(map(_without_separators, _NESTING.split(unquote_plus(name))))


@lru_cache(100)
def _plain_names(names: tuple[str, ...]) -> frozenset[str]:
    return frozenset(map(_without_separators, names))


def _without_separators(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").strip()
