"""The published JSON Schemas hold for their samples and for what is really written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from storekit import ENVIRONMENT, REPOSITORY, TID, row

from tunelaunch.store import Row, Store, TableId

SCHEMAS = REPOSITORY / "cache_schema"
NAMES = sorted(path.name.removesuffix(".schema.json") for path in SCHEMAS.glob("*.schema.json"))


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def sample(name: str) -> Any:
    return json.loads((SCHEMAS / f"{name}.sample.json").read_text())


def test_every_schema_has_a_sample_and_is_listed() -> None:
    assert sorted(path.name.removesuffix(".sample.json") for path in SCHEMAS.glob("*.sample.json")) == NAMES
    assert {"environment", "in-use", "quarantine", "receipt", "report", "table", "wanted"} <= set(NAMES)
    readme = (SCHEMAS / "README.md").read_text()
    assert all(f"`{name}.schema.json`" in readme for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_is_valid_and_its_schema_is_needed(name: str) -> None:
    validator(name).validate(sample(name))
    for broken in ([], {}, {**sample(name), "schema": f"tunelaunch/{name}/2"}):
        with pytest.raises(jsonschema.ValidationError):
            validator(name).validate(broken)


def test_the_sample_table_is_one_that_the_store_loads(root: Path) -> None:
    data = sample("table")
    tid = TableId(data["device"], data["environment"])
    path = root / "v1" / tid.device / tid.environment / "table.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(data))
    loaded = Store.open(root).load(tid)
    assert loaded.problems == ()
    assert loaded.table is not None
    assert loaded.table.generation == data["generation"]
    assert [r.to_json() for r in loaded.table.rows] == data["rows"]


def test_files_that_were_really_written_are_valid(store: Store, root: Path) -> None:
    rows = [
        row(1, ((128, 16), (1, 1), True, False, 4, None, "x", 0.5)),
        row(2, -1, scope="9b0d4e2f61aa", evidence={"ms": 0.1}),
        row(3, set={"id": "L1", "size": 2, "index": 0}, extra={"future": 1}),
        Row(key="k", value=["R", [], {"policy": "p"}]),
    ]
    store.publish(TID, rows[:2], environment=ENVIRONMENT, launch="L1")
    store.publish(TID, rows, environment=ENVIRONMENT, launch="L2")
    store.pin(TID)
    store.add_quarantine(
        TID, [{"key": "k", "scope": None, "runner": "R", "tactic": (1, 2), "why": "w", "expires": None}]
    )
    store.add_wanted(TID, [{"op": "o", "bucket": 4096, "shapes": ((1, 2),), "ranks": 8}])
    assert store.mark_in_use(TID, "L2", os.getpid()) is None
    report = sample("report")
    store.write_report("L2", {name: report[name] for name in report if name not in ("schema", "launch")})
    written = [path for path in root.rglob("*.json") if path.is_file()] + [store.paths(TID).user("L2")]
    assert len(written) == 8
    for path in written:
        name = {"history": "table", "reports": "report", "in-use": "in-use"}.get(path.parent.name, path.stem)
        validator(name).validate(json.loads(path.read_text()))


@pytest.mark.parametrize(
    "value", [5, [], ["R"], [1, 1], ["R", True], ["R", 1.5], ["R", "x"], ["R", [{"a": 1}]], ["", 1]]
)
def test_schema_and_code_refuse_the_same_row_values(value: Any) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Row.from_json({"key": "k", "value": value})
    with pytest.raises(jsonschema.ValidationError):
        validator("table").validate({**sample("table"), "rows": [{"key": "k", "value": value}]})
