"""Findings about SGLang and FlashInfer as installed, the plugin, and whether this start tunes anything at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tunelaunch.contract import PLUGIN_NAME
from tunelaunch.doctor.advisories import UNSETTLED, version_key
from tunelaunch.doctor.findings import Finding, Severity
from tunelaunch.doctor.recorded import Library

TESTED = {"SGLang": ((0, 5, 16), (0, 5, 23)), "FlashInfer": ((0, 6, 12), (0, 7, 4))}
"""First and last release of each that the tests run against; only named, support is decided by probing."""

PLUGIN_GROUP = "sglang.srt.plugins"
MIN_CAPABILITY = (9, 0)


def installed_plugins() -> tuple[str, ...]:
    """Names in SGLang's plugin group, as SGLang itself looks for them."""
    from importlib.metadata import entry_points

    return tuple(sorted({point.name for point in entry_points(group=PLUGIN_GROUP)}))


def check_plugins(plugins: Sequence[str], whitelist: str | None) -> Iterator[Finding]:
    """Whether SGLang will load our plugin, and which others; ``whitelist`` is ``SGLANG_PLUGINS``."""
    if PLUGIN_NAME not in plugins:
        yield Finding(
            "plugin.missing",
            Severity.WARNING,
            f"SGLang will not find the plugin: no entry point {PLUGIN_NAME!r} in group {PLUGIN_GROUP!r}",
            "without it a start is plain SGLang: nothing is loaded, tuned or reported",
            "install the package itself: pip install tunelaunch, in SGLang's environment",
        )
    allowed = {name.strip() for name in (whitelist or "").split(",") if name.strip()}
    if allowed and PLUGIN_NAME not in allowed:
        yield Finding(
            "plugin.whitelist",
            Severity.NOTE,
            f"SGLANG_PLUGINS={whitelist} does not list {PLUGIN_NAME}",
            "SGLang loads only what that list names; the launcher adds itself for its own starts, python -m "
            "sglang.launch_server does not",
            f"SGLANG_PLUGINS={whitelist},{PLUGIN_NAME}",
        )
    own = (PLUGIN_NAME, f"{PLUGIN_NAME}-cpu-host")
    others = [name for name in plugins if name not in own and (not allowed or name in allowed)]
    if others:
        yield Finding(
            "plugin.others",
            Severity.NOTE,
            f"other plugins are loaded, too: {', '.join(others)}",
            "where two hook the same function, SGLang runs both, in the order of their registration",
        )


def check_releases(sglang: Library, flashinfer: Library) -> Iterator[Finding]:
    """Whether tunelaunch can work with what is installed."""
    for name, package, library in (
        ("SGLang", "sglang", sglang),
        ("FlashInfer", "flashinfer-python", flashinfer),
    ):
        slug = f"release.{package.partition('-')[0]}"
        first, last = (".".join(map(str, end)) for end in TESTED[name])
        if library.version is None:
            yield Finding(
                slug, Severity.UNKNOWN, f"{name}: version unknown, or not installed here", do=f"pip install {package}"
            )
        elif library.missing:
            yield Finding(
                slug,
                Severity.WARNING,
                f"{name} {library.version} lacks {', '.join(library.missing)}",
                "tunelaunch works through these names; without them every start is plain SGLang",
                f"use a release from {first} to {last}",
            )
        elif library.missing is None:
            yield Finding(slug, Severity.UNKNOWN, f"{name} {library.version}: could not be probed")
        elif not _within(library.version, TESTED[name]):
            yield Finding(
                slug,
                Severity.NOTE,
                f"{name} {library.version} has all names that tunelaunch needs, but is outside {first} to {last}",
                "it is not among the releases that are tested",
            )


def check_tunable(
    arguments: Mapping[str, Any], gate: Mapping[str, Any], capability: tuple[int, int] | None
) -> Iterator[Finding]:
    """Whether SGLang's autotune gate can open for this start: its parser's answer, and what its gate refuses."""
    if capability is not None and capability < MIN_CAPABILITY:
        yield _nothing(
            "capability", f"SM{capability[0]}{capability[1]} is below SM90, where SGLang's autotuning begins"
        )
    if problem := arguments.get("problem"):
        yield Finding(
            "arguments.refused",
            Severity.BLOCKING,
            f"SGLang's parser refuses the arguments: {problem}",
            "the start ends at once",
            "tunelaunch --help-sglang lists SGLang's options",
        )
    raw = arguments.get("raw")
    if not isinstance(raw, Mapping):
        return
    if arguments.get("given") and (lacking := arguments.get("lacking")):
        yield Finding(
            "arguments.incomplete",
            Severity.NOTE,
            f"SGLang requires {', '.join(lacking)}, which is not among the arguments",
            "the others are judged all the same; a start with these would end at once",
        )
    if str(raw.get("device") or "cuda").partition(":")[0] != "cuda":
        yield _nothing("device", f"--device {raw['device']}: SGLang tunes on CUDA devices only")
    if raw.get("disable_flashinfer_autotune"):
        yield _nothing("disabled", "--disable-flashinfer-autotune is set", "leave it out")
    if raw.get("enable_deterministic_inference"):
        if gate.get("refuses_deterministic"):
            yield _nothing("deterministic", "--enable-deterministic-inference: this SGLang does not tune then")
        elif gate:
            yield Finding(
                "tunable.deterministic",
                Severity.WARNING,
                "--enable-deterministic-inference: this SGLang tunes all the same",
                "the tactic, and with it the order of additions, can depend on the size of the batch",
                "--disable-flashinfer-autotune, or SGLang 0.5.18 or later",
            )
    yield from _backend(raw, gate)


def _backend(raw: Mapping[str, Any], gate: Mapping[str, Any]) -> Iterator[Finding]:
    backend, tuned = raw.get("moe_runner_backend"), gate.get("moe_backends")
    if backend in UNSETTLED:
        yield Finding(
            "tunable.backend",
            Severity.UNKNOWN,
            "which MoE backend SGLang will use: --moe-runner-backend is auto",
            "SGLang decides when it has the device and the model's configuration; it is not guessed here. The log and "
            "`tunelaunch report` of the start say what it was",
        )
    elif isinstance(tuned, list) and backend not in tuned:
        flashinfer = [name for name in tuned if name == "flashinfer_cutlass"] or tuned
        yield Finding(
            "tunable.backend",
            Severity.NOTE,
            f"MoE has nothing to tune: --moe-runner-backend {backend} is none of FlashInfer's",
            "FP4 and FP8 linear layers can still be, if the checkpoint has them: known once the model is read",
            f"to tune MoE: --moe-runner-backend {flashinfer[0]}, where the quantization allows it",
        )


def _nothing(slug: str, what: str, do: str = "") -> Finding:
    return Finding(
        f"tunable.{slug}", Severity.NOTE, f"nothing to tune: {what}", "the start is plain SGLang, with one line", do
    )


def _within(version: str, ends: tuple[tuple[int, ...], tuple[int, ...]]) -> bool:
    key = version_key(version)
    return key is not None and ends[0] <= key[:3] <= ends[1]
