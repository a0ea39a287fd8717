"""Redaction: what must not be stored is taken out of an event before it is committed to."""

from chatsnapshot.redaction.base import Hook, Redacted, Redactor, redactor_of

__all__ = ["Hook", "Redacted", "Redactor", "redactor_of"]
