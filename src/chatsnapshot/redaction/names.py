"""Names of secrets (``password``, ``api_key``, ``DB_PASS`` …), and what their values look like."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Named", "has_name", "looks_random", "named", "placeholder", "plausible"]


class Named(NamedTuple):
    """What a name says about its value: the kind of the mark, and whether any value counts or only a random one."""

    kind: str
    any_value: bool


_SURE = {
    "password": "password",
    "passwd": "password",
    "passphrase": "password",
    "passcode": "password",
    "passwort": "password",
    "secret": "secret",
    "secrets": "secret",
    "secretkey": "secret",
    "secretkeybase": "secret",
    "secretaccesskey": "aws-secret-access-key",
    "awssecretkey": "aws-secret-access-key",
    "apikey": "api-key",
    "apikeys": "api-key",
    "apisecret": "secret",
    "appkey": "api-key",
    "accesskey": "api-key",
    "accountkey": "azure-key",
    "sharedaccesskey": "azure-key",
    "privatekey": "private-key",
    "signingkey": "secret",
    "encryptionkey": "secret",
    "masterkey": "secret",
    "authkey": "api-key",
    "accesstoken": "token",
    "refreshtoken": "token",
    "authtoken": "token",
    "apitoken": "token",
    "idtoken": "token",
    "bearertoken": "token",
    "bottoken": "token",
    "sessiontoken": "token",
    "securitytoken": "token",
    "privatetoken": "token",
    "deploytoken": "token",
    "csrftoken": "token",
    "xsrftoken": "token",
    "xamzsignature": "signature",
    "connectionstring": "connection-string",
    "connstr": "connection-string",
    "authorization": "authorization",
    "cookie": "cookie",
}
"""Folded endings of names whose text is a secret, whatever it looks like."""

_ALONE = {"pwd": "password", "dbpass": "password", "userpwd": "password"}
_UNSURE = ("token", "credential", "credentials", "auth")
_NO_TOKENS = frozenset(
    (
        "pagetoken", "nexttoken", "continuationtoken", "synctoken", "cursortoken", "starttoken", "endtoken",
        "stoptoken", "eostoken", "bostoken", "padtoken", "unktoken", "specialtoken", "masktoken", "resumetoken",
    )
)  # fmt: skip
_ENDINGS = re.compile("(" + "|".join(sorted(map(re.escape, _SURE), key=len, reverse=True)) + r")\Z")
_PASS = re.compile(r"(?:\A|[_.-])(?:pass|pwd|pw)\Z|[a-z0-9](?:Pass|Pwd)\Z")
_SEPARATORS = str.maketrans("", "", "-_. $")

_A_KEY = re.compile(
    "(?:api|access|private|secret|encryption|signing|master|account|auth|app|goog)[-_ .]?keys?(?![a-z])"
)
_AN_AUTH = re.compile("auth(?!or(?!iz)|entic)")


def has_name(lowered: str) -> bool:
    """Whether the name of a secret, or a command that takes one, may stand in lower-case text."""
    # One letter is found ten times as fast as a word.
    if "k" in lowered and (
        ("key" in lowered and _A_KEY.search(lowered) is not None)
        or ("token" in lowered and lowered.count("token") != lowered.count("tokens"))
        or "cookie" in lowered
    ):
        return True
    return (
        "pass" in lowered
        or "secret" in lowered
        or ("auth" in lowered and _AN_AUTH.search(lowered) is not None)
        or ("w" in lowered and "pw" in lowered)
        or "curl" in lowered
        or ("=" in lowered and ("sig=" in lowered or "x-amz-s" in lowered))
        or "credential" in lowered
    )


@lru_cache(4_096)
def named(name: str) -> Named | None:
    """What a name says about its value; ``None`` for a name of no secret. Case, dashes and underscores are folded."""
    if len(name) > 256:
        return None
    folded = name.lower().translate(_SEPARATORS)
    ending = _ENDINGS.search(folded)
    if ending is not None:
        return Named(_SURE[ending[1]], True)
    if folded in _ALONE or _PASS.search(name.lower() if name.isupper() else name):
        return Named("password", folded != "pass")
    if folded.endswith(_UNSURE) and not folded.endswith(tuple(_NO_TOKENS)):
        return Named("token" if folded.endswith("token") else "secret", False)
    return Named("signature", False) if folded == "sig" else None


_PLACEHOLDER = re.compile(
    r"""
    [\s*•.xX_-]*                                                   # nothing, stars, dots, xxxx
    | [<\[({%$@].*                                                 # <password>, {{ x }}, ${X}, $X, %(x)s
    | \$?(?:env|vault|secrets?|os\.environ|process\.env|ref|arn|keyring|op)[.:\[(].*     # where it really is
    | (?:none|null|nil|undefined|true|false|yes|no|on|off|empty|unset|n/?a|string|str|int|bytes|bool|required|optional
        |redacted|hidden|masked|removed|withheld|secret|password|token|bearer|basic|credentials?|todo|tbd)
    | (?:your|my|the|some|example|dummy|placeholder|insert|enter|replace)[-_ ]?(?:own[-_ ]?)?[a-z_ -]*
          (?:key|token|secret|password|passwd|here|value|me)[a-z_ -]*
    """,
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def placeholder(value: str) -> bool:
    """Whether a value only says where a secret would stand."""
    return _PLACEHOLDER.fullmatch(value[:200]) is not None or "..." in value[:12] or "…" in value[:12]


_LOOKED_AT = 64
"""Characters of a value that tell whether it is random."""

_TOKEN = re.compile(r"[\w.~+/=%:|-]{16,2048}\Z", re.ASCII)


def looks_random(value: str) -> bool:
    """Whether a value is long and mixed like one that a machine made."""
    if not _TOKEN.match(value):
        return False
    value = value[:_LOOKED_AT]
    digits = sum("0" <= char <= "9" for char in value)
    upper = sum("A" <= char <= "Z" for char in value)
    lower = sum("a" <= char <= "z" for char in value)
    return digits >= 2 and digits < len(value) and (upper > 0 or lower > 0)


def plausible(value: str) -> bool:
    """Whether a value in running text reads like a password and not like a word, a number or code."""
    if len(value) < 4 or placeholder(value):
        return False
    value = value[:_LOOKED_AT]
    letters = sum(char.isalpha() for char in value)
    digits = sum(char.isdigit() for char in value)
    if not letters:
        return False
    symbols = sum(char in "!#$%^&*+~?@|" for char in value[:-1])
    inner_upper = any(char.isupper() for char in value[1:]) and any(char.islower() for char in value)
    return digits > 0 or symbols > 0 or (inner_upper and value.isalpha() and len(value) >= 8)
