"""Quarantine, wish list and reports."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from storekit import TID

from tunelaunch.store import Store
from tunelaunch.store import notes as notes_module

BAD = {"key": "k", "scope": None, "runner": "R", "tactic": [[128, 16], True], "why": "NaN", "seen": {"nan": 3}}


def test_quarantine_is_added_replaced_and_lifted(store: Store) -> None:
    assert store.read_quarantine(TID) == []
    assert store.add_quarantine(TID, [BAD, {**BAD, "tactic": 4}]) == ()
    assert store.add_quarantine(TID, [{**BAD, "tactic": ((128, 16), True), "why": "again"}]) == ()
    assert [(e["tactic"], e["why"]) for e in store.read_quarantine(TID)] == [([[128, 16], True], "again"), (4, "NaN")]
    assert store.lift_quarantine(TID, lambda entry: entry["tactic"] == 4) == 1
    assert store.lift_quarantine(TID, lambda entry: False) == 0
    assert [e["why"] for e in store.read_quarantine(TID)] == ["again"]
    assert store.problems == []


def test_fields_of_a_newer_writer_stay_in_quarantine(store: Store, root: Path) -> None:
    store.add_quarantine(TID, [{**BAD, "future": [1]}])
    path = root / "v1" / TID.device / TID.environment / "quarantine.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "more": 1}))
    store.add_quarantine(TID, [{"key": "other"}])
    data = json.loads(path.read_text())
    assert data["more"] == 1
    assert data["entries"][0]["future"] == [1]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"schema": "tunelaunch/quarantine/1", "entries": 5}', '{"entries": []}']
)
def test_a_damaged_quarantine_is_set_aside_and_said(store: Store, root: Path, text: str) -> None:
    path = root / "v1" / TID.device / TID.environment / "quarantine.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert store.read_quarantine(TID) == []
    assert "set aside as quarantine.json.damaged-" in str(store.problems[0])
    path.write_text(text)
    (problem,) = store.add_quarantine(TID, [BAD])
    assert "set aside" in str(problem)
    assert store.read_quarantine(TID) == [BAD]


def test_a_quarantine_of_the_future_is_left_alone(store: Store, root: Path) -> None:
    path = root / "v1" / TID.device / TID.environment / "quarantine.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"schema": "tunelaunch/quarantine/2"}')
    assert store.read_quarantine(TID) == []
    assert "update tunelaunch" in str(store.problems[0])
    assert "update tunelaunch" in str(store.add_quarantine(TID, [BAD])[0])
    assert path.read_text() == '{"schema": "tunelaunch/quarantine/2"}'


def test_odd_entries_are_left_out_and_said(store: Store) -> None:
    deep: list[object] = []
    for _ in range(500):
        deep = [deep]
    problems = store.add_quarantine(TID, [{"key": "k", "seen": deep}, BAD, 5])  # type: ignore[list-item]
    assert len(problems) == 2
    assert store.read_quarantine(TID) == [BAD]


def test_the_wish_list_is_bounded_and_keeps_the_newest(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notes_module, "MAX_ENTRIES", 3)
    for number in range(5):
        assert store.add_wanted(TID, [{"op": "o", "bucket": number, "ranks": 1}]) == ()
    assert store.add_wanted(TID, [{"op": "o", "bucket": 4, "ranks": 8}]) == ()
    assert [(e["bucket"], e["ranks"]) for e in store.read_wanted(TID)] == [(2, 1), (3, 1), (4, 8)]
    assert store.lift_wanted(TID, lambda entry: entry["bucket"] < 4) == 2


def test_the_newest_report_is_found_whatever_the_clock_says(store: Store) -> None:
    assert store.read_report() is None
    first = store.write_report("one", {"value": 1})
    assert first is not None
    far = 4_000_000_000
    os.utime(first, (far, far))
    assert store.write_report("two", {"value": 2}) is not None
    assert store.read_report() == {"schema": "tunelaunch/report/1", "launch": "two", "value": 2}
    assert store.read_report("one") == {"schema": "tunelaunch/report/1", "launch": "one", "value": 1}
    assert store.read_report("three") is None


def test_fifty_reports_stay(store: Store, root: Path) -> None:
    for number in range(55):
        assert store.write_report(f"launch-{number:02d}", {}) is not None
    names = sorted(path.name for path in (root / "v1" / "reports").iterdir())
    assert names == [f"launch-{number:02d}.json" for number in range(5, 55)]


@pytest.mark.parametrize("launch", ["../../evil", "a/b", "", ".", "x" * 5000, "nul\0byte", "\ud800", "-rf"])
def test_no_launch_id_leads_out_of_the_reports(store: Store, root: Path, launch: str) -> None:
    path = store.write_report(launch, {"value": 1})
    assert path is not None
    assert path.parent == root / "v1" / "reports"
    assert store.read_report(launch or None) is not None


def test_a_damaged_newest_report_does_not_hide_the_one_before(store: Store) -> None:
    store.write_report("one", {"value": 1})
    newest = store.write_report("two", {"value": 2})
    assert newest is not None
    newest.write_text("{")
    report = store.read_report()
    assert report is not None
    assert report["launch"] == "one"


def test_a_report_that_json_cannot_hold_is_written_as_text_or_named(store: Store) -> None:
    assert store.write_report("odd", {"dtype": object, "inf": float("inf"), 5: {1, 2}}) is not None  # type: ignore[dict-item]
    report = store.read_report("odd")
    assert report is not None
    assert (report["inf"], report["5"]) == (None, [1, 2])
    cycle: dict[str, object] = {}
    cycle["self"] = cycle
    assert store.write_report("cycle", cycle) is None
    assert "cannot be written" in str(store.problems[-1])
