"""Publishing, merging, history, rollback, pins."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from storekit import ENVIRONMENT, OTHER, TID, row

from tunelaunch.store import Row, Store
from tunelaunch.store import history as history_module


def publish(store: Store, *rows: Row, **options: object):
    return store.publish(TID, rows, environment=ENVIRONMENT, **options)  # type: ignore[arg-type]


def rows_of(store: Store) -> set[Row]:
    table = store.load(TID).table
    return set(table.rows) if table else set()


def test_an_empty_store_is_a_miss_without_a_problem_and_load_makes_nothing(store: Store, root: Path) -> None:
    loaded = store.load(TID)
    assert loaded.table is None
    assert loaded.problems == ()
    assert not (root / "v1" / TID.device).exists()


def test_published_rows_are_loaded_by_another_process_of_the_same_root(store: Store, root: Path) -> None:
    rows = [row(1, [[128, 16], [1, 1], True, False, 4]), row(2, -1), row(2, 5, scope="9b0d4e2f61aa")]
    published = publish(store, *rows, launch="L1")
    assert (published.generation, published.added, published.replaced, published.kept) == (1, 3, 0, 0)
    assert published.problems == ()
    table = Store.open(root).load(TID).table
    assert table is not None
    assert set(table.rows) == set(rows)
    assert table.written["launch"] == "L1"
    assert (
        json.loads((root / "v1" / TID.device / TID.environment / "environment.json").read_text())["fields"]
        == ENVIRONMENT
    )
    assert store.read_environment(TID) == ENVIRONMENT
    assert (root / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")


def test_the_first_writer_wins_unless_replace_is_asked_for(store: Store) -> None:
    publish(store, row(1, 14))
    kept = publish(store, row(1, 15), row(2, 3))
    assert (kept.generation, kept.added, kept.replaced, kept.kept) == (2, 1, 0, 1)
    assert rows_of(store) == {row(1, 14), row(2, 3)}
    replaced = publish(store, row(1, 15), replace=True)
    assert (replaced.generation, replaced.added, replaced.replaced, replaced.kept) == (3, 0, 1, 1)
    assert rows_of(store) == {row(1, 15), row(2, 3)}


def test_a_publish_that_changes_nothing_writes_nothing(store: Store) -> None:
    path = publish(store, row(1), row(2)).path
    assert path is not None
    before = (Path(path).stat().st_ino, Path(path).read_bytes())
    again = publish(store, row(2), row(1), replace=True, launch="other", remove=[("absent", None)])
    assert (again.generation, again.added, again.replaced, again.kept) == (1, 0, 0, 2)
    assert (Path(path).stat().st_ino, Path(path).read_bytes()) == before
    assert store.history(TID) == []


def test_rows_can_be_removed_and_only_those(store: Store) -> None:
    publish(store, row(1), row(1, scope="9b0d4e2f61aa"), row(2))
    out = publish(store, remove=[row(1).identity])
    assert (out.generation, out.removed, out.kept) == (2, 1, 2)
    assert rows_of(store) == {row(1, scope="9b0d4e2f61aa"), row(2)}


def test_what_a_newer_writer_added_survives_a_rewrite(store: Store) -> None:
    path = Path(publish(store, row(1)).path or "")
    data = json.loads(path.read_text())
    data["_records"] = {"a": 1}
    data["_generation"] = 77
    data["rows"][0]["confidence"] = [0.5]
    path.write_text(json.dumps(data))
    assert publish(store, row(2)).problems == ()
    after = json.loads(path.read_text())
    assert (after["_records"], after["_generation"], after["generation"]) == ({"a": 1}, 77, 2)
    assert [r.get("confidence") for r in after["rows"]] == [[0.5], None]


def test_rows_that_cannot_be_stored_are_named_and_the_others_published(store: Store) -> None:
    out = publish(store, Row(key="k", value=["R", "text"]), row(1, evidence={"ms": float("inf"), "dtype": object}))
    assert out.added == 1
    assert "integer or a nested list" in str(out.problems[0])
    assert [r.evidence["ms"] for r in rows_of(store)] == [None]


def test_pinned_tables_take_new_keys_and_keep_the_old_rows(store: Store) -> None:
    publish(store, row(1, 14))
    assert store.pin(TID).generation == 2
    out = publish(store, row(1, 15), row(2), replace=True, remove=[row(1).identity])
    assert (out.added, out.replaced, out.removed) == (1, 0, 0)
    assert "cannot be removed" in str(out.problems[0])
    assert rows_of(store) == {row(1, 14), row(2)}
    assert store.tables()[0].pinned
    store.pin(TID, False)
    assert publish(store, row(1, 15), replace=True).replaced == 1


def test_rollback_restores_the_earlier_bytes_and_can_be_undone(store: Store) -> None:
    path = Path(publish(store, row(1, 14)).path or "")
    first = path.read_bytes()
    publish(store, row(1, 15), row(2), replace=True)
    second = path.read_bytes()
    out = store.rollback(TID)
    assert (out.generation, out.replaced, out.removed, out.problems) == (1, 1, 1, ())
    assert path.read_bytes() == first
    assert store.history(TID) == [1, 2]
    assert store.rollback(TID, 2).generation == 2
    assert path.read_bytes() == second
    assert publish(store, row(3)).generation == 3


def test_generation_numbers_are_not_used_twice_and_previous_means_the_state_before(store: Store) -> None:
    for number in range(1, 5):
        publish(store, row(number))
    store.rollback(TID, 2)
    assert publish(store, row(9)).generation == 5
    assert rows_of(store) == {row(1), row(2), row(9)}
    assert store.rollback(TID).generation == 2
    assert store.rollback(TID).generation == 1
    none = store.rollback(TID)
    assert none.generation is None
    assert "no earlier generation" in str(none.problems[0])
    assert "kept: 1, 2, 3, 4, 5" in str(store.rollback(TID, 99).problems[0])
    assert rows_of(store) == {row(1)}


def test_a_damaged_generation_is_not_restored(store: Store) -> None:
    publish(store, row(1))
    path = Path(publish(store, row(2)).path or "")
    (path.parent / "history" / "1.json").write_text("{")
    before = path.read_bytes()
    out = store.rollback(TID, 1)
    assert out.generation is None
    assert "choose another generation" in str(out.problems[0])
    assert path.read_bytes() == before


def test_history_is_bounded_in_count_and_bytes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(1, 25):
        publish(store, row(number))
    assert store.history(TID) == list(range(4, 24))
    monkeypatch.setattr(history_module, "MAX_BYTES", 1)
    publish(store, row(99))
    assert store.history(TID) == [24]


def test_a_table_put_back_by_hand_does_not_overwrite_history(store: Store) -> None:
    path = Path(publish(store, row(1)).path or "")
    publish(store, row(2))
    kept = (path.parent / "history" / "1.json").read_bytes()
    foreign = json.loads(kept)
    foreign["rows"] = []
    path.write_text(json.dumps(foreign))
    assert publish(store, row(5)).generation == 3
    assert (path.parent / "history" / "1.json").read_bytes() == kept
    assert json.loads((path.parent / "history" / "2.json").read_text())["rows"] == []


def test_devices_do_not_touch_each_other(store: Store) -> None:
    publish(store, row(1))
    store.publish(OTHER, [row(2)], environment={})
    assert [(info.device, info.generation, info.rows) for info in store.tables()] == [
        (OTHER.device, 1, 1),
        (TID.device, 1, 1),
    ]
    assert rows_of(store) == {row(1)}


def test_a_group_can_share_what_the_umask_allows(root: Path) -> None:
    before = os.umask(0o002)
    try:
        store = Store.open(root)
        publish(store, row(1))
        publish(store, row(2))
        store.write_report("L", {})
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in [root, *root.rglob("*")]}
    directories = {path.name for path in [root, *root.rglob("*")] if path.is_dir()}
    assert modes == {name: 0o775 if name in directories else 0o664 for name in modes}
    assert {".lock", "table.json", "1.json", "L.json", "history"} <= modes.keys()


def test_old_leftovers_of_killed_writers_are_swept_and_fresh_ones_left(store: Store) -> None:
    directory = Path(publish(store, row(1)).path or "").parent
    old, fresh, claim = (
        directory / ".table.json.1-a.tmp",
        directory / ".table.json.2-b.tmp",
        directory / ".claim-x-table.json",
    )
    for path in (old, fresh, claim):
        path.touch()
    os.utime(old, (0, 0))
    os.utime(claim, (0, 0))
    assert publish(store, row(2)).generation == 2
    assert (old.exists(), fresh.exists(), claim.exists()) == (False, True, False)
