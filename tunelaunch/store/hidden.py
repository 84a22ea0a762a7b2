"""Which tactics a quarantine hides. An entry names one row's key, or every row of an op (``<op>@*``) for a tactic that kills.

A tactic is compared as text, because it can be a nested list.
"""

from __future__ import annotations

from typing import Any

Hidden = frozenset[tuple[str, "str | None", str, str]]
"""(key or ``<op>@*``, scope, runner, tactic as text)."""


def every_row_of(op: str) -> str:
    """The key that stands for all rows of ``op``."""
    return f"{op}@*"


def hides(hidden: Hidden, op: str, key: str, scope: str | None, runner: str, tactic: Any) -> bool:
    """Whether ``hidden`` forbids ``tactic`` of ``runner`` for this row."""
    text = repr(tactic)
    return (key, scope, runner, text) in hidden or (every_row_of(op), scope, runner, text) in hidden
