"""What Codex writes twice: the same message as an item for the model and as an event for the person."""

from __future__ import annotations

__all__ = ["Twins"]


class Twins:
    """Texts of one turn by who said them, each with the form in which it came first."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, str], str] = {}

    def told(self, what: str, form: str, text: str) -> bool:
        """Whether this was told in the other form before; each telling has one twin."""
        name = what, text.strip()
        if self._forms.get(name, form) != form:
            del self._forms[name]
            return True
        self._forms[name] = form
        return False

    def clear(self) -> None:
        """A new turn: what is said again is said anew."""
        self._forms.clear()
