"""What is hooked, and in which process: the autotune functions in schedulers, the end of start-up in the main process."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

from tunelaunch.contract import Contract
from tunelaunch.hosts import sglang as host

log = logging.getLogger("tunelaunch")


def install() -> None:
    """Hook this process. A host that cannot be used is left as it is, with one line that says why."""
    contract = Contract.from_environ()
    if contract is None:
        return
    role = host.process_role()
    try:
        if role == "main":
            _hook_main(contract)
        elif role in ("scheduler", "unknown"):
            _hook_scheduler(contract)
    except Exception as error:
        log.warning(
            "tunelaunch: starting as plain SGLang, the plugin could not be set up (%s: %s)", type(error).__name__, error
        )


def _hook_main(contract: Contract) -> None:
    from tunelaunch.ranks.ready import report_start

    def after(result: Any, *_: Any, **__: Any) -> None:
        report_start(contract, schedulers=len(result) if isinstance(result, list) else 1)

    host.hook(host.READY, after, "AFTER")


def _hook_scheduler(contract: Contract) -> None:
    from tunelaunch.hosts import flashinfer as fi
    from tunelaunch.ranks.extend import extend_pass
    from tunelaunch.ranks.passes import tuning_pass
    from tunelaunch.ranks.session import Session

    arguments = host.server_args_of_process()
    session = Session(contract, place=host.place_in_server())
    session.nothing = host.why_nothing_to_tune(arguments) if arguments is not None else None
    missing = [*host.probe(), *fi.probe()]
    if missing:
        session.aside = f"SGLang {host.version()} with FlashInfer {fi.version()} lacks {', '.join(missing)}"
        session.fall_back(f"starting as plain SGLang: {session.aside}")
        session.receipt()
        return

    def context(original: Callable[..., Any], model_runner: Any, **kwargs: Any) -> Any:
        return tuning_pass(session, original, model_runner, kwargs)

    def cache_path(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return session.redirect if session.redirect is not None else original(*args, **kwargs)

    def extend(original: Callable[..., Any], runner: Any, **kwargs: Any) -> Any:
        return extend_pass(session, original, runner, kwargs)

    host.hook(host.CONTEXT, context, "AROUND")
    host.hook(host.CACHE_PATH, cache_path, "AROUND")
    if host.has_extend():
        host.hook(host.EXTEND, extend, "AROUND")
    with contextlib.suppress(Exception):
        session.receipt()
