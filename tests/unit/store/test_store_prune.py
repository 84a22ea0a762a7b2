"""Which tables a prune would remove."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tunelaunch.store import Holding, Problem, PruneRule, TableInfo, User, plan_prune
from tunelaunch.store.prune import DAY_S

NOW = 1_000_000_000.0


def held(device: str, environment: str, days: float, size: int = 10, **more: Any) -> Holding:
    users = (User("L1", 7, "h"),) if more.pop("used", False) else ()
    path = f"/root/v1/{device}/{environment * 12}/table.json"
    info = TableInfo(device, environment * 12, 1, 1, size, NOW - days * DAY_S, path, **more)
    return Holding(info, "/root", size, NOW - days * DAY_S, users=users)


def names(decisions: tuple[Any, ...]) -> list[str]:
    return [d.holding.info.environment[0] for d in decisions]


def test_age_takes_what_was_not_used_for_longer() -> None:
    plan = plan_prune([held("x", "a", 29), held("x", "b", 31)], PruneRule(older_than_s=30 * DAY_S), NOW)
    assert names(plan.remove) == ["b"]
    assert plan.remove[0].why == "not used for 31.0 days"
    assert (plan.bytes_before, plan.bytes_after, plan.protected) == (20, 10, ())


def test_stale_takes_all_but_the_newest_environment_of_each_device() -> None:
    broken = Problem("p", "is damaged", "")
    tables = [held("x", "a", 3), held("x", "b", 2), held("y", "c", 9), held("x", "d", 1, problem=broken)]
    plan = plan_prune(tables, PruneRule(stale=True), NOW)
    assert names(plan.remove) == ["a"]
    assert "environment bbbbbbbbbbbb of this device was used later" in plan.remove[0].why
    assert names(plan.protected) == ["d"]


def test_size_takes_the_longest_unused_first_and_counts_what_the_other_rules_took() -> None:
    tables = [held("x", "a", 1, 50), held("y", "b", 3, 30), held("z", "c", 2, 30), held("w", "d", 90, 40)]
    assert names(plan_prune(tables, PruneRule(max_bytes=100), NOW).remove) == ["b", "d"]
    plan = plan_prune(tables, PruneRule(max_bytes=110, older_than_s=30 * DAY_S), NOW)
    assert (names(plan.remove), plan.bytes_after, plan.over) == (["d"], 110, 0)


@pytest.mark.parametrize(
    ("more", "word"),
    [({"pinned": True}, "pinned"), ({"used": True}, "in use"), ({"problem": Problem("p", "is x", "")}, "is x")],
)
def test_what_is_protected_is_named_and_never_taken(more: dict[str, Any], word: str) -> None:
    tables = [held("x", "a", 99, 70, **more), held("y", "b", 1, 30)]
    plan = plan_prune(tables, PruneRule(older_than_s=DAY_S, max_bytes=50, stale=True), NOW)
    assert names(plan.remove) == ["b"]  # the size asked for is missed all the same, and said
    assert names(plan.protected) == ["a"]
    assert word in plan.protected[0].why
    assert (plan.bytes_after, plan.over) == (70, 20)


HELD = st.builds(
    held,
    st.sampled_from("xyz"),
    st.sampled_from("abcdef"),
    st.floats(0, 100),
    st.integers(0, 100),
    pinned=st.booleans(),
    used=st.booleans(),
)
RULES = st.builds(PruneRule, st.none() | st.floats(0, 100 * DAY_S), st.none() | st.integers(0, 500), st.booleans())


@settings(deadline=None)
@given(st.lists(HELD, unique_by=lambda h: h.name), RULES)
def test_a_plan_is_safe_and_its_sums_are_right(tables: list[Holding], rule: PruneRule) -> None:
    plan = plan_prune(tables, rule, NOW)
    gone = [d.holding for d in plan.remove]
    assert not any(h.info.pinned or h.users for h in gone)
    assert all(d.why for d in (*plan.remove, *plan.protected))
    assert plan.bytes_before - sum(h.bytes for h in gone) == plan.bytes_after
    assert plan.over == max(0, plan.bytes_after - rule.max_bytes) if rule.max_bytes is not None else plan.over == 0
    if plan.over:
        assert all(h.info.pinned or h.users for h in tables if h not in gone and h.bytes)
    assert plan_prune(tables, PruneRule(), NOW).remove == ()
