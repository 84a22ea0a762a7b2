"""From own options and SGLang's arguments to SGLang, in this same process.

:func:`plan_launch` decides (it reads, and changes nothing), :func:`execute` creates the run directory and becomes
``python -m sglang.launch_server``: PID, stdin, signals and exit code are SGLang's. Guarantee: no fault of tunelaunch
stops a start that SGLang alone would make; each is said in one line, or refused with ``--tunelaunch-strict``.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tunelaunch import __version__, contract, options, rundir
from tunelaunch.contract import Contract
from tunelaunch.errors import TunelaunchError
from tunelaunch.options import Own
from tunelaunch.rundir import overlay_dir

if TYPE_CHECKING:
    from tunelaunch.device.nvml import NvmlReading

__all__ = ["LaunchPlan", "Own", "cache_root", "execute", "launch", "overlay_dir", "plan_launch"]

NVML_BOUND_S = 1.0
"""Seconds after which the start goes on without NVML's answer; it is wanted for one line only."""

PLUGIN_GROUP = "sglang.srt.plugins"
_FALSE_FOR_SGLANG = frozenset({"false", "0", "no", "n"})


@dataclass(frozen=True)
class LaunchPlan:
    """One start, decided. ``environ`` maps a variable to its new value, or to ``None`` to remove it."""

    argv: tuple[str, ...]
    environ: Mapping[str, str | None] = field(default_factory=dict)
    run_dir: Path | None = None
    """``None``: plain SGLang, nothing of ours takes part."""
    launch: str | None = None
    notes: tuple[str, ...] = ()
    strict: bool = False


def launch(own: Own, sglang_args: Sequence[str]) -> NoReturn:
    """Become SGLang with ``sglang_args``; raises :class:`TunelaunchError` only when strict or when it cannot start."""
    if not _sglang_installed():
        raise TunelaunchError(
            f"SGLang is not installed in {sys.prefix}, so there is nothing to launch; "
            "run: pip install 'sglang>=0.5.16', in the environment of tunelaunch"
        )
    try:
        plan = plan_launch(own, sglang_args, os.environ)
    except TunelaunchError:
        raise  # refused on purpose: strict
    except Exception as why:
        if own.strict or contract.is_true(os.environ.get(contract.STRICT)):
            raise
        plan = _plain(sglang_args, f"starting plain SGLang: {type(why).__name__} while preparing ({why})")
    execute(plan)


def plan_launch(
    own: Own,
    sglang_args: Sequence[str],
    environ: Mapping[str, str],
    now: datetime | None = None,
    *,
    pid: int | None = None,
    read_nvml: Callable[[], NvmlReading] | None = None,
    plugin_visible: Callable[[], bool] | None = None,
) -> LaunchPlan:
    """What to start, with which variables, and what to say; raises :class:`TunelaunchError` when strict and at fault.

    ``now``, ``pid``, ``read_nvml`` and ``plugin_visible`` default to this process's and this host's.
    """
    own, ignored = options.fill(own, environ)
    if contract.is_true(environ.get(contract.DISABLE)):
        return _plain(sglang_args, f"starting plain SGLang: {contract.DISABLE} is set")
    if own.mode == "off":
        return _plain(sglang_args, "starting plain SGLang: mode is off")
    try:
        root = cache_root(own.cache, environ)
        _check_root(root)
        parent = rundir.private_parent(environ)
    except (OSError, TunelaunchError) as why:
        if own.strict:
            raise TunelaunchError(f"{why}; not started because of --tunelaunch-strict") from why
        return _plain(sglang_args, f"starting plain SGLang: {why}")

    launch_id = rundir.new_launch_id(now or datetime.now(timezone.utc), os.getpid() if pid is None else pid)
    reading = (read_nvml or _read_nvml)()
    notes = [f"{_device_words(reading, environ)}, table root {root}, launch {launch_id}"]
    faults = list(ignored)
    if reading.broken:
        faults.append(f"NVML: {reading.problem}")
    faults += _wrong_backend(reading, environ, sglang_args)
    if not (plugin_visible or _plugin_visible)():
        faults.append(
            f"SGLang will not find the plugin: no entry point {contract.PLUGIN_NAME!r} in group {PLUGIN_GROUP!r}; "
            "install the package itself (pip install tunelaunch, or pip install . in its sources)"
        )
    if faults and own.strict:
        raise TunelaunchError("; ".join(faults) + "; not started because of --tunelaunch-strict")

    run_dir = parent / launch_id
    changes: dict[str, str | None] = dict.fromkeys(options.VARIABLES)
    changes |= _contract(own, launch_id, run_dir, root).to_environ()
    host_changes, host_notes = _host_variables(environ)
    return LaunchPlan(
        argv=_argv(sglang_args),
        environ=changes | host_changes,
        run_dir=run_dir,
        launch=launch_id,
        notes=(*notes, *faults, *host_notes),
        strict=bool(own.strict),
    )


