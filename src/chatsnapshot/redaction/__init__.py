"""Redaction: what must not be stored is taken out of an event before it is committed to."""

from chatsnapshot.redaction.accepted import Chain, Redacts, redactor_of
from chatsnapshot.redaction.base import Redacted, Redactor
from chatsnapshot.redaction.hooks import Hook
from chatsnapshot.redaction.patterns import SECRETS, Pattern

__all__ = ["SECRETS", "Chain", "Hook", "Pattern", "Redacted", "Redactor", "Redacts", "redactor_of"]
