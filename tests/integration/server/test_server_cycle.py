"""The whole cycle with the real server: tune once, and never again on this device, whatever the path and the port."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest
from evidence import GEMM1, GEMM2, expected_profiles, tokens_of
from serverkit import BUCKETS, PROMPTS, Ran, serve

from tunelaunch.store import Row, Store

pytestmark = pytest.mark.server
REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def warm(place: Path, cold: Ran, model_elsewhere: Path) -> Ran:
    """The second start: the model at another path, another port, another empty cache of SGLang's."""
    shutil.copytree(cold.directory / "root", place / "warm" / "root")
    return serve(place / "warm", model_elsewhere, end=signal.SIGINT)


@pytest.fixture(scope="module")
def plain_elsewhere(place: Path, plain: Ran, model_elsewhere: Path) -> Ran:
    """SGLang without tunelaunch at that other path, with the cache that its start at the first path left."""
    cache = place / "plain-sglang-cache"
    return serve(place / "plain2", model_elsewhere, tunelaunch=False, end=signal.SIGINT, sglang_cache=cache)


@dataclass(frozen=True)
class Edited:
    """A start whose table was changed by hand, and then made read-only. ``wanted``: (op, bucket) to tactic."""

    ran: Ran
    wanted: dict[tuple[str, int], int]
    table: bytes