def execute(plan: LaunchPlan) -> NoReturn:
    """Carry ``plan`` out: create the run directory, say the notes, become SGLang. Never returns.

    Raises :class:`TunelaunchError` when the run directory cannot be made and the plan is strict, and when the
    interpreter cannot be started.
    """
    if plan.run_dir is not None:
        try:
            rundir.create(plan.run_dir)
        except Exception as why:
            what = f"no run directory: {why}"
            if plan.strict:
                raise TunelaunchError(f"{what}; not started because of --tunelaunch-strict") from why
            plan = replace(_plain((), f"starting plain SGLang: {what}"), argv=plan.argv)
    for note in plan.notes:
        _say(note)
    for name, value in plan.environ.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            pass  # a closed stream is the host's to complain about
    try:
        os.execv(plan.argv[0], list(plan.argv))
    except (OSError, ValueError) as why:
        raise TunelaunchError(f"{plan.argv[0]!r} cannot be started: {why}") from why


def cache_root(given: str | None, environ: Mapping[str, str]) -> Path:
    """The absolute root of the tables: ``given``, else ``TUNELAUNCH_CACHE_DIR``, else the user's cache directory.

    Raises :class:`TunelaunchError` when the user's cache directory cannot be looked up.
    """
    text = given or environ.get(contract.CACHE_DIR)
    if not text:
        return _default_root(environ)
    path = Path(text)
    try:
        path = path.expanduser()
    except RuntimeError:
        pass  # no such home: then it is a directory that is called like that
    return path.absolute()


def _default_root(environ: Mapping[str, str]) -> Path:
    try:
        import platformdirs
    except ImportError as why:
        raise TunelaunchError(
            "package platformdirs is missing, so the default table root is unknown; "
            "run: pip install platformdirs, or give --tunelaunch-cache DIR"
        ) from why
    # For a user without HOME and passwd entry (containers with any uid) releases of platformdirs raise, or leave "~".
    try:
        path = Path(platformdirs.user_cache_dir("tunelaunch"))
    except RuntimeError:
        path = Path("~")
    return path if path.is_absolute() else overlay_dir({**environ, contract.RUN_DIR: ""})


def _check_root(root: Path) -> None:
    """Refuse a root that can never be a directory. One that is missing or read-only is the store's to deal with."""
    try:
        usable = stat.S_ISDIR(root.stat().st_mode)
    except (FileNotFoundError, PermissionError):
        return
    except OSError as why:
        raise TunelaunchError(f"table root {root} cannot be used ({why.strerror})") from why
    if not usable:
        raise TunelaunchError(f"table root {root} is not a directory")


def _contract(own: Own, launch_id: str, run_dir: Path, root: Path) -> Contract:
    default = Contract(launch_id, str(run_dir), str(root))
    return replace(
        default,
        retune=bool(own.retune),
        mode=own.mode or default.mode,
        strict=bool(own.strict),
        min_gain_percent=default.min_gain_percent if own.min_gain is None else own.min_gain,
        effort=own.effort or default.effort,
        tag=own.tag or "",
        verify=own.verify or default.verify,
        max_error=own.max_error or default.max_error,
        remote=own.remote or "",
    )


