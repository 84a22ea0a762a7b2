"""What a watched tuning pass found, as data: the wanted rows, their states and their timings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tunelaunch.hosts import flashinfer as fi
from tunelaunch.hosts.layers import Layer
from tunelaunch.hosts.watch import Watch
from tunelaunch.ranks.cases import Found

_KEPT_TIMINGS = 8
"""Near-best tactics of a profile that travel on: more than any effort tries."""


def harvest(watch: Watch, layers: Mapping[str, Layer], directory: Path) -> list[Found]:
    """Every row that the pass wanted, once. FlashInfer saves its file to ``directory``, from which the values are taken."""
    saved = fi.save(directory / "harvest.json")
    found: dict[tuple[str, str | None, str], Found] = {}
    for call in watch.calls.values():
        layer = layers.get(call.owner) if call.owner is not None else None
        for profile in call.profiles:
            stage = (call.op, call.scope, profile.key)
            if stage in found:
                continue
            chosen = call.chosen.get(profile.key)
            state = "failed" if chosen is None else "loaded" if profile.key in call.hit_before else "tuned"
            ranked = sorted(watch.timings.get(stage, ()), key=lambda item: item[2])
            found[stage] = Found(
                op=call.op,
                scope=call.scope,
                key=profile.key,
                tokens=profile.tokens,
                owner=call.owner,
                state=state,
                value=_value(saved.get(profile.key), chosen),
                timings=tuple(ranked[:_KEPT_TIMINGS]),
                failed=watch.failed.get(stage, 0),
                carries_ranks=call.carries_ranks,
                asked_tokens=layer.tokens if layer is not None else 0,
            )
    return list(found.values())


def _value(saved: list[Any] | None, chosen: tuple[str, Any] | None) -> tuple[Any, ...]:
    """FlashInfer's own value list where it is of this row (a scope of the same key may have overwritten it)."""
    if chosen is None:
        return ()
    if saved is not None and (saved[0], saved[1]) == chosen:
        return tuple(saved)
    return chosen
