"""Faults on purpose: make one function of this process raise, wait, kill its process, or answer otherwise.

A target is ``module:attribute.path``. A target that no longer exists fails the scenario, so that a renamed function does
not turn its test into one that cannot fail.
"""

from __future__ import annotations

import functools
import importlib
import os
import signal
import time
from typing import Any


class PlantedError(RuntimeError):
    """What a planted fault raises."""


def plant(fault: dict[str, Any]) -> None:
    """Apply ``{"at": target, "how": "raise" | "kill" | "wait" | "set", "nth": 1, "value": ...}`` to this process.

    ``raise`` and ``kill`` act from the ``nth`` call on; ``wait`` waits ``value`` seconds before the first call only.
    """
    owner, name = _resolve(fault["at"])
    if fault["how"] == "set":
        setattr(owner, name, fault["value"])
        return
    original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    count = 0

    @functools.wraps(original)
    def spoiled(*args: Any, **kwargs: Any) -> Any:
        nonlocal count
        count += 1
        if fault["how"] == "wait" and count == 1:
            time.sleep(fault["value"])
        elif fault["how"] == "raise" and count >= fault.get("nth", 1):
            raise PlantedError(f"planted in {fault['at']}")
        elif fault["how"] == "kill" and count >= fault.get("nth", 1):
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(owner, name, spoiled)


def change_metadata(fields: dict[str, str]) -> None:
    """Make FlashInfer stamp other library versions in this process, as on a host where they are installed."""
    import sys

    from flashinfer.autotuner import AutoTuner

    module = sys.modules[AutoTuner.__module__]
    original = module._collect_metadata
    changed = functools.wraps(original)(lambda *args, **kwargs: {**original(*args, **kwargs), **fields})
    module._collect_metadata = changed
    public = importlib.import_module("flashinfer.autotuner")
    public._collect_metadata = changed


def _resolve(target: str) -> tuple[Any, str]:
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    if not hasattr(owner, name):
        raise LookupError(f"nothing to spoil at {target}")
    return owner, name
