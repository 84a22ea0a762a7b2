"""``cache ls``, ``show``, ``verify`` and ``diff``: what people and programs see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cachekit import Cache, row


def cells_of(text: str, word: str) -> list[str]:
    """The cells of the line that holds ``word``."""
    (line,) = [line for line in text.splitlines() if word in line]
    return line.split()


def test_ls_tells_size_age_quarantine_and_state(cache: Cache) -> None:
    cache.publish(row(16, 7, 80.0))
    cache.publish(row(16, 7, 80.0), tid=cache.RTX)
    cache.store.add_quarantine(cache.PRO, [{"key": "a"}, {"key": "b"}])
    cache.store.pin(cache.PRO)
    cache.store.mark_in_use(cache.PRO, "L1", os.getpid())
    path = cache.store.paths(cache.RTX).table
    os.utime(path, (path.stat().st_mtime - 3 * 86400,) * 2)
    text = cache.run("cache", "ls")
    assert cells_of(text, cache.PRO.device)[2:5] == ["2", "1", "2"]
    assert "pinned, in use" in text
    assert "3d ago" in text
    assert "\x1b" not in text
    tables = {t["device"]: t for t in cache.json("cache", "ls")["tables"]}
    pro, rtx = tables[cache.PRO.device], tables[cache.RTX.device]
    assert (pro["quarantined"], pro["pinned"], pro["users"][0]["launch"]) == (2, True, "L1")
    assert pro["total_bytes"] > pro["bytes"]
    assert 3 * 86400 <= rtx["unused_seconds"] < 4 * 86400


def test_show_prints_what_was_measured_and_why(cache: Cache) -> None:
    checked = {"frobenius": 0.0012, "worst_row": 0.02, "limits": [0.05, 0.1], "tokens": [16]}
    cache.publish(
        row(16, 7, 80.0, why="20 % faster", checked=checked),
        row(32, -1, 100.0, why="default is as fast"),
        row(64, [[128, 16], True], trial="none: no memory"),
    )
    entry = {
        "key": "k",
        "op": "m::gemm1",
        "runner": "R",
        "tactic": 9,
        "why": "wrong numbers",
        "seen": "0.3 at 16 tokens",
    }
    cache.store.add_quarantine(cache.PRO, [entry])
    text = cache.run("cache", "show")
    assert cells_of(text, "20 % faster")[:10] == [
        "m::gemm1",
        "16",
        "7",
        "80.0",
        "100.0",
        "81.0",
        "+25.0%",
        "0.0012",
        "of",
        "0.05",
    ]
    assert cells_of(text, "default is as fast")[2] == "default"
    assert cells_of(text, "none: no memory")[:4] == ["m::gemm1", "64", "[[128,16],true]", "-"]
    assert "wrong numbers" in text and "0.3 at 16 tokens" in text
    assert "('m::gemm1'" not in text
    assert "('m::gemm1'" in cache.run("cache", "show", "--keys")
    shown = cache.json("cache", "show")
    assert len(shown["table_rows"]) == 3
    assert shown["quarantine"] == [entry]


def test_show_takes_an_earlier_generation_and_names_those_kept(cache: Cache) -> None:
    cache.publish(row(16, 7))
    cache.publish(row(16, 8))
    for name in ("1", f"{cache.PRO}@1", "nvidia@1"):
        assert cache.json("cache", "show", name)["table_rows"][0]["value"] == ["R", 7]
    assert "current: 2, kept: 1" in cache.run("cache", "show", "9", code=1)
    assert "after the @" in cache.run("cache", "show", "nvidia@x", code=2)


def test_rows_of_any_evidence_are_shown(cache: Cache) -> None:
    for number, evidence in enumerate(
        [
            {"us": 3, "gain_percent": "x", "checked": [1]},
            {"why": 5, "trial": 6},
            {"checked": {"frobenius": 1, "limits": "a"}},
        ]
    ):
        cache.publish(row(number, 7, **evidence))
    text = cache.run("cache", "show")
    assert len([line for line in text.splitlines() if line.startswith("m::gemm1")]) == 3


@pytest.mark.parametrize("name", ["history/1.json", "quarantine.json", "wanted.json", "environment.json", "table.json"])
def test_verify_reads_every_file_and_moves_none(cache: Cache, name: str) -> None:
    cache.publish(row(16, 7))
    cache.publish(row(16, 8))
    cache.store.add_quarantine(cache.PRO, [{"key": "k"}])
    cache.store.add_wanted(cache.PRO, [{"op": "o"}])
    assert "5 files" in cache.run("cache", "verify")
    path = cache.store.paths(cache.PRO).directory / name
    path.write_bytes(path.read_bytes()[:-9])
    found = cache.json("cache", "verify", code=1)
    assert found["damaged"] == 1
    assert [name in problem for problem in found["tables"][0]["problems"]] == [True]
    assert path.exists()
    assert "rollback" in cache.run("cache", "verify", code=1)


def test_diff_of_two_generations_in_each_spelling(cache: Cache) -> None:
    cache.publish(row(16, 7, 50.0), row(32, 7, 50.0), row(64, 7, 50.0))
    cache.publish(row(16, 9, 40.0), row(32, -1, 60.0), row(128, 7, 50.0), remove=[row(64, 7).identity])
    kinds = ["gained", "lost", "gone", "new"]
    spellings = (
        ["1", "2"],
        [],
        ["1"],
        ["nvidia"],
        [f"{cache.PRO}@1"],
        [f"{cache.PRO}@1", "2"],
        ["nvidia@1", f"{cache.PRO}"],
    )
    for spelling in spellings:
        (table,) = cache.json("cache", "diff", *spelling)["tables"]
        assert [change["kind"] for change in table["changes"]] == kinds, spelling
        assert (table["before"], table["after"]) == (1, 2)
    text = cache.run("cache", "diff")
    assert cells_of(text, "gained  ") == ["gained", "m::gemm1", "16", "7", "9", "50.0", "40.0", "+20.0%"]
    assert cells_of(text, "lost  ") == ["lost", "m::gemm1", "32", "7", "default", "50.0", "60.0", "-20.0%"]
    assert "generation 1 -> generation 2: 1 gained, 1 lost, 1 new, 1 gone" in text
    (back,) = cache.json("cache", "diff", "2", "1")["tables"]
    assert [change["kind"] for change in back["changes"]] == ["lost", "gained", "new", "gone"]
    assert "no choice differs (3 rows the same)" in cache.run("cache", "diff", "2", "2")


def test_diff_without_arguments_compares_with_what_a_rollback_would_restore(cache: Cache) -> None:
    for tactic in (1, 2, 3):
        cache.publish(row(16, tactic))
    cache.run("cache", "rollback", "1")
    cache.publish(row(16, 4))
    (table,) = cache.json("cache", "diff")["tables"]
    assert (table["before"], table["after"]) == (1, 4)
    assert cache.json("cache", "rollback", "--dry-run")["to"] == 1
    assert cache.json("cache", "rollback")["to"] == 1


def test_diff_of_two_roots_compares_all_tables_of_both(cache: Cache, tmp_path: Path) -> None:
    from tunelaunch.store import Store

    cache.publish(row(16, 7, 50.0))
    cache.publish(row(16, 7), tid=cache.RTX)
    other = Store.open(tmp_path / "other")
    other.publish(cache.PRO, [row(16, 8, 25.0)], environment={})
    tables = cache.json("cache", "diff", str(cache.root), str(other.root))["tables"]
    assert [(t["table"], t["counts"]["gained"], t["counts"]["gone"]) for t in tables] == [
        (str(cache.RTX), 0, 1),
        (str(cache.PRO), 1, 0),
    ]
    assert "give two roots" in cache.run("cache", "diff", str(cache.root), "3", code=2)
    assert "is no directory" in cache.run("cache", "diff", str(cache.root), "./nowhere", code=1)


def test_diff_says_what_is_missing(cache: Cache) -> None:
    cache.publish(row(16, 7))
    assert "no earlier generation" in cache.run("cache", "diff", code=1)
    assert "generation 7" in cache.run("cache", "diff", "7", code=1)
    cache.publish(row(16, 8))
    (cache.store.paths(cache.PRO).history / "1.json").write_text("{")
    assert "generation 1 of" in cache.run("cache", "diff", "1", code=1)


@pytest.mark.parametrize(
    "command",
    ["dir", "ls", "show", "diff", "verify", "rollback", "pin", "unpin", "rm", "prune", "unquarantine"],
)
def test_the_help_of_every_command_has_an_example(cache: Cache, command: str) -> None:
    text = cache.run("cache", command, "--help")
    assert f"\n  tunelaunch cache {command}" in text or "\n  tunelaunch cache show" in text
    assert "--format" in text
    assert f"cache {command}" in cache.run("cache", command, "--help")
    assert command in cache.run("cache", "--help")
