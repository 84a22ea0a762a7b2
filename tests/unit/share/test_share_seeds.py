"""Seeds: read below the local table, in order, never written, and named with the number of rows in use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sharekit import KEY, OTHER_FIELDS, RTX, TID, key, publish, row, snapshot, table

from tunelaunch.contract import Contract
from tunelaunch.ranks.sources import Sources
from tunelaunch.report.summary import summary_lines
from tunelaunch.share.bundle import make_bundle
from tunelaunch.share.seeds import fill, read_seeds
from tunelaunch.share.signing import Trust
from tunelaunch.store import Store

ENVIRONMENT = table([]).environment


def tactics(rows: object) -> dict[str, tuple[int, str]]:
    return {r.key: (r.tactic, Path(name).name) for r, name in rows}  # type: ignore[attr-defined]


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """A cache directory with rows 1 and 2, and a bundle with rows 2 and 3."""
    publish(tmp_path / "directory", [row(1, 1), row(2, 1)])
    (tmp_path / "bundle.tar").write_bytes(make_bundle([table([row(2, 2), row(3, 2)])]))
    return [str(tmp_path / "directory"), str(tmp_path / "bundle.tar")]


def test_earlier_seeds_win_and_nothing_is_written(tmp_path: Path, two: list[str]) -> None:
    before = snapshot(tmp_path)
    read = read_seeds(TID, two)
    assert tactics(read.rows) == {key(1): (1, "directory"), key(2): (1, "directory"), key(3): (2, "bundle.tar")}
    assert tactics(read_seeds(TID, two[::-1]).rows)[key(2)] == (2, "bundle.tar")
    assert (read.problems, read.names) == ((), tuple(two))
    assert snapshot(tmp_path) == before


def test_local_rows_stay_and_seeds_fill_the_rest(two: list[str]) -> None:
    assert tactics(fill([row(2, 9)], read_seeds(TID, two).rows)) == {
        key(1): (1, "directory"),
        key(3): (2, "bundle.tar"),
    }


def test_a_quarantine_of_any_seed_hides_the_tactic_in_all(tmp_path: Path, two: list[str]) -> None:
    entry = {"key": key(1), "scope": None, "runner": "MoERunner", "tactic": 1}
    (tmp_path / "late.tar").write_bytes(make_bundle([table([], quarantine=(entry,))]))
    read = read_seeds(TID, [*two, str(tmp_path / "late.tar")])
    assert key(1) not in tactics(read.rows)
    assert read.quarantine == (entry,)


def test_rows_without_evidence_are_marked(tmp_path: Path) -> None:
    publish(tmp_path / "s", [row(1, evidence={}), row(2)])
    marks = {r.key: r.evidence.get("unverified", False) for r, _ in read_seeds(TID, [str(tmp_path / "s")]).rows}
    assert marks == {key(1): True, key(2): False}


def test_sets_of_ranks_come_whole_or_not_at_all(tmp_path: Path) -> None:
    ranks = [row(n, 3, set={"id": "a", "size": 2, "index": n}) for n in range(2)]
    publish(tmp_path / "s", ranks)
    offered = read_seeds(TID, [str(tmp_path / "s")]).rows
    assert len(fill([], offered)) == 2
    assert fill([row(0, 9)], offered) == ()
    assert fill([], offered[:1]) == ()


def test_a_seed_of_another_environment_is_named_with_the_field(tmp_path: Path) -> None:
    publish(tmp_path / "s", [row(1)], OTHER_FIELDS)
    (tmp_path / "b.tar").write_bytes(make_bundle([table([row(1)], OTHER_FIELDS)]))
    for name in ("s", "b.tar"):
        read = read_seeds(TID, [str(tmp_path / name)], environment=ENVIRONMENT)
        assert read.rows == ()
        assert "flashinfer.cudnn_version: saved 92000, current 92101" in read.problems[0]
    assert "no table of nvidia-geforce" in read_seeds(RTX, [str(tmp_path / "s")]).problems[0]


def test_a_seed_that_cannot_be_used_hides_no_other(tmp_path: Path, two: list[str]) -> None:
    (tmp_path / "plain.json").write_text("{}")
    (tmp_path / "cut.tar").write_bytes(make_bundle([table([row(1)])])[:700])
    bad = [str(tmp_path / name) for name in ("missing", "plain.json", "cut.tar", "directory/v1")]
    read = read_seeds(TID, [*bad, *two])
    assert len(read.rows) == 3
    assert [p.split(":")[0] for p in read.problems] == [f"seed {name}" for name in bad]


def test_bundles_must_be_signed_where_that_is_required(tmp_path: Path, two: list[str]) -> None:
    assert set(tactics(read_seeds(TID, two, Trust(required=True)).rows)) == {key(1), key(2)}
    (tmp_path / "signed.tar").write_bytes(make_bundle([table([row(4)])], Trust(KEY)))
    assert len(read_seeds(TID, [str(tmp_path / "signed.tar")], Trust(KEY, True)).rows) == 1


# In a start


def sources(seeds: list[str]) -> Sources:
    return Sources.of(replace(Contract("L", "/run", "/cache"), seeds=tuple(seeds)))


def test_the_receipt_says_how_many_rows_of_each_seed_are_in_use(tmp_path: Path, two: list[str]) -> None:
    publish(tmp_path / "unused", [row(1, 7)])
    seeds = [*two, str(tmp_path / "unused")]
    store = Store.open(tmp_path / "local")
    start = sources(seeds)
    more = start.more(TID, ENVIRONMENT, [row(2, 9)], store, True)
    assert {r.key for r in more.rows} == {key(1), key(3)}
    tuned_anew = row(3, 8)
    used = start.used([*(r for r in more.rows if r.key != key(3)), tuned_anew, row(2, 9)])
    assert used == {"seeds": {seeds[0]: 1, seeds[1]: 0, seeds[2]: 0}}
    (line,) = [line for line in summary_lines({"table": used}) if line.startswith("seed")]
    assert f"seed {seeds[0]}: 1 rows used" in line
    assert f"seed {seeds[2]}: 0 rows used" in line
    assert store.load(TID).table is None


def test_without_seeds_and_remote_nothing_is_said(tmp_path: Path) -> None:
    start = sources([])
    assert start.more(TID, ENVIRONMENT, [], Store.open(tmp_path), True).rows == ()
    assert start.used([]) == {}


def test_a_key_that_cannot_be_read_lets_no_bundle_in(
    tmp_path: Path, two: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TUNELAUNCH_KEY_FILE", str(tmp_path / "missing"))
    more = sources(two).more(TID, ENVIRONMENT, [], Store.open(tmp_path / "local"), True)
    assert {r.key for r in more.rows} == {key(1), key(2)}
    assert any("key file" in problem for problem in more.problems)


def test_rows_that_a_seed_hides_are_hidden_for_local_rows_too(tmp_path: Path) -> None:
    entry = {"key": key(1), "scope": None, "runner": "MoERunner", "tactic": 1}
    (tmp_path / "q.tar").write_bytes(make_bundle([table([], quarantine=(entry,))]))
    more = sources([str(tmp_path / "q.tar")]).more(TID, ENVIRONMENT, [row(1, 1)], Store.open(tmp_path / "l"), True)
    assert more.hidden == {(key(1), None, "MoERunner", "1")}