@pytest.fixture(scope="module")
def edited(place: Path, cold: Ran, model: Path) -> Edited:
    root = Path(shutil.copytree(cold.directory / "root", place / "edited" / "root"))
    store = Store.open(root)
    [info] = store.tables()
    loaded = store.load(info.tid).table
    assert loaded is not None
    wanted, rows = {}, []
    for row in loaded.rows:
        first, bucket = (0 if row.op == GEMM1 else 4), tokens_of(row.key)
        # Neighbouring buckets get different tactics, none of them the one that was chosen.
        options = [t for t in (first, first + 1, first + 3) if t != row.tactic]
        wanted[row.op, bucket] = options[BUCKETS.index(bucket) % 2]
        rows.append(Row(key=row.key, scope=row.scope, op=row.op, value=[row.runner, wanted[row.op, bucket]]))
    assert store.publish(info.tid, rows, environment={}, replace=True).replaced == len(rows)
    for path in (root, *root.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        ran = serve(place / "edited", model, mortal=True)
    finally:
        for path in (root, *root.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    return Edited(ran, wanted, Path(info.path).read_bytes())


@pytest.fixture(scope="module")
def retuned(place: Path, cold: Ran, model: Path) -> Ran:
    shutil.copytree(cold.directory / "root", place / "retuned" / "root")
    return serve(place / "retuned", model, "--retune")


# -- it is SGLang ------------------------------------------------------------------------------------------------------


def test_the_same_endpoints_answer(plain: Ran, cold: Ran) -> None:
    assert plain.statuses["/health"] == plain.statuses["/generate"] == plain.statuses["/v1/models"] == 200
    assert cold.statuses == plain.statuses
    assert cold.info == plain.info
    assert [m["id"] for m in cold.models["data"]] == [m["id"] for m in plain.models["data"]]


def test_the_same_greedy_tokens_come_out(plain: Ran, cold: Ran, warm: Ran) -> None:
    assert [len(answer) for answer in plain.tokens] == [8, 8, 8]
    assert cold.tokens == plain.tokens
    assert warm.tokens == plain.tokens


def test_the_launched_process_is_the_server_and_keeps_its_stdin(plain: Ran, cold: Ran) -> None:
    assert plain.listener
    assert cold.listener
    assert cold.stdin == str(cold.directory / "stdin")
    assert cold.command == plain.command


def test_sigterm_ends_it_with_sglangs_own_code_and_leaves_no_process(plain: Ran, cold: Ran) -> None:
    assert cold.code == plain.code
    assert cold.left == plain.left == []


def test_sigint_ends_it_with_sglangs_own_code_and_leaves_no_process(plain_elsewhere: Ran, warm: Ran) -> None:
    assert warm.code == plain_elsewhere.code
    assert warm.left == plain_elsewhere.left == []


# -- it tunes once -----------------------------------------------------------------------------------------------------


def test_the_first_start_profiles_every_bucket_and_flashinfers_file_grows_by_as_much(cold: Ran) -> None:
    saved = cold.saved[0]
    assert sorted(tokens_of(key) for key in saved) == sorted(BUCKETS * 2)
    assert cold.counts == {0: expected_profiles(saved)}
    assert cold.report["profiles"] == cold.profiles


def test_the_second_start_elsewhere_profiles_nothing_and_flashinfers_file_does_not_grow(cold: Ran, warm: Ran) -> None:
    assert warm.counts == {0: 0}
    assert warm.saved[0].keys() == cold.saved[0].keys()
    assert warm.report["profiles"] == 0
    assert warm.report["totals"]["loaded"] == len(BUCKETS) * 2


def test_plain_sglang_at_the_other_path_profiles_again(plain: Ran, plain_elsewhere: Ran) -> None:
    assert plain.counts == {0: expected_profiles(plain.saved[0])}
    assert plain_elsewhere.counts == plain.counts


def test_retune_profiles_all_again_and_replaces_the_table(cold: Ran, retuned: Ran) -> None:
    assert retuned.counts == cold.counts
    assert retuned.report["totals"]["loaded"] == 0
    before, after = (json.loads(table_of(ran).read_text()) for ran in (cold, retuned))
    assert {row["key"] for row in after["rows"]} == {row["key"] for row in before["rows"]}


# -- it says so --------------------------------------------------------------------------------------------------------


def test_the_summary_is_in_sglangs_log_and_the_report_is_valid(cold: Ran, warm: Ran) -> None:
    schema = json.loads((REPOSITORY / "cache_schema" / "report.schema.json").read_text())
    for ran in (cold, warm):
        jsonschema.validate(ran.report, schema)
        assert ran.said("Simulated GPU (CPU)")
        assert ran.said(f"report {ran.directory / 'root' / 'v1' / 'reports' / ran.report['launch']}.json")
    assert cold.said(f"{cold.profiles} profiles run")
    assert warm.said("18 loaded, 0 tuned, 0 default, 0 failed; 0 profiles run")
    assert not [f for ran in (cold, warm) for f in (*ran.report["fallbacks"], *ran.report["tracebacks"])]


# -- the table decides -------------------------------------------------------------------------------------------------


def test_a_request_uses_the_row_of_its_own_bucket_also_after_a_smaller_one(edited: Edited) -> None:
    """The CPU host caps its buckets at the size of the latest new call, as upstream did; the rows must not follow."""
    sizes = {24: 32, 100: 128, 200: 256, 1: 1}
    assert list(PROMPTS) == [24, 100, 200]
    for op in (GEMM1, GEMM2):
        assert {size: edited.ran.answered(op, size) for size in sizes} == {
            size: {edited.wanted[op, bucket]} for size, bucket in sizes.items()
        }


def test_a_tactic_changed_by_hand_answers_with_the_same_tokens(cold: Ran, edited: Edited) -> None:
    assert all(edited.ran.answered(op, 1) != cold.answered(op, 1) for op in (GEMM1, GEMM2))
    assert edited.ran.tokens == cold.tokens
    assert edited.ran.profiles == 0


def test_a_root_that_cannot_be_written_is_read_and_the_log_says_where_writes_go(edited: Edited) -> None:
    ran = edited.ran
    assert ran.report["totals"]["loaded"] == len(BUCKETS) * 2
    assert table_of(ran).read_bytes() == edited.table
    overlay = list(ran.directory.glob("run/tunelaunch-*/cache/v1/reports/*.json"))
    assert [path.stem for path in overlay] == [ran.report["launch"]]
    assert ran.said(f"new ones are written to {overlay[0].parents[2]} instead")


def table_of(ran: Ran) -> Path:
    """The only table under the root of a start."""
    [path] = (ran.directory / "root").glob("v1/*/*/table.json")
    return path
