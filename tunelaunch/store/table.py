"""A table: all rows of one device and environment, and how it is written.

Guarantees: :func:`parse` never raises; rows that do not validate are left out with a problem each, the good ones are
kept; fields of a newer writer survive in ``extra``; equal content gives equal bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .identity import TableId
from .jsontext import encode
from .layout import MAX_GENERATION
from .problems import Problem
from .rows import Identity, Row

SCHEMA = "tunelaunch/table/1"
MAX_ROW_PROBLEMS = 10
_KNOWN = frozenset({"schema", "device", "environment", "generation", "rows", "written", "pinned"})


@dataclass(frozen=True)
class Table:
    """One generation. ``written`` records who wrote it (free-form); ``pinned`` keeps rows from being replaced."""

    device: str
    environment: str
    generation: int
    rows: tuple[Row, ...]
    written: Mapping[str, Any] = field(default_factory=dict)
    pinned: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The canonical file content. Rows are in the order of op, key and scope."""
        rows = sorted(self.rows, key=lambda row: (row.op, row.key, row.scope or ""))
        return encode(
            {
                **self.extra,
                "schema": SCHEMA,
                "device": self.device,
                "environment": self.environment,
                "generation": self.generation,
                "rows": [row.to_json() for row in rows],
                "written": self.written,
                "pinned": self.pinned,
            }
        )


@dataclass(frozen=True)
class Parsed:
    """What a JSON value is as a table: ``table``, ``damage`` (a slug: set it aside) or ``foreign`` (leave it)."""

    table: Table | None = None
    damage: str | None = None
    foreign: bool = False
    problems: tuple[Problem, ...] = ()


def parse(value: Any, tid: TableId, path: str) -> Parsed:
    """Read ``value``, found at ``path``, as the table ``tid``."""
    schema = value.get("schema") if isinstance(value, Mapping) else None
    if is_foreign(schema, SCHEMA):
        why = f"has schema {schema}, this version reads {SCHEMA}"
        return Parsed(foreign=True, problems=(Problem(path, why, "left in place and not read; update tunelaunch"),))
    if (fault := _fault(value, tid)) is not None:
        return Parsed(damage=fault[0], problems=(Problem(path, fault[1], "not used"),))
    rows, problems = _rows(value["rows"], path)
    written = value.get("written")
    return Parsed(
        table=Table(
            device=tid.device,
            environment=tid.environment,
            generation=value["generation"],
            rows=rows,
            written=written if isinstance(written, Mapping) else {},
            pinned=value.get("pinned", False) not in (False, None),  # anything odd here protects
            extra={name: item for name, item in value.items() if name not in _KNOWN},
        ),
        problems=problems,
    )


def is_foreign(schema: Any, ours: str) -> bool:
    """Whether ``schema`` names another version of the format ``ours`` (``tunelaunch/<what>/<n>``)."""
    stem = ours.rpartition("/")[0]
    return (
        isinstance(schema, str)
        and schema != ours
        and re.fullmatch(rf"{re.escape(stem)}/[0-9][\w.-]{{0,40}}", schema) is not None
    )


def _rows(items: Iterable[Any], path: str) -> tuple[tuple[Row, ...], tuple[Problem, ...]]:
    rows: dict[Identity, Row] = {}
    bad: list[str] = []
    for number, item in enumerate(items):
        try:
            row = Row.from_json(item)
        except ValueError as error:
            bad.append(f"row {number}: {error}")
            continue
        if row.identity in rows:
            bad.append(f"row {number}: its key and scope occur twice")
        rows.setdefault(row.identity, row)
    problems = [Problem(path, why, "this row is not used, the others are") for why in bad[:MAX_ROW_PROBLEMS]]
    if len(bad) > MAX_ROW_PROBLEMS:
        problems.append(Problem(path, f"{len(bad) - MAX_ROW_PROBLEMS} more rows of this kind", "not used"))
    return tuple(rows.values()), tuple(problems)


def _fault(value: Any, tid: TableId) -> tuple[str, str] | None:
    """Slug and reason if ``value`` is of no use as the table ``tid``."""
    if not isinstance(value, Mapping):
        return "no-object", "holds no JSON object"
    generation, owner = value.get("generation"), (value.get("device"), value.get("environment"))
    fault = None
    if value.get("schema") != SCHEMA:
        fault = "no-schema", f"has no schema {SCHEMA}"
    elif owner != (tid.device, tid.environment):
        # A copied directory: tactic ids mean something else there.
        fault = "misplaced", f"was written for {owner[0]}/{owner[1]}, but lies in {tid}"[:400]
    elif type(generation) is not int or not 0 <= generation <= MAX_GENERATION:
        fault = "bad-generation", "has no usable generation number"
    elif not isinstance(value.get("rows"), list):
        fault = "no-rows", "has no list of rows"
    return fault
