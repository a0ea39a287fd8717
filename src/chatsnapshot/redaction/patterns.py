"""The built-in patterns: what the keys and tokens of common services look like. Each runs in linear time."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

import msgspec

from chatsnapshot.redaction.names import looks_random, placeholder

__all__ = ["SECRETS", "Pattern"]


class Pattern(msgspec.Struct, frozen=True):
    """A regular expression for one kind of secret.

    ``kind`` is what the mark tells (lower case, digits, dashes). ``expression`` is a regular expression; when it has
    a group named ``secret``, only that is taken out. ``hints`` are texts of which one stands in every text that can
    match, at least 3 characters, without quotes, backslashes and control characters: payloads without them are not
    looked at closer. ``accept`` gets each hit and says whether it is one. ``linear`` vouches that the expression never
    backtracks far: it then runs with :mod:`re` and without the time limit. ``binary`` looks into binary blobs too,
    ``public`` says that the first four characters of a hit tell nothing secret.
    """

    kind: str
    expression: str
    hints: tuple[str, ...] = ()
    ignore_case: bool = False
    accept: Callable[[str], bool] | None = None
    linear: bool = False
    binary: bool = False
    public: bool = False


def _lead(literal: str, before: str = "0-9A-Za-z") -> str:
    """A literal that does not stand in the middle of a word.

    It comes first, so that the search runs at the speed of a search for text; what stood before it is looked at then.
    A line end written as ``\\n`` inside text is no letter.
    """
    text = re.escape(literal)
    return rf"{text}(?:(?<![{before}]{text})|(?<=\\[nrt]{text}))"


def _token(kind: str, literal: str, rest: str, *, accept: Callable[[str], bool] | None = None) -> Pattern:
    return Pattern(
        kind, _lead(literal) + rest, (literal,), accept=accept, linear=True, binary=True, public=True
    )


def _has_digit(hit: str) -> bool:
    return any("0" <= char <= "9" for char in hit)


def _mixed(hit: str) -> bool:
    return _has_digit(hit) and any(char.isupper() for char in hit) and any(char.islower() for char in hit)


def _basic(hit: str) -> bool:
    """Whether this is base64 of ``user:password``."""
    try:
        text = base64.b64decode(hit + "=" * (-len(hit) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in text and text.isprintable()


def _bearer(hit: str) -> bool:
    return not placeholder(hit) and (_has_digit(hit) or looks_random(hit))


def _password(hit: str) -> bool:
    return not placeholder(hit) and hit.lower() not in {"password", "pass", "passwd", "pwd", "secret"}


_ALNUM_END = r"(?![0-9A-Za-z])"
_BLANKS = r"(?:\\[nr]|[ \t\r\n]){1,8}"
_PEM_BODY = (
    _BLANKS + r"(?:(?:Proc-Type|DEK-Info|Version|Comment|Charset|Hash)[^\r\n\\]{0,200}" + _BLANKS + r"){0,6}"
    r"[0-9A-Za-z+/=]{16}(?:[0-9A-Za-z+/= \t\r\n]|\\[nr]){0,20000}"
)

SECRETS: tuple[Pattern, ...] = (
    *(
        _token("aws-access-key-id", lead, r"[A-Z2-7]{16}" + _ALNUM_END)
        for lead in ("AKIA", "ASIA", "ABIA", "ACCA")
    ),
    *(
        Pattern(
            "aws-secret-access-key",
            word + r"[^\r\n]{0,24}?[\"'=: ](?P<secret>[0-9A-Za-z+/]{40})(?![0-9A-Za-z+/=])",
            (word,),
            ignore_case=True,
            accept=_mixed,
            linear=True,
        )
        for word in ("secret", "aws")
    ),
    _token("google-api-key", "AIza", r"[\w-]{35}(?![\w-])"),
    _token("google-oauth-token", "ya29.", r"[\w-]{20,}"),
    _token("google-oauth-secret", "GOCSPX-", r"[\w-]{20,}"),
    Pattern(
        "azure-client-secret",
        r"Q~(?<=[0-9A-Za-z_.~-]{3}\dQ~)[\w.~-]{31,34}(?![\w~-])",
        ("Q~",),
        linear=True,
        binary=True,
    ),
    *(_token("github-token", f"gh{char}_", r"[0-9A-Za-z]{36,255}") for char in "pousr"),
    _token("github-token", "github_pat_", r"[0-9A-Za-z]{22}_[0-9A-Za-z]{59}"),
    *(
        _token("gitlab-token", lead, r"[\w-]{20,}", accept=_has_digit)
        for lead in ("glpat-", "gldt-", "glrt-", "glptt-", "glcbt-", "gloas-", "glagent-")
    ),
    *(_token("slack-token", f"xox{char}-", r"[0-9A-Za-z-]{24,}", accept=_has_digit) for char in "bparesoc"),
    _token("slack-token", "xapp-", r"\d-[0-9A-Za-z-]{24,}"),
    Pattern(
        "slack-webhook",
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[0-9A-Z]{6,16}/[0-9A-Z]{6,16}/[0-9A-Za-z]{16,64})",
        ("hooks.slack.com",),
        linear=True,
        binary=True,
    ),
    Pattern(
        "discord-webhook",
        r"/api/webhooks/\d{16,20}/(?P<secret>[\w-]{60,80})",
        ("/api/webhooks/",),
        linear=True,
        binary=True,
    ),
    _token("anthropic-key", "sk-ant-", r"[\w-]{20,}", accept=_has_digit),
    *(
        _token("openai-key", f"sk-{part}-", r"[\w-]{20,}", accept=_has_digit)
        for part in ("proj", "svcacct", "admin", "None")
    ),
    _token("openrouter-key", "sk-or-", r"[\w-]{20,}", accept=_has_digit),
    _token("secret-key", "sk-", r"[0-9A-Za-z]{20,}", accept=_has_digit),
    _token("langfuse-key", "sk-lf-", r"[0-9a-f-]{36}"),
    _token("groq-key", "gsk_", r"[0-9A-Za-z]{40,}"),
    _token("replicate-token", "r8_", r"[0-9A-Za-z]{37}" + _ALNUM_END),
    _token("perplexity-key", "pplx-", r"[0-9A-Za-z]{40,}"),
    _token("xai-key", "xai-", r"[0-9A-Za-z]{60,}"),
    *(
        _token("stripe-key", f"{lead}_{mode}_", r"[0-9A-Za-z]{16,}")
        for lead in ("sk", "rk")
        for mode in ("live", "test")
    ),
    _token("webhook-secret", "whsec_", r"[0-9A-Za-z+/=]{24,}", accept=_has_digit),
    _token("twilio-key", "SK", r"[0-9a-f]{32}" + _ALNUM_END),
    _token("sendgrid-key", "SG.", r"[\w-]{16,32}\.[\w-]{32,64}"),
    _token("npm-token", "npm_", r"[0-9A-Za-z]{36}" + _ALNUM_END),
    _token("pypi-token", "pypi-", r"AgE[\w-]{50,}"),
    _token("huggingface-token", "hf_", r"[0-9A-Za-z]{30,40}" + r"(?![\w])", accept=looks_random),
    Pattern("telegram-token", r":AA(?<=\d{8}:AA)[\w-]{33}(?![\w-])", (":AA",), linear=True, binary=True),
    _token("digitalocean-token", "dop_v1_", r"[0-9a-f]{64}"),
    *(_token("shopify-token", lead, r"[0-9a-fA-F]{32}") for lead in ("shpat_", "shpss_", "shpca_", "shppa_")),
    _token("mailgun-key", "key-", r"[0-9a-f]{32}" + _ALNUM_END),
    _token("grafana-token", "glsa_", r"[0-9A-Za-z]{32}_[0-9A-Fa-f]{8}"),
    _token("linear-key", "lin_api_", r"[0-9A-Za-z]{32,}"),
    _token("databricks-token", "dapi", r"[0-9a-f]{32}" + _ALNUM_END),
    _token("vault-token", "hvs.", r"[\w-]{24,}"),
    _token("notion-token", "ntn_", r"[0-9A-Za-z]{40,}"),
    _token("age-key", "AGE-SECRET-KEY-1", r"[0-9A-Z]{58}"),
    Pattern(
        "jwt",
        _lead("eyJ", r"\w-") + r"[\w-]{8,}\.[\w-]{8,}\.[\w-]*(?:\.[\w-]+){0,2}",
        ("eyJ",),
        linear=True,
        binary=True,
        public=True,
    ),
    Pattern(
        "private-key",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        + _PEM_BODY
        + r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?",
        ("PRIVATE KEY",),
        linear=True,
        binary=True,
    ),
    Pattern(
        "private-key",
        r"Private-Lines: \d{1,4}(?P<secret>(?:(?:\\[nr]|[\r\n]){1,4}[0-9A-Za-z+/=]{16,64}){1,999})",
        ("Private-Lines",),
        linear=True,
        binary=True,
    ),
    Pattern(
        "authorization",
        r"bearer(?<![0-9A-Za-z_]bearer)[ \t]{1,4}(?P<secret>[\w.~+/=-]{8,})",
        ("bearer",),
        ignore_case=True,
        accept=_bearer,
        linear=True,
    ),
    Pattern(
        "authorization",
        r"basic(?<![0-9A-Za-z_]basic)[ \t]{1,4}(?P<secret>[0-9A-Za-z+/]{6,}={0,2})",
        ("basic",),
        ignore_case=True,
        accept=_basic,
        linear=True,
    ),
    Pattern(
        "connection-string",
        r"://[^\s:/?#@\"'<>\\]{0,128}:(?P<secret>[^\s/?#\"'<>\\]{1,256})@",
        ("://",),
        accept=_password,
        linear=True,
    ),
)
"""What is looked for when nothing else is said."""
