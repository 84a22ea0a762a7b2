"""What a pass is judged by, and what follows from a verdict against a tactic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tunelaunch.contract import error_limits
from tunelaunch.hosts import sglang as host
from tunelaunch.hosts.layers import Layer
from tunelaunch.ranks.cases import EFFORTS
from tunelaunch.ranks.outcome import Outcome, Rules
from tunelaunch.ranks.session import Given, Session


def rules_of(session: Session, given: Given) -> Rules:
    """What is judged, and how strictly. Rows of an unproven environment or without evidence are looked at every time."""
    contract, identity = session.contract, session.identify()
    every = contract.verify == "all" or identity.environment.unproven
    recheck = frozenset(
        (row.op, row.scope, row.key)
        for row in given.rows
        if contract.verify != "off" and (every or row.evidence.get("unverified"))
    )
    return Rules(
        effort=EFFORTS.get(contract.effort, EFFORTS["normal"]),
        min_gain_percent=contract.min_gain_percent,
        verify=contract.verify != "off",
        incumbents={(row.op, row.scope, row.key): row for row in given.incumbents},
        hidden=given.hidden,
        recheck=recheck,
        limits=error_limits(contract.max_error),
    )


def conditions(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The card's state around the trials, as evidence carries it; nothing where none could be read."""
    return {"conditions": {"before": before, "after": after}} if before or after else {}


def triable_layers(layers: Mapping[str, Layer], session: Session, model_runner: Any) -> dict[str, str | None]:
    """For each layer that called a tuned op, ``None`` when it can be run again here, or the reason why not."""
    return {name: why_not_triable(layer, session, model_runner) for name, layer in layers.items()}


def why_not_triable(layer: Any, session: Session, model_runner: Any) -> str | None:
    """``None`` when one rank alone can run ``layer`` again without side effects."""
    if host.is_moe_layer(layer.module):
        alone = session.member.world == 1 or not (
            host.uses_all_to_all(model_runner) or getattr(layer.module, "reduce_results", False)
        )
        return None if alone else "its layer talks to other ranks"
    if host.is_linear_layer(layer.module):
        return None if session.member.world == 1 else "its layer may talk to other ranks"
    return f"{type(layer.module).__name__} is not a layer that can be run again"


def quarantine(outcome: Outcome, session: Session) -> list[dict[str, Any]]:
    """Entries for the tactics that computed wrong numbers, each said once."""
    stamp = session.stamp()
    entries = []
    for failure in outcome.failures:
        for row in failure["rows"]:
            entries.append(
                {
                    **row,
                    "why": "wrong numbers in verification",
                    "seen": f"{failure['seen']} at {failure['tokens']} tokens",
                    "at": stamp["at"],
                    "launch": stamp["launch"],
                    "expires": None,
                }
            )
    said: dict[str, list[str]] = {}
    for entry in entries:
        said.setdefault(f"{entry['op']} tactic {entry['tactic']}", []).append(entry["seen"])
    for name, seen in said.items():
        more = f" (and at {len(seen) - 1} more sizes)" if len(seen) > 1 else ""
        session.fall_back(f"{name} is quarantined: {seen[0]}{more}; the next best is used")
    return entries