def _host_variables(environ: Mapping[str, str]) -> tuple[dict[str, str | None], list[str]]:
    """SGLang's own variables that would silently keep the plugin or its table out, and what is said about them."""
    changes: dict[str, str | None] = {}
    notes: list[str] = []
    plugins = environ.get("SGLANG_PLUGINS", "")
    if plugins and contract.PLUGIN_NAME not in {name.strip() for name in plugins.split(",")}:
        changes["SGLANG_PLUGINS"] = f"{plugins},{contract.PLUGIN_NAME}"
        notes.append(f"SGLANG_PLUGINS does not list {contract.PLUGIN_NAME}: added for this start")
    reuse = "SGLANG_FLASHINFER_AUTOTUNE_CACHE"
    if environ.get(reuse, "").strip().lower() in _FALSE_FOR_SGLANG:
        changes[reuse] = "1"
        notes.append(f"{reuse} is off: set to 1, the table is fed through that file (to tune afresh: --retune)")
    return changes, notes


def _plain(sglang_args: Sequence[str], note: str) -> LaunchPlan:
    return LaunchPlan(argv=_argv(sglang_args), environ=dict.fromkeys(options.VARIABLES), notes=(note,))


def _argv(sglang_args: Sequence[str]) -> tuple[str, ...]:
    return (sys.executable, "-m", "sglang.launch_server", *sglang_args)


def _say(note: str) -> None:
    if sys.stderr is None:
        return  # closed before the start: print() would take standard output instead
    try:
        print(f"tunelaunch {__version__}: {note}", file=sys.stderr)
    except (OSError, ValueError):
        pass  # nobody listens; that must not stop the start


def _read_nvml() -> NvmlReading:
    from tunelaunch.device.nvml import read_devices_within

    return read_devices_within(NVML_BOUND_S)


def _device_words(reading: NvmlReading, environ: Mapping[str, str]) -> str:
    from tunelaunch.device.visible import describe

    return describe(reading, environ)


def _wrong_backend(reading: NvmlReading, environ: Mapping[str, str], sglang_args: Sequence[str]) -> list[str]:
    if not any("-backend" in argument for argument in sglang_args):
        return []  # the common case pays for no import
    from tunelaunch.doctor.early import early_lines

    return early_lines(reading.devices, environ, sglang_args)


def _sglang_installed() -> bool:
    import importlib.machinery
    import importlib.util

    # "python -m" also looks in the working directory, which a console script does not have on its path.
    found = importlib.util.find_spec("sglang") or importlib.machinery.PathFinder.find_spec("sglang", [str(Path.cwd())])
    return found is not None


def _plugin_visible() -> bool:
    # importlib.metadata costs more than the rest of the launcher together; our own dist-info is found without it. Only
    # the first one on the path counts, there as here; where that one does not settle it, importlib.metadata is asked.
    for place in dict.fromkeys(sys.path):
        if found := list(Path(place or ".").glob("tunelaunch-*.dist-info")):
            if any(_lists_plugin(info / "entry_points.txt") for info in found):
                return True
            break
    from importlib.metadata import entry_points

    return any(point.name == contract.PLUGIN_NAME for point in entry_points(group=PLUGIN_GROUP))


def _lists_plugin(entry_points_file: Path) -> bool:
    try:
        lines = [line.strip() for line in entry_points_file.read_text(encoding="utf-8").splitlines()]
        section = lines[lines.index(f"[{PLUGIN_GROUP}]") + 1 :]
    except (OSError, ValueError):
        return False
    names = (line.partition("=")[0].strip() for line in takewhile(lambda line: not line.startswith("["), section))
    return contract.PLUGIN_NAME in names
