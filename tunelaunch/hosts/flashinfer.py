"""FlashInfer's autotuner, as tunelaunch uses it: one adapter for FlashInfer 0.6.12 to 0.7.4.

Tactics go in and come out through FlashInfer's own files (``load_configs`` and ``save_configs``). Private names are read
here and nowhere else; :func:`probe` says, before anything is hooked, which of them a release lacks. Nothing is imported
from FlashInfer until a function is called.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tunelaunch.errors import HostError

METADATA_KEY = "_metadata"
FORCED_DEFAULT = -1
_RANK_ATTRIBUTES = ("tp_rank", "ep_rank", "cluster_rank")
_IMPROBABLE_RANK = 987_654_321
_LARGEST_POWER = 20  # 2**20 tokens in one forward pass is beyond any chunk or gathered batch


@dataclass(frozen=True)
class Profile:
    """One bucketed set of input shapes of an op.

    ``tokens`` is the bucket of the op's dynamic dimension, or ``None`` where the op has none or several.
    """

    key: str
    tokens: int | None
    shapes: tuple[tuple[int, ...], ...]


def _module() -> Any:
    """The module that defines ``AutoTuner`` (a package from 0.6.16 on, a plain module before)."""
    try:
        import flashinfer.autotuner as public
    except ImportError as error:
        raise HostError(f"FlashInfer is not importable ({error}); starting as plain SGLang.") from error
    inner = getattr(public, "autotuner", None)
    return inner if hasattr(inner, "AutoTuner") else public


def tuner_class() -> Any:
    """FlashInfer's ``AutoTuner`` class."""
    return _module().AutoTuner


def tuner() -> Any:
    """The process-wide ``AutoTuner``."""
    return tuner_class().get()


def probe() -> list[str]:
    """Names that this release lacks and that tunelaunch needs; empty when it can be used."""
    module = _module()
    wanted = {
        module: ("AutoTuner", "TunableRunner", "autotune", "_collect_metadata"),
        getattr(module, "AutoTuner", None): (
            "get",
            "choose_one",
            "search_cache",
            "load_configs",
            "save_configs",
            "clear_cache",
            "_profile_single_kernel",
            "_generate_optimization_profiles",
            "_get_cache_key",
        ),
    }
    missing = [name for owner, names in wanted.items() for name in names if not hasattr(owner, name)]
    if "AutoTuner" not in missing and not hasattr(tuner(), "_file_configs"):
        missing.append("AutoTuner._file_configs")
    return missing


def version() -> str:
    """FlashInfer's version string, for reports."""
    import flashinfer

    return str(getattr(flashinfer, "__version__", "unknown"))


def metadata() -> dict[str, str]:
    """FlashInfer's own environment fields, as it would stamp a file now (values can change until CUDA is initialised)."""
    return {str(k): str(v) for k, v in _module()._collect_metadata().items()}


def plain(tactic: Any) -> Any:
    """A tactic as JSON has it: integers, booleans and nested lists."""
    if isinstance(tactic, (bool, str, float)) or tactic is None:
        return tactic
    if hasattr(tactic, "__iter__"):
        return [plain(item) for item in tactic]
    return int(tactic)


def native(tactic: Any) -> Any:
    """A tactic as a runner takes it: integers and nested tuples."""
    return tuple(native(item) for item in tactic) if isinstance(tactic, list) else tactic


# -- files ---------------------------------------------------------------------------------------------------------------


def file_text(rows: Mapping[str, Sequence[Any]], environment: Mapping[str, str]) -> str:
    """``rows`` (file key to value list) as a FlashInfer v1 file of ``environment``; equal rows give equal bytes."""
    body: dict[str, Any] = {METADATA_KEY: dict(sorted(environment.items()))}
    body |= {key: list(rows[key]) for key in sorted(rows)}
    return json.dumps(body, indent=1) + "\n"


def load(path: Path) -> bool:
    """Load a v1 file into the process; ``False`` when FlashInfer refuses it for another environment."""
    return tuner().load_configs(str(path)) is not False


def save(path: Path) -> dict[str, list[Any]]:
    """Save every row that FlashInfer holds to ``path`` and return them by file key."""
    tuner().save_configs(str(path))
    rows = json.loads(path.read_text(encoding="utf-8"))
    return {k: v for k, v in rows.items() if isinstance(v, list) and len(v) >= 2 and not k.startswith("_")}


def replace_all(path: Path) -> bool:
    """Forget what was tuned or loaded and load ``path``: the only way to install rows over live winners."""
    tuner().clear_cache()
    return load(path)


def forget() -> None:
    """Forget every row, tuned or loaded: all ops run at default."""
    tuner().clear_cache()


