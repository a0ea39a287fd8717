"""The catalogue names types of our own domains and follows the rule for event types."""

from __future__ import annotations

from chatsnapshot.envelope import check_event_type
from chatsnapshot.events import catalogue


def test_every_type_is_a_valid_name_in_one_of_our_domains() -> None:
    for event_type, meaning in catalogue.TYPES.items():
        assert check_event_type(event_type) == event_type
        assert catalogue.domain(event_type) in catalogue.DOMAINS
        assert meaning


def test_ends_and_starts_are_in_the_catalogue() -> None:
    groups = (catalogue.RUN_STARTS, catalogue.RUN_ENDS, catalogue.WORKFLOW_STARTS, catalogue.WORKFLOW_ENDS)
    assert set().union(*groups) <= set(catalogue.TYPES)


def test_an_unknown_type_is_just_not_known() -> None:
    assert not catalogue.is_known("acme.thing")
    assert catalogue.is_known("execution.message")
