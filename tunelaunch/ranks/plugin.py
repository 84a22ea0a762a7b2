"""Entry point of the SGLang plugin: inert unless tunelaunch started this process.

SGLang calls :func:`register` in its main process and in every scheduler. In a process that tunelaunch did not start it
reads one environment variable and returns; nothing else is imported.
"""

from __future__ import annotations

import os


def register() -> None:
    """Hook SGLang for this start. Never raises: SGLang logs and swallows exceptions of plugins, and so would lose ours."""
    if not os.environ.get("TUNELAUNCH_LAUNCH"):
        return
    from tunelaunch.ranks.hooks import install

    install()
