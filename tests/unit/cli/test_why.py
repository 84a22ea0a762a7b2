"""``tunelaunch why``: hit or miss for recorded hosts, over tables that the real store wrote."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cachekit import Cache

sys.path[:0] = [str(Path(__file__).resolve().parents[1] / name) for name in ("doctor", "device")]

from doctorkit import (  # noqa: E402
    GB10,
    H200,
    MAX_Q,
    OPS,
    PRO,
    RTX,
    environment,
    host,
    is_valid,
    moe_rows,
    publish,
    save,
)

from tunelaunch.device.facts import DeviceFacts  # noqa: E402
from tunelaunch.doctor.recorded import HostFacts  # noqa: E402

CARDS = (PRO, RTX, GB10, H200)


@pytest.fixture
def facts_file(tmp_path: Path) -> Path:
    return tmp_path / "facts.json"


def why(cache: Cache, path: Path, facts: HostFacts, *arguments: str, code: int = 0) -> dict[str, Any]:
    found = cache.json("why", "--facts", str(save(path, facts)), *arguments, code=code)
    return is_valid(found, "why")


def fields(near: dict[str, Any], decisive: bool = True) -> dict[str, tuple[Any, Any]]:
    return {d["field"]: (d["saved"], d["current"]) for d in near["differences"] if d["decisive"] is decisive}


@pytest.mark.parametrize("now", [PRO, MAX_Q, GB10, H200], ids=lambda card: card.slug)
def test_another_card_is_a_miss_that_names_card_and_sm_count(cache: Cache, facts_file: Path, now: DeviceFacts) -> None:
    saved = publish(cache.root, RTX, environment(RTX))
    result = why(cache, facts_file, host(now))
    (answer,) = result["answers"]
    assert (result["hit"], answer["hit"], answer["ops"]) == (False, False, [])
    assert answer["nearest"]["table"] == str(saved)
    differ = fields(answer["nearest"])
    assert differ["gpu_name"] == (RTX.name, now.name)
    assert differ["sm_count"] == (170, now.sm_count)
    assert ("compute_capability" in differ) is (now.capability != RTX.capability)


def test_each_of_four_cards_hits_its_own_table_only(cache: Cache, facts_file: Path) -> None:
    tables = {card.name: str(publish(cache.root, card, environment(card))) for card in CARDS}
    for card in CARDS:
        (answer,) = why(cache, facts_file, host(card), "--check")["answers"]
        assert (answer["hit"], answer["table"]) == (True, tables[card.name])
        assert [(op["op"], op["rows"], op["tuned"], op["default"]) for op in answer["ops"]] == [
            (o, 3, 2, 1) for o in OPS
        ]
    assert len(set(tables.values())) == len(CARDS)


@pytest.mark.parametrize(
    ("changed", "field", "saved", "current"),
    [
        ({"cudnn_version": "92101"}, "flashinfer.cudnn_version", "92000", "92101"),
        ({"cublas_version": "13.6.0"}, "flashinfer.cublas_version", "13.1.1", "13.6.0"),
        ({"flashinfer_version": "0.7.4"}, "flashinfer.flashinfer_version", "0.7.2", "0.7.4"),
        ({"cudnn_version": "unknown"}, "flashinfer.cudnn_version", "92000", "unknown"),
        ({"packages": "a9other"}, "packages", "5f0c2b6e9d01", "a9other"),
        ({"tag": "canary"}, "tag", "", "canary"),
    ],
)
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.slug)
def test_a_library_that_moved_is_the_one_field_that_is_named(
    cache: Cache, facts_file: Path, card: DeviceFacts, changed: dict[str, Any], field: str, saved: Any, current: Any
) -> None:
    publish(cache.root, card, environment(card))
    (answer,) = why(cache, facts_file, host(card, env=environment(card, **changed)))["answers"]
    assert answer["hit"] is False
    assert fields(answer["nearest"]) == {field: (saved, current)}


def test_an_unknown_field_makes_the_table_unproven(cache: Cache, facts_file: Path) -> None:
    env = environment(PRO, cudnn_version=None)
    publish(cache.root, PRO, env)
    out = cache.run("why", "--facts", str(save(facts_file, host(PRO, env=env))))
    assert "unproven: flashinfer.cudnn_version not known; rows are verified again at every start" in out


def test_driver_and_sglang_differ_without_effect(cache: Cache, facts_file: Path) -> None:
    env = environment(PRO)
    publish(cache.root, PRO, environment(PRO, cudnn_version="1"))
    now = replace(env, fields={**env.fields, "info.driver": "595.1", "info.sglang": "0.5.22"})
    (answer,) = why(cache, facts_file, host(PRO, env=now))["answers"]
    assert fields(answer["nearest"], decisive=False) == {
        "info.driver": ("580.126.20", "595.1"),
        "info.sglang": ("0.5.23", "0.5.22"),
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ["--model-path", "org/model"],
        ["--model-path", "/models/current", "--port", "31000", "--host", "0.0.0.0", "--log-level", "debug"],
        ["--model-path", "/link", "--api-key", "k", "--tp", "4", "--chunked-prefill-size", "4096"],
    ],
)
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.slug)
def test_model_path_and_port_and_parallel_layout_change_nothing(
    cache: Cache, facts_file: Path, card: DeviceFacts, arguments: list[str]
) -> None:
    publish(cache.root, card, environment(card))
    assert why(cache, facts_file, host(card), *arguments, "--check")["hit"] is True


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.slug)
def test_rows_of_all_ranks_count_when_keys_carry_ranks(cache: Cache, facts_file: Path, card: DeviceFacts) -> None:
    publish(cache.root, card, environment(card), *moe_rows(rank=0, world=2), *moe_rows(rank=1, world=2))
    (answer,) = why(cache, facts_file, host(card, card))["answers"]
    assert [op["rows"] for op in answer["ops"]] == [6, 6]


def test_the_same_device_is_nearer_than_another_with_fewer_differences(cache: Cache, facts_file: Path) -> None:
    publish(cache.root, MAX_Q, environment(MAX_Q))
    own = publish(cache.root, PRO, environment(PRO, "q", cudnn_version="1", cublas_version="2", cuda_version="3"))
    near = publish(cache.root, PRO, environment(PRO, "q", cudnn_version="1"))
    (answer,) = why(cache, facts_file, host(PRO))["answers"]
    assert answer["nearest"]["table"] == str(near) != str(own)


def test_seeds_are_asked_and_a_remote_is_only_named(
    cache: Cache, facts_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = tmp_path / "seed"
    publish(seed, PRO, environment(PRO))
    publish(cache.root, PRO, environment(PRO), *moe_rows()[:2])
    monkeypatch.setenv("TUNELAUNCH_SEEDS", f"{seed}:{tmp_path / 'gone'}")
    remote = ["--tunelaunch-remote", "https://user:secret@host/t"]
    (answer,) = why(cache, facts_file, host(PRO), *remote)["answers"]
    found = [(place["kind"], place["asked"], place["rows"]) for place in answer["looked"]]
    assert found == [("local", True, 2), ("seed", True, 4), ("seed", True, 0), ("remote", False, None)]
    assert answer["looked"][3]["place"] == "https://host/t"
    assert answer["looked"][2]["problems"]
    assert sum(op["rows"] for op in answer["ops"]) == 6


def test_a_quarantined_tactic_is_no_row(cache: Cache, facts_file: Path) -> None:
    row, *_ = moe_rows()
    tid = publish(cache.root, PRO, environment(PRO), row)
    cache.store.add_quarantine(
        tid, [{"key": row.key, "scope": None, "runner": "MoERunner", "tactic": 14, "why": "NaN"}]
    )
    result = why(cache, facts_file, host(PRO), "--check", code=1)
    (op,) = result["answers"][0]["ops"]
    assert (result["hit"], op["rows"], op["hidden"]) == (False, 0, 1)


def test_a_damaged_table_is_a_miss_and_stays_where_it_is(cache: Cache, facts_file: Path) -> None:
    tid = publish(cache.root, PRO, environment(PRO))
    path = cache.store.paths(tid).table
    path.write_text('{"schema"')
    (answer,) = why(cache, facts_file, host(PRO))["answers"]
    assert answer["hit"] is False
    assert answer["looked"][0]["problems"]
    assert path.read_text() == '{"schema"'


def test_different_cards_get_an_answer_each_and_one_miss_decides(cache: Cache, facts_file: Path) -> None:
    publish(cache.root, PRO, environment(PRO))
    result = why(cache, facts_file, host(PRO, PRO, RTX), "--check", code=1)
    assert [answer["hit"] for answer in result["answers"]] == [True, False]
    assert result["hit"] is False


def test_a_tag_of_this_start_makes_another_table(cache: Cache, facts_file: Path) -> None:
    publish(cache.root, PRO, environment(PRO, tag="canary"))
    assert why(cache, facts_file, host(PRO))["hit"] is False
    assert why(cache, facts_file, host(PRO), "--tunelaunch-tag", "canary")["hit"] is True


def test_a_miss_in_words_has_a_line_a_field(cache: Cache, facts_file: Path) -> None:
    publish(cache.root, RTX, environment(RTX))
    out = cache.run("why", "--facts", str(save(facts_file, host(PRO))), "--model-path", "m")
    assert f"{PRO.name}, SM120 (Blackwell RTX): miss" in out
    line = next(line for line in out.splitlines() if line.split()[:1] == ["sm_count"])
    assert line.split() == ["sm_count", "170", "188", "yes"]
    assert "3 decisive fields differ; a start tunes anew and keeps that table as it is" in out


def test_nothing_is_made_where_it_looks(cache: Cache, facts_file: Path, tmp_path: Path) -> None:
    before = set(tmp_path.rglob("*"))
    out = cache.run("why", "--facts", str(save(facts_file, host(PRO))))
    assert set(tmp_path.rglob("*")) - before == {facts_file}
    assert "no other table to compare with" in out


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"schema": "tunelaunch/facts/2"}', '{"schema": "tunelaunch/facts/1"}']
)
def test_a_file_that_holds_no_facts_is_refused_with_what_to_run(cache: Cache, facts_file: Path, text: str) -> None:
    facts_file.write_text(text)
    out = cache.run("why", "--facts", str(facts_file), code=1)
    assert str(facts_file) in out
    assert "BUG" not in out.upper()


def test_an_argument_without_a_dash_is_a_usage_error(cache: Cache) -> None:
    assert "SGLang's arguments start with a dash" in cache.run("why", "models", code=2)
