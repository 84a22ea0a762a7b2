"""Rows: what is accepted, what is refused with a reason, what survives a round trip."""

from __future__ import annotations

import json
from typing import Any

import pytest
from storekit import row

from tunelaunch.store import Row, TableId
from tunelaunch.store.jsontext import decode, encode

NESTED = [[128, 16], [1, 1], True, False, 4]


def test_nested_tactic_and_unknown_fields_survive_a_round_trip() -> None:
    data = {"key": "k", "value": ["R", NESTED, {"policy": 1}], "scope": "9b0d4e2f61aa", "op": "o", "future": {"a": [1]}}
    loaded = Row.from_json(json.loads(json.dumps(data)))
    assert loaded.tactic == NESTED
    assert loaded.runner == "R"
    assert loaded.identity == ("k", "9b0d4e2f61aa")
    assert loaded.extra == {"future": {"a": [1]}}
    assert loaded.to_json() == data


def test_tuples_and_lists_of_the_same_items_are_the_same_row() -> None:
    assert row(1, ((128, 16), True)) == row(1, [[128, 16], True])
    assert hash(row(1, (1, 2))) == hash(row(1, [1, 2]))
    assert row(1, [1, True]) != row(1, [1, 1])
    assert row(1) != row(1, scope="9b0d4e2f61aa")


def test_only_minus_one_is_the_default() -> None:
    assert row(1, -1).is_default
    assert not row(1, 0).is_default
    assert not row(1, [-1]).is_default


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (7, "must be an object, not a number"),
        ({"key": "k", "value": 7}, r"value must be a list .*, not a number"),
        ({"key": "k", "value": []}, "must start with a runner name"),
        ({"key": "k", "value": ["R"]}, "must start with a runner name"),
        ({"key": "k", "value": [1, 1]}, "must start with a runner name"),
        ({"key": "", "value": ["R", 1]}, "key must be non-empty text"),
        ({"value": ["R", 1]}, "key must be non-empty text, not nothing"),
        ({"key": "k", "value": ["R", True]}, "integer or a nested list, not a boolean"),
        ({"key": "k", "value": ["R", 1.5]}, "integer or a nested list, not a number"),
        ({"key": "k", "value": ["R", "x"]}, "integer or a nested list, not text"),
        ({"key": "k", "value": ["R", [{"a": 1}]]}, "scalars and lists, not an object"),
        ({"key": "k", "value": ["R", [float("nan")]]}, "may not hold NaN"),
        ({"key": "k", "value": ["R", 1], "scope": 5}, "scope must be text or null"),
        ({"key": "k", "value": ["R", 1], "op": None}, "op must be text"),
        ({"key": "k", "value": ["R", 1], "evidence": []}, "evidence must be an object"),
        ({"key": "k", "value": ["R", 1], "set": {"size": 2}}, "set must be an object with a text id"),
        ({"key": "k", "value": ["R", 1], "set": {"id": "a", "size": "2", "index": 0}}, "integer size and index"),
    ],
)
def test_odd_rows_are_refused_with_a_reason(data: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Row.from_json(data)


def test_tactics_nest_sixteen_levels_and_no_more() -> None:
    def nested(depth: int) -> Any:
        value: Any = 1
        for _ in range(depth):
            value = [value]
        return value

    assert Row.from_json({"key": "k", "value": ["R", nested(16)]}).tactic == nested(16)
    with pytest.raises(ValueError, match="nest 16 lists at most"):
        Row.from_json({"key": "k", "value": ["R", nested(17)]})


def test_json_text_is_canonical_and_never_holds_nan() -> None:
    assert encode({"b": 1, "a": (float("inf"), "\ud800")}) == b'{\n "a": [\n  null,\n  "\\ud800"\n ],\n "b": 1\n}\n'
    assert decode(encode({"a": [1, 2.5, None, True]})) == {"a": [1, 2.5, None, True]}


@pytest.mark.parametrize(
    "raw", [b"", b" \n", b"\0\0\0", b"\xff\xfe", b"{", b"[" * 100_000, b"1" * 5000, b"[" * 200 + b"]" * 200, b"nul"]
)
def test_absurd_json_is_a_value_error(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        decode(raw)


@pytest.mark.parametrize("device", ["", "../x", "a/b", ".hidden", "reports", "a\0b", "a b", "x" * 300])
def test_a_table_id_cannot_leave_the_root(device: str) -> None:
    with pytest.raises(ValueError, match="device"):
        TableId(device, "0123456789ab")


@pytest.mark.parametrize("environment", ["", "0123456789AB", "0123456789a", "..", "0123456789ab\n"])
def test_an_environment_id_is_twelve_hex_digits(environment: str) -> None:
    with pytest.raises(ValueError, match="environment"):
        TableId("gpu", environment)