def evict(keys: Iterable[str]) -> None:
    """Forget loaded (not live) rows, so that another scope's rows can take their keys."""
    instance = tuner()
    with instance._lock:
        for key in keys:
            instance._file_configs.pop(key, None)


# -- keys ----------------------------------------------------------------------------------------------------------------


def file_key(op: str, runner: Any, shapes: Any, config: Any, inputs: Any) -> str:
    """The string under which FlashInfer stores a row of ``op``."""
    key = tuner_class()._get_cache_key(op, runner, shapes, config, runner.get_cache_key_extras(inputs))
    if hasattr(key, "file_key"):
        return str(key.file_key)
    return str((key[0], key[1], key[3], key[4]))


def profiles(op: str, runners: Sequence[Any], config: Any, inputs: Any) -> list[Profile]:
    """Every profile that FlashInfer would tune for this call, in its order, keyed for the first runner."""
    specs = config.dynamic_tensor_specs
    found = []
    for candidate in tuner()._generate_optimization_profiles(config, inputs):
        shapes = candidate.get_opt_shapes()
        tokens = shapes[specs[0].input_idx[0]][specs[0].dim_idx[0]] if len(specs) == 1 else None
        found.append(Profile(file_key(op, runners[0], shapes, config, inputs), tokens, shapes))
    return found


def lookup(op: str, runners: Sequence[Any], profile: Profile, config: Any, inputs: Any) -> tuple[str, Any] | None:
    """What FlashInfer would use for ``profile`` now: (runner name, tactic as JSON), or ``None`` for a miss."""
    hit, runner_id, tactic, _ = tuner().search_cache(op, runners, profile.shapes, config, inputs=inputs)
    return (type(runners[runner_id]).__name__, plain(tactic)) if hit else None


def shapes_of(inputs: Any) -> Any:
    """The shapes of a call's inputs as FlashInfer sees them."""
    return tuple(tuple(size) for size in tuner()._get_input_sizes(inputs))


def key_is_weak(runner: Any) -> bool:
    """Whether a row's key says nothing beyond shapes, so that other dtypes share it (CUTLASS MoE before 0.6.18)."""
    own = getattr(type(runner), "get_cache_key_extras", None)
    return own is None or own is _module().TunableRunner.get_cache_key_extras


def key_carries_ranks(runner: Any, inputs: Any) -> bool:
    """Whether equal calls on two ranks get different keys (FlashInfer 0.6.18 to 0.7.1); asked by changing the rank."""
    ranks = [name for name in _RANK_ATTRIBUTES if isinstance(getattr(runner, name, None), int)]
    if not ranks or key_is_weak(runner):
        return False
    twin = copy.copy(runner)
    for name in ranks:
        setattr(twin, name, _IMPROBABLE_RANK)
    return bool(twin.get_cache_key_extras(inputs) != runner.get_cache_key_extras(inputs))


# -- the sticky bucket -----------------------------------------------------------------------------------------------------


def pin_buckets(runner: Any, cap: int) -> Any | None:
    """Make ``cap`` tokens the largest bucket of ``runner``'s op for the rest of the process.

    ``MoERunner.refine_tuning_config`` is cached and sets class state, so the last *new* value caps every later lookup,
    serving included. Each value that a call can pass is therefore used up here, ``cap`` last; later calls are cached
    and change nothing. Returns the pinned tuning config, or ``None`` where the runner has no such state.
    """
    cls = type(runner)
    refine = getattr(cls, "refine_tuning_config", None)
    if refine is None or not hasattr(cls, "tuning_config"):
        return None
    current = largest_bucket(cls.tuning_config)
    if current is None:
        return None
    cached: Any = getattr(refine, "__func__", refine)
    if hasattr(cached, "cache_clear"):
        cached.cache_clear()
    for value in {current, *(1 << power for power in range(_LARGEST_POWER + 1))} - {cap}:
        refine(value)
    refine(cap)
    if largest_bucket(cls.tuning_config) != cap:
        raise HostError(f"{cls.__name__}.refine_tuning_config did not keep {cap} tokens as its largest bucket.")
    return cls.tuning_config


def unpin_buckets(runner: Any, config: Any) -> None:
    """Undo :func:`pin_buckets`: ``config``, the one that the host passed, decides again."""
    refine, largest = getattr(type(runner), "refine_tuning_config", None), largest_bucket(config)
    cached: Any = getattr(refine, "__func__", refine)
    if refine is not None and largest is not None and hasattr(cached, "cache_clear"):
        cached.cache_clear()
        refine(largest)


def largest_bucket(config: Any) -> int | None:
    """The bucket to which a tuning config maps any very large number of tokens."""
    specs = config.dynamic_tensor_specs
    return int(specs[0].map_to_tuning_buckets(1 << 30)) if len(specs) == 1 else None
