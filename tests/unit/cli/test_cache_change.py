"""``cache rollback``, ``pin``, ``rm``, ``prune`` and ``unquarantine``: what they change, and what they leave."""

from __future__ import annotations

import os
from typing import Any

import pytest
from cachekit import Cache, row


def tactic(cache: Cache) -> Any:
    return cache.json("cache", "show", str(cache.PRO))["table_rows"][0]["value"][1]


def age(cache: Cache, tid: Any, days: float) -> None:
    path = cache.store.paths(tid).table
    then = path.stat().st_mtime - days * 86400
    os.utime(path, (then, then))


@pytest.mark.parametrize(
    "which", [["1"], ["--generation", "1"], ["nvidia-rtx", "1"], ["1", "nvidia-rtx"], ["nvidia-rtx@1"], ["aaaa@1"]]
)
def test_rollback_takes_the_generation_in_each_spelling(cache: Cache, which: list[str]) -> None:
    for number in (1, 2, 3):
        cache.publish(row(16, number))
    assert cache.json("cache", "rollback", *which, "--dry-run")["to"] == 1
    assert tactic(cache) == 3
    assert "(was 3)" in cache.run("cache", "rollback", *which)
    assert tactic(cache) == 1
    cache.run("cache", "rollback", "3")
    assert tactic(cache) == 3


def test_rollback_refuses_two_generations_and_those_not_kept(cache: Cache) -> None:
    cache.publish(row(16, 1))
    cache.publish(row(16, 2))
    for which in (["1", "2"], ["1", "--generation", "1"], ["a", "b"]):
        cache.run("cache", "rollback", *which, code=2)
    assert "current: 2, kept: 1" in cache.run("cache", "rollback", "9", code=1)


def test_pin_protects_rows_and_unpin_lifts_that(cache: Cache) -> None:
    cache.publish(row(16, 1))
    assert "would be pinned" in cache.run("cache", "pin", "--dry-run")
    assert not cache.store.tables()[0].pinned
    assert "is pinned (generation 2)" in cache.run("cache", "pin")
    assert "pinned already" in cache.run("cache", "pin")
    cache.publish(row(16, 2))
    assert tactic(cache) == 1
    assert cache.json("cache", "unpin")["done"] is True
    cache.publish(row(16, 2))
    assert tactic(cache) == 2


def test_rm_says_what_goes_and_removes_only_that(cache: Cache) -> None:
    cache.publish(row(16, 1))
    cache.publish(row(16, 1), tid=cache.RTX)
    cache.run("cache", "rm", code=2)
    assert "candidates" in cache.run("cache", "rm", "nvidia", code=1)
    assert "would remove" in cache.run("cache", "rm", "nvidia-rtx", "--dry-run")
    assert len(cache.store.tables()) == 2
    assert cache.json("cache", "rm", "nvidia-rtx")["done"] is True
    assert [info.device for info in cache.store.tables()] == [cache.RTX.device]


@pytest.mark.parametrize("guard", ["pinned", "in use"])
def test_rm_refuses_what_is_protected_and_says_how_to_do_it_all_the_same(cache: Cache, guard: str) -> None:
    cache.publish(row(16, 1))
    if guard == "pinned":
        cache.store.pin(cache.PRO)
    else:
        cache.store.mark_in_use(cache.PRO, "L1", os.getpid())
    for more in ([], ["--dry-run"]):
        said = cache.run("cache", "rm", "nvidia", *more, code=1)
        assert guard in said
        assert "--force" in said
    assert len(cache.store.tables()) == 1
    cache.run("cache", "rm", "nvidia", "--force")
    assert cache.store.tables() == []


def test_prune_by_age_shows_the_plan_then_carries_it_out(cache: Cache) -> None:
    cache.publish(row(16, 1))
    cache.publish(row(16, 1), tid=cache.RTX)
    age(cache, cache.PRO, 40)
    plan = cache.json("cache", "prune", "--older-than", "30d", "--dry-run")
    assert [(entry["device"], entry["done"]) for entry in plan["remove"]] == [(cache.PRO.device, False)]
    text = cache.run("cache", "prune", "--older-than", "30d", "--dry-run")
    assert "would go" in text and "40d ago" in text and "not used for 40.0 days" in text
    assert len(cache.store.tables()) == 2
    assert "1 table removed" in cache.run("cache", "prune", "--older-than", "30d")
    assert [info.device for info in cache.store.tables()] == [cache.RTX.device]
    assert "nothing to prune" in cache.run("cache", "prune", "--older-than", "30d")


