"""The scope of a row: what its key leaves out, read from the runner that made it.

On FlashInfer up to 0.6.17 the key of a CUTLASS MoE row is op, class and shapes; bf16 and FP8 weights of one shape share
it, and so do two values of top-k. A tactic is an index into a table that depends on all of these, so a row of one scope
given to another is a wrong kernel, not a slow one. The scope is a digest of the runner's own settings and of the dtypes
of its inputs, hence exact: no list of model options has to be kept in step with the host. Ranks never enter it.
"""

from __future__ import annotations

import enum
import hashlib
import json
from typing import Any

_SCALARS = (bool, int, float, str, type(None))
_NEVER = frozenset({"gemm_idx_for_tuning"})  # which stage is being tuned; the op says so already
_CLOSURE_METHODS = ("forward", "get_valid_tactics", "__init__")


def scope_fields(runner: Any, inputs: Any) -> dict[str, Any]:
    """Settings of ``runner`` and dtypes of ``inputs`` in plain JSON; attributes that are objects are left out."""
    own = {name: _plain(value) for name, value in sorted(vars(runner).items()) if _counts(name)}
    fields = {"class": type(runner).__qualname__, "settings": {k: v for k, v in own.items() if v is not _OPAQUE}}
    fields["dtypes"] = [str(getattr(item, "dtype", type(item).__name__)) for item in inputs]
    fields["closure"] = _closure(type(runner))
    return fields


def scope_digest(fields: Any) -> str:
    """12 hex digits of the canonical JSON of ``fields``."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class _Opaque:
    """Marks a value that has no meaning outside its process."""


_OPAQUE = _Opaque()


def _counts(name: str) -> bool:
    return not (name.endswith(("_rank", "_cache")) or name.startswith("_") or name in _NEVER)


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, _SCALARS):
        return value
    if isinstance(value, (tuple, list)):
        items = [_plain(item) for item in value]
        return _OPAQUE if any(item is _OPAQUE for item in items) else items
    return str(value) if type(value).__module__ == "torch" and type(value).__name__ == "dtype" else _OPAQUE


def _closure(cls: type) -> dict[str, Any]:
    """Simple values that a runner class made inside a function took from it (a layout flag, an output dtype)."""
    found: dict[str, Any] = {}
    for method in _CLOSURE_METHODS:
        function = cls.__dict__.get(method)
        for name, cell in zip(
            getattr(getattr(function, "__code__", None), "co_freevars", ()),
            getattr(function, "__closure__", None) or (),
            strict=False,
        ):
            try:
                value = _plain(cell.cell_contents)
            except ValueError:  # a cell that is not filled yet
                continue
            if value is not _OPAQUE:
                found[name] = value
    return dict(sorted(found.items()))
