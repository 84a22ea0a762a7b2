"""Findings about the directories that a start writes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tunelaunch.doctor.findings import Finding, Severity
from tunelaunch.doctor.places import OURS, PlaceState

_CONSEQUENCE = {
    OURS: "tables are kept in the runtime directory instead, or not at all: the next start may tune again",
    "SGLang": "SGLang compiles its own kernels at every start, or fails",
    "FlashInfer": "FlashInfer makes this directory when it is imported: the start fails",
    "Triton": "Triton cannot keep what it compiles: the start fails at the first kernel",
    "torch.compile": "a start with --enable-torch-compile fails",
    "CUDA": "kernels that are compiled for this card by the driver are compiled at every start",
}
_FATAL = ("FlashInfer", "Triton")


def check_places(states: Sequence[PlaceState]) -> Iterator[Finding]:
    """What is wrong with each place, and the mount or the variable that mends it."""
    for state in states:
        yield from _place(state)


def _place(state: PlaceState) -> Iterator[Finding]:
    place, mount = state.place, state.mount
    what = f"{place.owner}'s cache {place.path}"
    slug = place.variable.lower().replace("_", "-")
    if state.problem is not None:
        yield Finding(
            f"place.{slug}.unwritable",
            Severity.BLOCKING if place.owner in _FATAL else Severity.WARNING,
            f"{what} cannot be written ({state.problem})",
            _CONSEQUENCE[place.owner],
            _mend(state),
        )
        return
    if state.free_mib is not None and state.free_mib < place.needs_mib:
        yield Finding(
            f"place.{slug}.full",
            Severity.WARNING,
            f"{what}: {state.free_mib} MiB free, a first start can need {place.needs_mib} MiB",
            _CONSEQUENCE[place.owner],
            f"make room, or {_mend(state)}",
        )
    if mount is None:
        return
    if mount.kind == "network" and place.owner != OURS:
        yield Finding(
            f"place.{slug}.network",
            Severity.WARNING,
            f"{what} is on a network file system ({mount.type} at {mount.point})",
            "compilers take locks and read many small files there: starts of several hosts wait for each other",
            _mend(state, local=True),
        )
    elif mount.kind == "network":
        yield Finding(
            f"place.{slug}.network",
            Severity.NOTE,
            f"{what} is on a network file system ({mount.type} at {mount.point})",
            "fine for tables: where locks do not work, rows are merged by comparing and retrying",
        )
    elif mount.kind in ("container", "memory"):
        gone = "the container" if mount.kind == "container" else "a reboot, or with the container"
        yield Finding(
            f"place.{slug}.fleeting",
            Severity.NOTE,
            f"{what} is {'in the layer of this container' if mount.kind == 'container' else 'in memory'} ({mount.type})",
            f"it is gone with {gone}: what was tuned or compiled is done again",
            _mend(state),
        )


def _mend(state: PlaceState, local: bool = False) -> str:
    place = state.place
    # FlashInfer's variable names the directory above the one that is used.
    target = place.path.parents[1] if place.variable == "FLASHINFER_WORKSPACE_BASE" else place.path
    kind = "a local disk" if local else "a volume"
    return f"mount {kind} (docker run -v /HOST/DIR:{place.path}), or set {place.variable} (now {target}) to one"
