"""``environment.json``: what the tactic ids of a table depend on, readable. Recorded for people; never decisive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .files import atomic_write, read, set_aside
from .identity import TableId
from .jsontext import encode
from .layout import Layout
from .table import is_foreign

SCHEMA = "tunelaunch/environment/1"


def keep(layout: Layout, tid: TableId, fields: Mapping[str, Any], *, absent_only: bool = False) -> None:
    """Write ``fields`` unless they are there; with ``absent_only`` only where there are none. Raises :class:`OSError`.

    A damaged file is set aside; one of a newer schema is left alone.
    """
    path = layout.table(tid).environment
    there = read(path, layout.root)
    if there.damage:
        set_aside(path, there.damage, there.inode)
    elif there.raw is not None:
        schema = there.value.get("schema") if isinstance(there.value, dict) else None
        # A table that did not change keeps its facts; a newer writer's file is not ours to rewrite.
        if (absent_only and schema == SCHEMA) or is_foreign(schema, SCHEMA):
            return
    data = encode({"schema": SCHEMA, "device": tid.device, "environment": tid.environment, "fields": fields})
    if data != there.raw:
        atomic_write(path, data)


def fields_of(layout: Layout, tid: TableId) -> Mapping[str, Any] | None:
    """The fields, or ``None`` where the file is missing or of no use."""
    value = read(layout.table(tid).environment, layout.root).value
    fields = value.get("fields") if isinstance(value, Mapping) else None
    return fields if isinstance(fields, Mapping) else None
