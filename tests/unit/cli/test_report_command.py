"""``tunelaunch report``: the rows of a start for people."""

from __future__ import annotations

from typing import Any

from cachekit import Cache
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tunelaunch.cli.report_rows import print_details

LAUNCH = "20260101T000000Z-1-0000"


def write(cache: Cache, launch: str = LAUNCH, **more: Any) -> None:
    rows = [
        {"key": "b", "scope": None, "tokens": 64, "state": "default", "runner": "R", "tactic": -1, "why": "no gain"}
        | {"us": 50.0, "default_us": 50.0, "gain_percent": 0.0},
        {"key": "a", "scope": None, "tokens": 16, "state": "tuned", "runner": "R", "tactic": 7, "why": "fastest"}
        | {"us": 40.0, "default_us": 50.0, "gain_percent": 25.0}
        | {"before": {"runner": "R", "tactic": 5, "us": {"winner": 44.0}}},
        {"key": "c", "scope": None, "tokens": 128, "state": "loaded", "tactic": 3}
        | {"us": 10.0, "default_us": 20.0, "gain_percent": 100.0, "recorded": "2026-01-01"},
    ]
    report = {
        "launch": launch,
        "environment": {"id": "a" * 12, "fields": {"gpu_name": "X"}},
        "totals": {"loaded": 1, "tuned": 1, "default": 1},
        "passes": [{"name": "target", "seconds": 2.5, "profiles": 4}],
        "ops": [{"op": "m::gemm1", "loaded": 1, "tuned": 1, "default": 1, "failed": 0, "rows": rows}],
        "fallbacks": [f"fallback {n}" for n in range(20)],
        "tracebacks": {"0": "Traceback: secret"},
    }
    cache.store.write_report(launch, report | more)


def test_rows_are_in_the_order_of_tokens_with_their_figures(cache: Cache) -> None:
    write(cache)
    lines = cache.run("report").splitlines()
    assert lines[0] == f"launch {LAUNCH}"
    assert any(line.startswith("rows: 1 loaded") for line in lines[:4])
    start = lines.index("m::gemm1")
    assert [line.split() for line in lines[start + 2 : start + 5]] == [
        ["16", "tuned", "7", "40.0", "50.0", "+25.0%", "now", "5", "44.0", "fastest"],
        ["64", "default", "default", "50.0", "50.0", "+0.0%", "now", "-", "-", "no", "gain"],
        ["128", "loaded", "3", "10.0", "20.0", "+100.0%", "2026-01-01", "-", "-", "-"],
    ]
    assert "  gpu_name = X" in lines


def test_every_fallback_is_there_once_and_tracebacks_are_only_named(cache: Cache) -> None:
    write(cache)
    text = cache.run("report")
    for number in range(20):
        assert (
            text.splitlines().count(f"fallback: fallback {number}")
            + text.splitlines().count(f"  fallback: fallback {number}")
            == 1
        )
    assert "secret" not in text
    assert f"tracebacks of rank 0: tunelaunch report {LAUNCH} --format json" in text
    assert cache.json("report")["tracebacks"] == {"0": "Traceback: secret"}
    assert "gpu_name" not in cache.run("report", "--summary")


def test_an_unknown_launch_lists_the_last_ones(cache: Cache) -> None:
    for number in range(7):
        write(cache, f"2026010{number}T000000Z-1-0000")
    said = cache.run("report", "nosuch", code=1)
    assert "20260106T000000Z-1-0000, 20260105T000000Z-1-0000" in said
    assert "and 2 older" in said
    assert "example" in cache.run("report", "--help")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ["op", "rows", "tokens", "state", "tactic", "us", "before", "why", "key", "gain_percent", "recorded", "fields", "name"]
    ), inner, max_size=5),
    max_leaves=15,
)  # fmt: skip
REPORTS = st.dictionaries(
    st.sampled_from(["ops", "environment", "passes", "fallbacks", "problems", "tracebacks", "launch"]), JSON
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(REPORTS)
def test_no_report_on_disk_breaks_the_table(report: dict[str, Any]) -> None:
    print_details(report, [])
