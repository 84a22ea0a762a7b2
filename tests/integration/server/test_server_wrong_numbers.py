"""Tactics that compute wrong numbers, or that win their profile and lose in the layer: never served, never forgotten."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from evidence import GEMM1, GEMM2, tokens_of
from serverkit import NAN, SCALED, SLOW, Ran, serve

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def second(place: Path, bad_day: Ran, model: Path, planted: dict[str, str]) -> Ran:
    """The start after it, with the same faults."""
    shutil.copytree(bad_day.directory / "root with spaces", place / "broken-again" / "root")
    return serve(place / "broken-again", model, **planted)


def test_the_server_answers_as_plain_sglang_does(plain: Ran, bad_day: Ran, second: Ran) -> None:
    assert bad_day.tokens == plain.tokens
    assert second.tokens == plain.tokens


def test_wrong_tactics_are_quarantined_with_what_was_seen(bad_day: Ran) -> None:
    quarantine = _file(bad_day, "quarantine.json")
    schema = Path(__file__).parents[3] / "cache_schema" / "quarantine.schema.json"
    jsonschema.validate(quarantine, json.loads(schema.read_text()))
    seen: dict[tuple[str, int], str] = {}
    for entry in quarantine["entries"]:
        seen.setdefault((entry["op"], entry["tactic"]), str(entry["seen"]))
    assert seen.keys() == {NAN, SCALED}
    assert "not finite" in seen[NAN]
    assert "differs from default by 0.5" in seen[SCALED]
    assert any(bad_day.said(f"{op} tactic {tactic} is quarantined") for op, tactic in seen)


def test_no_row_has_a_wrong_tactic_and_no_small_bucket_one_that_loses_in_the_layer(bad_day: Ran) -> None:
    rows = _file(bad_day, "table.json")["rows"]
    assert {GEMM1, GEMM2} == {row["op"] for row in rows}
    assert not {(row["op"], row["value"][1]) for row in rows} & {NAN, SCALED}
    # Its 5 ms are several times the whole layer there; at large buckets a busy machine can hide them.
    assert not {(row["op"], row["value"][1]) for row in rows if tokens_of(row["key"]) <= 16} & {SLOW}


def test_none_of_them_ever_serves(bad_day: Ran, second: Ran) -> None:
    for ran in (bad_day, second):
        assert not {(GEMM1, int(tactic)) for tactic in ran.serving[GEMM1]} & {NAN, SCALED}
        assert SLOW[1] not in ran.answered(GEMM2, 1)


def test_the_next_start_knows_it_and_profiles_nothing_again(bad_day: Ran, second: Ran) -> None:
    assert bad_day.profiles > 0
    assert second.profiles == 0
    assert _file(second, "quarantine.json") == _file(bad_day, "quarantine.json")


def _file(ran: Ran, name: str) -> Any:
    [path] = ran.directory.glob(f"root*/v1/*/*/{name}")
    return json.loads(path.read_text())
