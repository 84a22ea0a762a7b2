"""One table as it travels: device, environment, rows and quarantine, checked against itself.

Guarantees: device and environment id are computed again from the fields, so a document cannot claim to be of another
environment; a document with one malformed row is refused whole (no export writes such a thing); equal content gives
equal bytes. :func:`parse` raises :class:`ShareError` with a reason and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tunelaunch.device.environment import Environment
from tunelaunch.device.facts import DeviceFacts, parse_capability
from tunelaunch.errors import ShareError
from tunelaunch.share.strictjson import decode
from tunelaunch.store import Row, TableId
from tunelaunch.store.jsontext import encode
from tunelaunch.store.table import is_foreign

SCHEMA = "tunelaunch/share/1"
MAX_ROWS = 200_000
MAX_QUARANTINE = 10_000
MAX_TEXT = 20_000
"""Characters of a key or a field; the longest keys that FlashInfer writes have a few hundred."""
MAX_RANKS = 65_536
_KNOWN = frozenset({"schema", "device", "environment", "fields", "rows", "quarantine", "provenance"})


@dataclass(frozen=True)
class SharedTable:
    """Rows of one device and environment on their way. ``provenance`` is recorded only (generation, launch, time)."""

    tid: TableId
    fields: Mapping[str, Any]
    rows: tuple[Row, ...]
    quarantine: tuple[Mapping[str, Any], ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def environment(self) -> Environment:
        """The environment that the rows were made in."""
        return Environment.from_json({"fields": self.fields})

    def to_bytes(self) -> bytes:
        """The canonical document."""
        rows = sorted(self.rows, key=lambda row: (row.op, row.key, row.scope or ""))
        return encode(
            {
                "schema": SCHEMA,
                "device": self.tid.device,
                "environment": self.tid.environment,
                "fields": self.fields,
                "rows": [row.to_json() for row in rows],
                "quarantine": sorted((dict(entry) for entry in self.quarantine), key=encode),
                "provenance": self.provenance,
            }
        )


def parse(raw: bytes, what: str) -> SharedTable:
    """The table in ``raw``; ``what`` names it in a refusal."""
    value = decode(raw, what)
    if not isinstance(value, Mapping):
        raise ShareError(f"{what} holds no JSON object")
    check_schema(value.get("schema"), SCHEMA, what)
    if odd := sorted(set(value) - _KNOWN):
        raise ShareError(f"{what} has an unknown part {odd[0][:40]!r}")
    fields, rows, quarantine = value.get("fields"), value.get("rows"), value.get("quarantine")
    provenance = value.get("provenance")
    if not isinstance(fields, Mapping) or not isinstance(provenance, Mapping):
        raise ShareError(f"{what} has no environment fields, or no provenance")
    tid = identity(fields, what)
    if (claimed := (value.get("device"), value.get("environment"))) != (tid.device, tid.environment):
        raise ShareError(
            f"{what} claims to be of {str(claimed[0])[:120]}/{str(claimed[1])[:40]}, but its fields are those of {tid}"
        )
    return SharedTable(tid, dict(fields), _rows(rows, what), _quarantine(quarantine, what), dict(provenance))


def identity(fields: Mapping[str, Any], what: str) -> TableId:
    """The table that rows of the environment ``fields`` belong to. Raises :class:`ShareError` for odd fields."""
    for label, value in fields.items():
        plain = value is None or isinstance(value, str) or type(value) is int
        if not plain or len(label) > MAX_TEXT or len(str(value)) > MAX_TEXT:
            raise ShareError(f"{what}: environment field {label[:60]!r} is no text, integer or null of ordinary size")
    name, count, mig = fields.get("gpu_name"), fields.get("sm_count"), fields.get("mig_profile")
    if not isinstance(name, str) or name.strip().lower() in {"", "unknown", "none"}:
        raise ShareError(f"{what}: its environment does not name the GPU")
    try:
        facts = DeviceFacts(
            name,
            capability=parse_capability(fields.get("compute_capability")),
            sm_count=count if type(count) is int and count >= 0 else None,
            mig_profile=mig if isinstance(mig, str) and mig else None,
        )
        return TableId(facts.slug, Environment.from_json({"fields": fields}).id)
    except (ValueError, UnicodeError) as error:
        raise ShareError(f"{what}: {error}") from None


def check_schema(schema: Any, ours: str, what: str) -> None:
    """Raise :class:`ShareError` unless ``schema`` is ``ours``; one of another version is named as such."""
    if is_foreign(schema, ours):
        raise ShareError(f"{what} has schema {schema}, this version reads {ours}; update tunelaunch")
    if schema != ours:
        raise ShareError(f"{what} has no schema {ours}")


def _rows(items: Any, what: str) -> tuple[Row, ...]:
    if not isinstance(items, list) or len(items) > MAX_ROWS:
        raise ShareError(f"{what} has no list of at most {MAX_ROWS} rows")
    rows: dict[tuple[str, str | None], Row] = {}
    for number, item in enumerate(items):
        try:
            row = Row.from_json(item)
        except ValueError as error:
            raise ShareError(f"{what}, row {number}: {error}") from None
        if len(row.key) > MAX_TEXT or len(row.op) > MAX_TEXT or len(row.scope or "") > MAX_TEXT:
            raise ShareError(f"{what}, row {number}: its key is longer than {MAX_TEXT} characters")
        if row.set is not None and not 0 <= row.set["index"] < row.set["size"] <= MAX_RANKS:
            raise ShareError(f"{what}, row {number}: it is of no set of 1 to {MAX_RANKS} ranks")
        if row.identity in rows:
            raise ShareError(f"{what}, row {number}: its key and scope occur twice")
        rows[row.identity] = row
    return tuple(rows.values())


def _quarantine(items: Any, what: str) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(items, list) or len(items) > MAX_QUARANTINE:
        raise ShareError(f"{what} has no list of at most {MAX_QUARANTINE} quarantined tactics")
    for item in items:
        if not isinstance(item, Mapping) or not isinstance(item.get("key"), str) or len(item["key"]) > MAX_TEXT:
            raise ShareError(f"{what}: a quarantined tactic has no key")
        if any(not isinstance(item.get(name), (str, type(None))) for name in ("scope", "runner")):
            raise ShareError(f"{what}: scope or runner of a quarantined tactic is no text")
    return tuple(items)
