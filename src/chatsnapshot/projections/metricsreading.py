"""Metrics of one run or of a whole ledger, with prices and filters."""

from __future__ import annotations

import unicodedata
from datetime import date
from typing import Any

from chatsnapshot.errors import InvalidEvent
from chatsnapshot.projections.everystate import states_of
from chatsnapshot.projections.metrics import MetricsProjection
from chatsnapshot.projections.metricshapes import Metrics
from chatsnapshot.projections.metricsums import Chosen, shape_metrics
from chatsnapshot.projections.pricetable import read_prices
from chatsnapshot.projections.pricing import PriceTable

__all__ = ["metrics_of"]


def metrics_of(
    ledger: Any,
    correlation_id: object = None,
    *,
    children: bool = True,
    until: Any = None,
    prices: Any = None,
    agent: str | None = None,
    model: str | None = None,
    tool: str | None = None,
    run: str | None = None,
    first_day: date | str | None = None,
    last_day: date | str | None = None,
) -> Metrics:
    """The metrics of one correlation with its children, or of all runs without ``correlation_id``.

    ``prices``: a :class:`~chatsnapshot.projections.pricing.PriceTable`, a file or a mapping (see
    :func:`~chatsnapshot.projections.pricetable.read_prices`); without it every cost is unknown. ``until``: a position or
    a recorded time. ``agent``, ``model``, ``tool``, ``run`` (its id or correlation) and the days of events (UTC,
    inclusive) choose what is counted. Raises :class:`~chatsnapshot.errors.NotFound` for a correlation without entries,
    :class:`~chatsnapshot.errors.InvalidEvent` for a day or a price table that cannot be read.
    """
    table = prices if prices is None or isinstance(prices, PriceTable) else read_prices(prices)
    chosen = Chosen(agent, model, tool, run, _day(first_day), _day(last_day))
    wanted = None if correlation_id is None else unicodedata.normalize("NFC", str(correlation_id))
    states = states_of(ledger, MetricsProjection(), wanted, until, children)
    return shape_metrics(list(states.values()), wanted, table, chosen)


def _day(given: date | str | None) -> str | None:
    if given is None:
        return None
    try:
        return date.fromisoformat(str(given)[:10] if isinstance(given, date) else given).isoformat()
    except ValueError:
        raise InvalidEvent(f"{given!r:.80} is no day, such as 2026-11-30 (UTC)") from None
