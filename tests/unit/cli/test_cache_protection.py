"""What protects a table must not be lost by the way, and what cannot be read must not look empty."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tunelaunch.cli.main import main
from tunelaunch.store.identity import TableId
from tunelaunch.store.rows import Row
from tunelaunch.store.store import Store

TABLE = TableId("nvidia-geforce-rtx-5090.sm120.170sm", "b" * 12)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A table with two generations."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("TUNELAUNCH_CACHE_DIR", str(tmp_path / "root"))
    made = Store.open(tmp_path / "root")
    for tactic in (1, 2):
        row = Row(key="('op', 'R')", value=["R", tactic], op="op")
        assert not made.publish(TABLE, [row], environment={"gpu_name": "X"}, replace=True).problems
    return made


@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_a_pinned_table_is_not_rolled_back(store: Store, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    store.pin(TABLE, True)
    before = store.paths(TABLE).table.read_bytes()
    assert main(["cache", "rollback", *more]) == 1
    assert "is pinned" in capsys.readouterr().err
    assert store.paths(TABLE).table.read_bytes() == before


def test_an_odd_pin_protects(store: Store) -> None:
    path = store.paths(TABLE).table
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pinned": "yes"}))
    loaded = store.load(TABLE)
    assert loaded.table is not None
    assert loaded.table.pinned


@pytest.mark.parametrize("command", ["ls", "verify", "show"])
def test_a_root_that_is_no_directory_is_refused(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--tunelaunch-cache", str(tmp_path / "file"), "cache", command, "--format", "json"]) == 1
    assert "cannot be read (Not a directory)" in capsys.readouterr().err


def test_a_root_that_is_not_there_is_an_empty_one(store: Store, tmp_path: Path) -> None:
    assert main(["--tunelaunch-cache", str(tmp_path / "none"), "cache", "ls"]) == 0
