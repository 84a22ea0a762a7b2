"""SGLang's EXTEND pass (0.5.18 and later, off there): on only where it is needed and where memory allows it on every rank.

The decode pass tunes a per-call op up to the decode batch; an EXTEND pass tunes it up to the prefill chunk. Ops whose one
call tunes every bucket (CUTLASS MoE, with the pinned cap) do not need it. Out of memory in it ends a start with more than
one rank, so that it is never switched on blindly: not for multimodal or speculative models, not where the user said
otherwise, and only with twice the estimated memory free on the tightest rank.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from tunelaunch.hosts import sglang as host
from tunelaunch.ranks.agree import attempt
from tunelaunch.ranks.session import Session, log

SAFETY = 2.0
"""Free memory wanted, as a multiple of the estimate."""


def extend_pass(session: Session, original: Callable[..., Any], runner: Any, kwargs: dict[str, Any]) -> Any:
    """SGLang's own ``maybe_flashinfer_autotune_extend``, with its switch set for this call when all ranks agree to it."""
    if host.EXTEND_SWITCH in os.environ or session.aside is not None or session.state != "active":
        return original(runner, **kwargs)
    try:
        why_not = _agreed(session, runner.model_runner)
    except Exception as bug:
        session.bug(bug, "deciding on the EXTEND pass")
        return original(runner, **kwargs)
    if why_not is not None:
        if session.member.leader:
            log.info("tunelaunch: no EXTEND pass: %s", why_not)
        return original(runner, **kwargs)
    os.environ[host.EXTEND_SWITCH] = "1"
    try:
        return original(runner, **kwargs)
    finally:
        os.environ.pop(host.EXTEND_SWITCH, None)


def _agreed(session: Session, model_runner: Any) -> str | None:
    mine, error = attempt(_why_not, session, model_runner)
    said = [message.payload for message in session.member.exchange("extend", mine, error)]
    return next((reason for reason in said if reason is not None), None)


def _why_not(session: Session, model_runner: Any) -> str | None:
    """The first reason against the pass on this rank, or ``None``."""
    tokens = host.extend_tokens(model_runner)
    short = sorted(op for op, largest in session.largest.items() if largest < tokens)
    if not short:
        return "every op was tuned for all its sizes by the decode pass"
    if (reason := host.why_no_extend(model_runner)) is not None:
        return reason
    wanted = SAFETY * tokens * host.activation_bytes_per_token(model_runner)
    free = host.free_bytes(model_runner)
    if free is not None and free < wanted:
        return (
            f"{free / 2**30:.1f} GiB free, {wanted / 2**30:.1f} GiB wanted for {tokens} tokens (for {', '.join(short)})"
        )
    return None
