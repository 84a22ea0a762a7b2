"""Whatever lies at ``table.json``: load does not raise, publish leaves a good table with the rows published."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from storekit import ENVIRONMENT, TID, row

from tunelaunch.store import Store

SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from([row(1).key, "k"]) | JSON,
        "value": st.lists(st.sampled_from(["MoERunner", -1, 14]) | JSON, max_size=3) | JSON,
        "scope": st.none() | JSON,
        "op": JSON,
        "evidence": JSON,
        "set": st.fixed_dictionaries({"id": JSON, "size": JSON, "index": JSON}) | JSON,
        "more": JSON,
    },
)
TABLES = st.fixed_dictionaries(
    {
        "schema": st.sampled_from(["tunelaunch/table/1"] * 5 + ["tunelaunch/table/x"]) | JSON,
        "rows": st.lists(ROWS, max_size=5),
    },
    optional={
        "device": st.just(TID.device) | JSON,
        "environment": st.just(TID.environment) | JSON,
        "generation": st.integers(0, 9) | JSON,
        "written": st.fixed_dictionaries({"after": JSON}) | JSON,
        "pinned": JSON,
        "_records": JSON,
    },
).map(lambda table: {"device": TID.device, "environment": TID.environment, "generation": 1, **table})


def check(raw: bytes) -> None:
    with tempfile.TemporaryDirectory() as directory:
        store = Store(Path(directory))
        path = Path(directory) / "v1" / TID.device / TID.environment / "table.json"
        path.parent.mkdir(parents=True)
        path.write_bytes(raw)
        (info,) = store.tables()
        loaded = store.load(TID)
        assert (loaded.table is None) == (info.problem is not None)
        if loaded.table is None:
            assert loaded.problems
        assert all("\n" not in str(problem) for problem in loaded.problems)
        out = store.publish(TID, [row(77)], environment=ENVIRONMENT)
        if out.generation is None:
            assert "update tunelaunch" in str(out.problems[-1])
            assert path.read_bytes() == raw
            return
        after = store.load(TID)
        assert after.table is not None
        assert after.problems == ()
        assert set(after.table.rows) == {row(77), *(loaded.table.rows if loaded.table else ())}
        store.rollback(TID)
        json.loads(path.read_bytes())


@settings(max_examples=80, deadline=None)
@given(JSON)
@example([])
@example({})
@example(10**4000)
def test_any_json_value_as_a_table(value: Any) -> None:
    check(json.dumps(value).encode())


@settings(max_examples=120, deadline=None)
@given(TABLES)
def test_anything_that_looks_like_a_table(value: Any) -> None:
    check(json.dumps(value).encode())


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=60))
@example(b"1" * 10_000)
@example(b"[" * 5_000)
@example(b'{"a":' * 900 + b"1" + b"}" * 900)
def test_any_bytes_as_a_table(raw: bytes) -> None:
    check(raw)