def test_prune_leaves_pinned_and_used_tables_and_says_so(cache: Cache) -> None:
    cache.publish(row(16, 1))
    cache.publish(row(16, 1), tid=cache.RTX)
    cache.store.pin(cache.PRO)
    cache.store.mark_in_use(cache.RTX, "L1", os.getpid())
    text = cache.run("cache", "prune", "--max-size", "1K")
    assert text.count("stays") == 2
    assert "pinned" in text and "in use by launch L1" in text
    assert "more than asked for are left" in text
    assert len(cache.store.tables()) == 2
    assert cache.json("cache", "prune", "--max-size", "0")["bytes_over"] > 0


def test_prune_stale_leaves_the_newest_environment_of_a_device(cache: Cache) -> None:
    from tunelaunch.store import TableId

    newer = TableId(cache.PRO.device, "c" * 12)
    cache.publish(row(16, 1))
    cache.publish(row(16, 1), tid=newer)
    age(cache, cache.PRO, 1)
    cache.run("cache", "prune", "--stale")
    assert [info.environment for info in cache.store.tables()] == [newer.environment]


@pytest.mark.parametrize("args", [[], ["--older-than", "soon"], ["--max-size", "big"], ["--older-than=-3d"]])
def test_prune_without_a_rule_or_with_a_wrong_one_is_a_usage_error(cache: Cache, args: list[str]) -> None:
    cache.publish(row(16, 1))
    said = cache.run("cache", "prune", *args, code=2)
    assert "write 30d" in said or "write 500M" in said or "--older-than 30d" in said
    assert len(cache.store.tables()) == 1


ENTRIES = [
    {"key": "1", "op": "m::gemm1", "runner": "R", "tactic": 7, "why": "wrong numbers"},
    {"key": "2", "op": "m::gemm2", "runner": "R", "tactic": 7, "why": "wrong numbers"},
    {"key": "3", "op": "m::gemm2", "runner": "R", "tactic": [[128, 16], True], "why": "killed"},
    {"key": "('m::gemm3', 'R', ())", "runner": "R", "tactic": 1},
]


@pytest.mark.parametrize(
    ("args", "lifted"),
    [
        (["--op", "gemm2"], "23"),
        (["--op", "m::gemm1"], "1"),
        (["--tactic", "7"], "12"),
        (["--tactic", "((128, 16), True)"], "3"),
        (["--op", "gemm2", "--tactic", "7"], "2"),
        (["--op", "gemm3"], "("),
        (["--all"], "123("),
    ],
)
def test_unquarantine_lifts_what_is_named_and_nothing_else(cache: Cache, args: list[str], lifted: str) -> None:
    cache.publish(row(16, 1))
    cache.store.add_quarantine(cache.PRO, ENTRIES)
    assert len(cache.json("cache", "unquarantine", *args, "--dry-run")["entries"]) == len(lifted)
    assert len(cache.store.read_quarantine(cache.PRO)) == len(ENTRIES)
    assert cache.run("cache", "unquarantine", *args).count("lifted") == len(lifted)
    left = {str(entry["key"])[0] for entry in cache.store.read_quarantine(cache.PRO)}
    assert left == set("123(") - set(lifted)


def test_unquarantine_says_when_nothing_matches_and_when_nothing_is_named(cache: Cache) -> None:
    cache.publish(row(16, 1))
    cache.store.add_quarantine(cache.PRO, ENTRIES)
    assert "it has 4" in cache.run("cache", "unquarantine", "--op", "other", code=1)
    for args in ([], ["--all", "--op", "gemm1"], ["--tactic", "{"]):
        cache.run("cache", "unquarantine", *args, code=2)
    assert len(cache.store.read_quarantine(cache.PRO)) == len(ENTRIES)
