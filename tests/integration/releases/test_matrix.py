"""Every supported pair of SGLang and FlashInfer: the shape of its sources, and the whole cycle through its own code.

For each pair its own ``flashinfer_autotune.py`` and ``hook_registry.py`` and its own FlashInfer run on two ranks: feed, tune,
settle, install, publish; then a second start. The runner's key is of the kind that this FlashInfer's CUTLASS MoE has.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import matrix_table
from support.releases import PAIRS

TESTS = Path(__file__).resolve().parents[2]
MATRIX = TESTS / "data" / "matrix.json"


@pytest.fixture(params=PAIRS, ids=str)
def outcome(request, tried):
    return tried(request.param)


def test_sources_have_every_name_that_the_hosts_rely_on(outcome):
    assert outcome.missing == []
    assert outcome.cache_path_callers == ["flashinfer_autotune_context"]


def test_first_start_tunes_once_in_two_passes_and_serves_right_numbers(outcome):
    start = outcome.cold
    assert start.served(), (start.ranks, start.logs)
    assert [rank["receipt"]["state"] for rank in start.ranks] == ["active", "active"]
    assert [start.fallbacks(rank) for rank in (0, 1)] == [[], []]
    for rank in start.ranks:
        first, second = (one["profiles"] for one in rank["passes"])
        assert (first > 0, second) == (True, 0)
        assert rank["receipt"]["environment"]["fields"]["flashinfer.flashinfer_version"] == outcome.pair.flashinfer
        assert all(one["error"] < 0.02 for one in rank["served"].values())
    assert start.tactics()[0] == start.tactics()[1]


def test_second_start_profiles_nothing_and_serves_the_same_tactics(outcome):
    assert outcome.warm.served(), (outcome.warm.ranks, outcome.warm.logs)
    assert outcome.warm.profiles() == [0, 0]
    assert outcome.warm.states() == {"loaded"}
    assert outcome.warm.rows() == outcome.cold.rows()
    assert outcome.warm.tactics() == outcome.cold.tactics()
    assert "caches disagree" not in "".join(outcome.warm.logs)


def test_buckets_stay_when_smaller_calls_come(outcome):
    for rank in outcome.warm.ranks:
        assert rank["buckets_after_refine"] == rank["buckets"]


def test_the_recorded_matrix_is_what_the_releases_do(tried):
    found = [tried(pair).result() for pair in PAIRS]
    print(matrix_table.render(found))
    assert found == json.loads(MATRIX.read_text(encoding="utf-8"))


def test_the_readme_shows_the_recorded_matrix():
    shown = matrix_table.between_markers((TESTS.parent / "README.md").read_text(encoding="utf-8"))
    expected = matrix_table.render(json.loads(MATRIX.read_text(encoding="utf-8")))
    assert shown in (None, expected)
