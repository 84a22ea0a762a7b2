"""Files that are not what they should be: the store misses, says why in one line, and goes on."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from storekit import ENVIRONMENT, OTHER, TID, row

from tunelaunch.store import Store, read_json_any, set_aside
from tunelaunch.store import files as files_module


def table_path(root: Path) -> Path:
    return root / "v1" / TID.device / TID.environment / "table.json"


def publish(store: Store, *numbers: int):
    return store.publish(TID, [row(number) for number in numbers], environment=ENVIRONMENT)


def make_empty(path: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:40])


def make_list(path: Path) -> None:
    path.write_text("[]")


def make_binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\0\1")


def make_deep(path: Path) -> None:
    path.write_text("[" * 100_000)


def make_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "inside").touch()


def make_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_link_out(path: Path) -> None:
    outside = path.parents[4] / "outside.json"
    path.rename(outside)
    path.symlink_to(outside)


def make_link_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def copy_of_other(path: Path) -> None:
    Store(path.parents[3]).publish(OTHER, [row(7)], environment={})
    shutil.copy(path.parents[2] / OTHER.device / OTHER.environment / "table.json", path)


def rows_no_list(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "rows": {"k": ["R", 1]}}))


def huge_generation(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "generation": 10**300}))


DAMAGE: list[tuple[Callable[[Path], None], str, str]] = [
    (make_empty, "empty", "is empty"),
    (cut, "not-json", "is not JSON, or cut off"),
    (make_list, "no-object", "holds no JSON object"),
    (make_binary, "not-json", "is not UTF-8 text"),
    (make_deep, "not-json", "nested too deeply"),
    (make_directory, "directory", "is a directory where a file should be"),
    (make_fifo, "not-a-file", "is no regular file"),
    (make_link_out, "link-out-of-root", "is a link that leads out of the cache"),
    (copy_of_other, "misplaced", f"was written for {OTHER}"),
    (rows_no_list, "no-rows", "has no list of rows"),
    (huge_generation, "bad-generation", "no usable generation"),
]


@pytest.mark.parametrize(("damage", "slug", "why"), DAMAGE, ids=[d[0].__name__ for d in DAMAGE])
def test_load_sets_a_damaged_table_aside_and_says_why(
    store: Store, root: Path, damage: Callable[[Path], None], slug: str, why: str
) -> None:
    publish(store, 1)
    damage(table_path(root))
    loaded = store.load(TID)
    assert loaded.table is None
    assert len(loaded.problems) == 1
    line = str(loaded.problems[0])
    assert why in line
    assert f"set aside as table.json.damaged-{slug}-1" in line
    assert "\n" not in line
    assert os.path.lexists(table_path(root).with_name(f"table.json.damaged-{slug}-1"))
    assert store.load(TID).problems == ()
    assert publish(store, 2).added == 1
    table = store.load(TID).table
    assert table is not None
    assert table.rows == (row(2),)


@pytest.mark.parametrize("damage", [d[0] for d in DAMAGE])
def test_publish_over_a_damaged_table_keeps_the_damaged_file_and_writes_a_good_one(
    store: Store, root: Path, damage: Callable[[Path], None]
) -> None:
    publish(store, 1)
    damage(table_path(root))
    out = publish(store, 2)
    assert out.added == 1
    assert "set aside" in str(out.problems[0])
    assert store.load(TID).problems == ()
    assert len(list(table_path(root).parent.glob("table.json.damaged-*"))) == 1


@pytest.mark.parametrize("damage", [make_directory, make_empty, make_link_out, make_list])
def test_a_damaged_environment_file_does_not_stop_a_publish(
    store: Store, root: Path, damage: Callable[[Path], None]
) -> None:
    publish(store, 1)
    damage(table_path(root).with_name("environment.json"))
    assert publish(store, 2).generation == 2
    assert store.read_environment(TID) == ENVIRONMENT


@pytest.mark.parametrize("damage", [make_directory, make_empty, make_list])
def test_a_readonly_store_reports_damage_and_moves_nothing(
    store: Store, root: Path, damage: Callable[[Path], None]
) -> None:
    publish(store, 1)
    damage(table_path(root))
    before = sorted(root.rglob("*"))
    looking = Store.open(root, readonly=True)
    assert looking.load(TID).table is None
    assert len(looking.load(TID).problems) == 1
    assert looking.tables()[0].problem is not None
    assert publish(looking, 2).generation is None
    assert sorted(root.rglob("*")) == before


def test_one_bad_row_is_left_out_and_the_good_ones_are_used(store: Store, root: Path) -> None:
    publish(store, 1, 2)
    data = json.loads(table_path(root).read_text())
    data["rows"] += [5, {"key": "k", "value": 5}, data["rows"][0], *([None] * 20)]
    table_path(root).write_text(json.dumps(data))
    loaded = store.load(TID)
    assert loaded.table is not None
    assert set(loaded.table.rows) == {row(1), row(2)}
    lines = [str(problem) for problem in loaded.problems]
    assert "row 2: a row must be an object, not a number; this row is not used" in lines[0]
    assert "row 3: value must be a list [runner, tactic, ...], not a number" in lines[1]
    assert "occur twice" in lines[2]
    assert "13 more rows" in lines[-1]
    assert len(lines) == 11
    assert publish(store, 3).generation == 2
    assert store.load(TID).problems == ()


def test_a_zero_byte_temporary_file_beside_is_nothing(store: Store, root: Path) -> None:
    publish(store, 1)
    table_path(root).with_name(".table.json.4242-aaaa.tmp").touch()
    table_path(root).with_name("table.json.tmp").touch()
    assert store.load(TID).problems == ()
    assert publish(store, 2).problems == ()


def test_a_schema_of_the_future_is_left_in_place_and_never_overwritten(store: Store, root: Path) -> None:
    publish(store, 1)
    data = {**json.loads(table_path(root).read_text()), "schema": "tunelaunch/table/2"}
    table_path(root).write_text(json.dumps(data))
    before = table_path(root).read_bytes()
    loaded = store.load(TID)
    assert loaded.table is None
    assert "has schema tunelaunch/table/2, this version reads tunelaunch/table/1" in str(loaded.problems[0])
    for out in (publish(store, 2), store.rollback(TID, 1), store.pin(TID)):
        assert out.generation is None
        assert "update tunelaunch" in str(out.problems[0])
    assert table_path(root).read_bytes() == before


def test_a_file_where_a_directory_should_be_is_set_aside(store: Store, root: Path) -> None:
    publish(store, 1)
    shutil.rmtree(root / "v1" / TID.device)
    (root / "v1" / TID.device).write_text("?")
    shutil.rmtree(root / "v1" / "reports", ignore_errors=True)
    (root / "v1" / "reports").write_text("?")
    assert store.load(TID).table is None
    out = publish(store, 2)
    assert out.generation == 1
    assert "is not a directory; set aside as" in str(out.problems[0])
    assert store.write_report("L", {}) is not None


def test_a_table_directory_that_links_out_of_the_root_is_not_used(store: Store, root: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "v1" / TID.device).symlink_to(outside)
    out = publish(store, 1)
    assert out.generation is None
    assert "leads out of the cache" in str(out.problems[0])
    assert store.load(TID).table is None
    assert list(outside.rglob("*.json")) == []


def test_a_root_that_is_itself_a_link_works(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = Store.open(tmp_path / "link")
    assert publish(store, 1).generation == 1
    assert Store.open(tmp_path / "real").load(TID).table is not None


def test_a_file_over_the_size_limit_is_refused_unread(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(store, 1)
    with table_path(root).open("r+b") as file:
        file.truncate(files_module.MAX_BYTES + 1)  # sparse: takes no space
    assert "is the limit" in str(store.load(TID).problems[0])


def test_a_fault_that_repeats_does_not_fill_the_disk(store: Store, root: Path) -> None:
    publish(store, 1)
    for _ in range(files_module.MAX_ASIDE + 5):
        make_empty(table_path(root))
        assert store.load(TID).table is None
    assert len(list(table_path(root).parent.glob("*.damaged-*"))) == files_module.MAX_ASIDE


def test_a_good_file_that_slipped_in_is_not_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text("bad")
    seen = (path.stat().st_dev, path.stat().st_ino)
    (tmp_path / "new").write_text("good")
    (tmp_path / "new").replace(path)
    assert set_aside(path, "not-json", seen) is None
    assert path.read_text() == "good"
    assert set_aside(tmp_path / "absent", "why") is None


def test_reading_anything_gives_a_value_or_a_problem(tmp_path: Path) -> None:
    (tmp_path / "good").write_text('{"a": [1]}')
    assert read_json_any(tmp_path / "good") == ({"a": [1]}, None)
    assert read_json_any(tmp_path / "absent") == (None, None)
    for odd in (tmp_path, tmp_path / "good" / "below", tmp_path / "nul\0byte", tmp_path / ("x" * 300)):
        value, problem = read_json_any(odd)
        assert value is None
        assert problem is not None
