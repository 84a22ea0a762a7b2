"""A row: one FlashInfer key, FlashInfer's value list for it, and the evidence.

Guarantees: the key is opaque text (never evaluated); the value list is kept as it is; fields of a newer writer survive
a rewrite in ``extra``; :meth:`Row.from_json` raises :class:`ValueError` with a reason, and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .jsontext import MAX_DEPTH, encode, too_deep

MAX_TACTIC_DEPTH = 16
Identity = tuple[str, "str | None"]

_KNOWN = frozenset({"key", "value", "scope", "op", "evidence", "set"})


@dataclass(frozen=True, eq=False)
class Row:
    """One tactic choice.

    ``value`` is ``[runner, tactic]`` or ``[runner, tactic, policy, ...]``; ``tactic`` is an integer (-1: the runner's
    default) or a nested list. ``scope`` is a digest (12 hex) of what the key leaves out, or ``None`` where the key says
    enough. ``set`` is ``{"id", "size", "index"}`` for rows that are usable only as the whole set of one launch.
    Two rows are equal when they are written alike (a tuple and a list of the same items are).
    """

    key: str
    value: tuple[Any, ...] | list[Any]
    scope: str | None = None
    op: str = ""
    evidence: Mapping[str, Any] = field(default_factory=dict)
    set: Mapping[str, Any] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """What makes two rows the same choice: ``(key, scope)``."""
        return (self.key, self.scope)

    @property
    def runner(self) -> str:
        """Class name of the FlashInfer runner."""
        return self.value[0]

    @property
    def tactic(self) -> Any:
        """The tactic as FlashInfer wrote it."""
        return self.value[1]

    @property
    def is_default(self) -> bool:
        """Whether the row says "the runner's default"."""
        return type(self.tactic) is int and self.tactic == -1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return self is other or (self.identity == other.identity and encode(self.to_json()) == encode(other.to_json()))

    def __hash__(self) -> int:
        return hash(self.identity)

    def to_json(self) -> dict[str, Any]:
        """The row as a JSON object; empty optional fields are left out."""
        out: dict[str, Any] = {**self.extra, "key": self.key, "value": list(self.value), "scope": self.scope}
        out |= {"op": self.op} if self.op else {}
        out |= {"evidence": dict(self.evidence)} if self.evidence else {}
        out |= {"set": dict(self.set)} if self.set is not None else {}
        return out

    @classmethod
    def from_json(cls, data: Any) -> Row:
        """The row in ``data``. Raises :class:`ValueError` that says which part is wrong."""
        if not isinstance(data, Mapping):
            raise ValueError(f"a row must be an object, not {_kind(data)}")
        row = cls(
            key=data.get("key"),  # type: ignore[arg-type]  # checked right below
            value=data.get("value"),  # type: ignore[arg-type]
            scope=data.get("scope"),
            op=data.get("op", ""),
            evidence=data.get("evidence", {}),
            set=data.get("set"),
            extra={name: item for name, item in data.items() if name not in _KNOWN},
        )
        row.check()
        return row

    def check(self) -> None:
        """Raise :class:`ValueError` with a reason unless the row is one that FlashInfer could have written."""
        if not isinstance(self.key, str) or not self.key:
            raise ValueError(f"key must be non-empty text, not {_kind(self.key)}")
        if not isinstance(self.value, (list, tuple)):
            raise ValueError(f"value must be a list [runner, tactic, ...], not {_kind(self.value)}")
        if len(self.value) < 2 or not isinstance(self.value[0], str) or not self.value[0]:
            raise ValueError("value must start with a runner name and a tactic")
        _check_tactic(self.value[1])
        if self.scope is not None and (not isinstance(self.scope, str) or not self.scope):
            raise ValueError(f"scope must be text or null, not {_kind(self.scope)}")
        if not isinstance(self.op, str):
            raise ValueError(f"op must be text, not {_kind(self.op)}")
        if not isinstance(self.evidence, Mapping):
            raise ValueError(f"evidence must be an object, not {_kind(self.evidence)}")
        _check_set(self.set)
        if too_deep([self.value, self.evidence, self.extra, self.set], MAX_DEPTH - 4):
            raise ValueError("nested too deeply")


def _check_tactic(tactic: Any) -> None:
    if type(tactic) is int:
        return
    if not isinstance(tactic, (list, tuple)):
        raise ValueError(f"a tactic must be an integer or a nested list, not {_kind(tactic)}")
    level: Sequence[Any] = tactic
    for _ in range(MAX_TACTIC_DEPTH):
        odd = [x for x in level if x is not None and not isinstance(x, (bool, int, float, str, list, tuple))]
        if odd:
            raise ValueError(f"a tactic may hold scalars and lists, not {_kind(odd[0])}")
        if any(isinstance(x, float) and not math.isfinite(x) for x in level):
            raise ValueError("a tactic may not hold NaN or an infinity")
        level = [child for item in level if isinstance(item, (list, tuple)) for child in (item or (None,))]
        if not level:
            return
    raise ValueError(f"a tactic may nest {MAX_TACTIC_DEPTH} lists at most")


def _check_set(value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, Mapping) or not isinstance(value.get("id"), str):
        raise ValueError("set must be an object with a text id")
    if type(value.get("size")) is not int or type(value.get("index")) is not int:
        raise ValueError("set must have an integer size and index")


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "a boolean", int: "a number", float: "a number"}
    return "nothing" if value is None else names.get(type(value), type(value).__name__)
