"""Recorded times as the page shows them: the time of day, with the day where a run goes over several."""

from __future__ import annotations

from collections.abc import Iterable

from chatsnapshot.exporters.html.markup import Html, element

__all__ = ["moment", "over_days"]


def over_days(times: Iterable[str | None]) -> bool:
    """Whether the known times lie on more than one day (UTC)."""
    return len({at[:10] for at in times if at is not None}) > 1


def moment(at: str | None, *, days: bool, brief: bool = False, class_: str | None = None) -> Html:
    """A time as ``02:26:03.123``, with ``days`` as ``11-30 02:26:03.123``; unknown is said in words.

    The whole time stands in the element for machines, unless the page has to be ``brief``.
    """
    if at is None:
        return element("span", "time unknown", class_=class_)
    shown = f"{at[5:10]} {at[11:23]}" if days else at[11:23]
    return element("time", shown, datetime=None if brief else at, class_=class_)
