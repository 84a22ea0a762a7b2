"""Importing: decided by evidence, done whole or not at all."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from sharekit import (
    FIELDS,
    MEASURED,
    OTHER,
    OTHER_FIELDS,
    REPOSITORY,
    RTX,
    RTX_FIELDS,
    TID,
    key,
    publish,
    row,
    rows_at,
    snapshot,
    table,
)

from tunelaunch.cli.main import main
from tunelaunch.errors import ShareError
from tunelaunch.share.bundle import make_bundle
from tunelaunch.share.evidence import apply, decide, hidden_of, weight
from tunelaunch.share.importing import carry_out, plan
from tunelaunch.share.signing import Trust
from tunelaunch.store import Row, Store

CHECKED = dict(MEASURED)
UNCHECKED = {"gain_percent": 40.0}
PROFILED = {"choice": "profile", "trial": "none"}
NOTHING: dict[str, Any] = {}


@pytest.fixture(autouse=True)
def _own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TUNELAUNCH_CACHE_DIR", "TUNELAUNCH_KEY_FILE", "TUNELAUNCH_REQUIRE_SIGNED"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "run").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))


def run(capsys: pytest.CaptureFixture[str], *args: Any) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main([str(arg) for arg in args])
    said = capsys.readouterr()
    return code, said.out, said.err


def bundle_file(tmp_path: Path, *tables: Any, trust: Trust | None = None) -> Path:
    path = tmp_path / "tables.tar"
    path.write_bytes(make_bundle(tables, trust))
    return path


# By evidence


def test_evidence_counts_measurements_and_checks_not_dates() -> None:
    weights = [weight(row(1, evidence=e)) for e in (NOTHING, {"unverified": True}, PROFILED, UNCHECKED, CHECKED)]
    assert weights == [0, 0, 1, 2, 3]
    assert weight(row(1, -1, evidence={"gain_percent": 0.0})) == 3
    assert weight(row(1, evidence={**CHECKED, "unverified": True})) == 0


@pytest.mark.parametrize("local", [NOTHING, PROFILED, UNCHECKED, CHECKED])
@pytest.mark.parametrize("incoming", [NOTHING, PROFILED, UNCHECKED, CHECKED])
def test_more_evidence_wins_and_with_equal_evidence_the_local_row_stays(local: Any, incoming: Any) -> None:
    mine, theirs = row(1, 5, evidence=local), row(1, 6, evidence=incoming)
    (left,) = apply([mine], decide([mine], [theirs]))
    stronger = weight(theirs) > weight(mine)
    assert left.tactic == (6 if stronger else 5)


def ranks(name: str, tactic: int, evidence: Any, keys: Any = (0, 1), size: int = 2) -> list[Row]:
    return [
        row(k, tactic, evidence=evidence, set={"id": name, "size": size, "index": index})
        for index, k in enumerate(keys)
    ]


def test_sets_of_ranks_are_taken_and_replaced_whole() -> None:
    weak, strong = ranks("a", 1, PROFILED), ranks("b", 2, CHECKED)
    assert {r.tactic for r in apply(weak, decide(weak, strong))} == {2}
    assert {r.tactic for r in apply(strong, decide(strong, weak))} == {2}
    half = decide([], strong[:1])
    assert (half.add, len(half.refused)) == ((), 1)
    three = ranks("c", 3, PROFILED, keys=(0, 1, 2), size=3)
    torn = decide(three, strong)
    assert (torn.add, torn.replace, torn.kept) == ((), (), 2)


def test_one_row_never_tears_a_local_set() -> None:
    local = ranks("a", 1, PROFILED)
    assert decide(local, [row(0, 7)]).kept == 1


def test_quarantined_tactics_are_refused_until_the_quarantine_ends() -> None:
    entry = {"key": key(1), "scope": None, "runner": "MoERunner", "tactic": [1, 2]}
    for expires, taken in ((None, 0), ("2999-01-01T00:00:00Z", 0), ("2001-01-01T00:00:00Z", 1), (1.0, 1), ("soon", 0)):
        decision = decide([], [row(1, (1, 2))], hidden_of([{**entry, "expires": expires}]))
        assert (len(decision.add), len(decision.refused)) == (taken, 1 - taken)


def test_odd_entries_of_a_local_quarantine_hide_nothing_and_break_nothing() -> None:
    assert hidden_of([{"key": "k", "scope": []}, {}, {"scope": {}}, {"key": 1, "tactic": {}}]) == {
        ("None", None, "None", "None"),
        ("1", None, "None", "{}"),
    }


# Into a store


def test_a_dry_run_says_the_same_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, root = bundle_file(tmp_path, table([row(1), row(2)])), tmp_path / "root"
    args = ("import", path, "--tunelaunch-cache", root, "--format", "json")
    code, dry, _ = run(capsys, *args, "--dry-run")
    assert (code, root.exists()) == (0, False)
    code, wet, _ = run(capsys, *args)
    assert code == 0
    assert json.loads(dry)["tables"] == json.loads(wet)["tables"]
    assert (json.loads(dry)["done"], json.loads(wet)["done"]) == (False, True)
    assert len(rows_at(root)) == 2


def test_an_import_twice_changes_nothing_the_second_time(tmp_path: Path) -> None:
    path, root = bundle_file(tmp_path, table([row(1)], quarantine=({"key": "k", "tactic": 1},))), tmp_path / "root"
    assert main(["import", str(path), "--tunelaunch-cache", str(root)]) == 0
    before = snapshot(root)
    assert main(["import", str(path), "--tunelaunch-cache", str(root)]) == 0
    assert snapshot(root) == before


def test_counts_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    publish(root, [row(1, 5), row(2, 5, evidence=NOTHING)])
    quarantine = ({"key": key(4), "scope": None, "runner": "MoERunner", "tactic": 9},)
    path = bundle_file(tmp_path, table([row(1, 6), row(2, 6), row(3, 6), row(4, 9)], quarantine=quarantine))
    code, out, _ = run(capsys, "import", path, "--tunelaunch-cache", root)
    assert code == 0
    assert "1 rows added, 1 replaced (more evidence), 1 kept as they are here, 1 refused, 1 tactics quarantined" in out
    assert "1 refused: its tactic is quarantined" in out
    assert rows_at(root) == {key(1): 5, key(2): 6, key(3): 6}


def test_rows_of_a_pinned_table_stay(tmp_path: Path) -> None:
    publish(tmp_path, [row(1, 5, evidence=NOTHING)])
    Store.open(tmp_path).pin(TID)
    store = Store.open(tmp_path)
    carry_out(store, plan(store, [table([row(1, 6), row(2, 6)])]), "import x")
    assert rows_at(tmp_path) == {key(1): 5, key(2): 6}


def test_the_local_record_of_the_environment_stays(tmp_path: Path) -> None:
    publish(tmp_path, [row(1)])
    store = Store.open(tmp_path)
    carry_out(store, plan(store, [table([row(2)], {**FIELDS, "info.driver": "1.0"})]), "import x")
    assert dict(store.read_environment(TID) or {}) == FIELDS


def test_rows_without_evidence_are_marked_to_be_verified(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    carry_out(store, plan(store, [table([row(1, evidence=NOTHING)])]), "import x")
    loaded = store.load(TID).table
    assert loaded is not None
    assert loaded.rows[0].evidence == {"unverified": True}


def test_another_environment_gets_its_own_table_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    publish(root, [row(1, 5)])
    path = bundle_file(tmp_path, table([row(1, 6)], OTHER_FIELDS))
    code, _, err = run(capsys, "import", path, "--tunelaunch-cache", root)
    assert code == 0
    assert "flashinfer.cudnn_version: saved 92000, current 92101" in err
    assert (rows_at(root), rows_at(root, OTHER)) == ({key(1): 5}, {key(1): 6})


def test_an_expected_environment_refuses_others_with_the_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "root"
    publish(root, [row(1, 5)])
    before = snapshot(root)
    path = bundle_file(tmp_path, table([row(1, 6)], OTHER_FIELDS))
    code, out, err = run(capsys, "import", path, "--tunelaunch-cache", root, "--expect-environment", TID.environment)
    assert (code, out) == (1, "")
    assert "flashinfer.cudnn_version: saved 92000, current 92101" in err
    assert snapshot(root) == before


def test_a_device_of_its_own_needs_no_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "root"
    publish(root, [row(1, 5)])
    code, _, err = run(capsys, "import", bundle_file(tmp_path, table([row(1)], RTX_FIELDS)), "--tunelaunch-cache", root)
    assert (code, err) == (0, "")


# Whole or not at all


def test_if_one_table_cannot_be_written_none_is(tmp_path: Path) -> None:
    root = tmp_path / "root"
    publish(root, [row(1, 5, evidence=NOTHING)])
    publish(root, [row(1, 5)], RTX_FIELDS)
    quarantine = Store.open(root).paths(RTX).quarantine
    quarantine.write_text('{"schema": "tunelaunch/quarantine/9", "entries": []}')
    before = snapshot(root)
    tables = [
        table([row(1, 6), row(2, 6)]),
        table([row(1, 6)], OTHER_FIELDS, quarantine=({"key": "k", "tactic": 1},)),
        table([row(2, 6)], RTX_FIELDS, quarantine=({"key": "k", "tactic": 1},)),
    ]
    store = Store.open(root)
    with pytest.raises(ShareError, match=r"quarantine.*the store is as it was"):
        carry_out(store, plan(store, tables), "import x")
    assert snapshot(root) == before


def test_a_table_of_the_future_is_not_touched(tmp_path: Path) -> None:
    publish(tmp_path, [row(1)])
    path = Store.open(tmp_path).paths(TID).table
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": "tunelaunch/table/2"}))
    before = snapshot(tmp_path)
    store = Store.open(tmp_path, readonly=True)
    with pytest.raises(ShareError, match="update tunelaunch"):
        plan(store, [table([row(2)], OTHER_FIELDS), table([row(2)])])
    assert snapshot(tmp_path) == before


def test_a_place_that_cannot_be_written_is_a_named_refusal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("x")
    path = bundle_file(tmp_path, table([row(1)]))
    code, _, err = run(capsys, "import", path, "--tunelaunch-cache", tmp_path / "file" / "root")
    assert code == 1
    assert "cannot be written" in err


def test_some_hundred_fuzzed_bundles_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("fuzz_bundles", REPOSITORY / "benchmarks" / "fuzz_bundles.py")
    assert spec is not None
    assert spec.loader is not None
    fuzz = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fuzz)
    (tmp_path / "fuzz").mkdir()
    outcomes, failures = fuzz.run(300, 7, tmp_path / "fuzz")
    assert failures == []
    assert sum(outcomes.values()) == 300
    assert sum(number for name, number in outcomes.items() if name.endswith("refused")) > 250
