"""Paths under a cache root. Nothing here touches the disk.

<root>/CACHEDIR.TAG, README
<root>/v1/<device>/<environment>/{environment,table,quarantine,wanted}.json, history/<n>.json, journal/, in-use/<launch>
<root>/v1/reports/<launch>.json
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from .identity import TableId

VERSION = "v1"
MAX_GENERATION = 10**12
"""Larger generation numbers are damage: they could not be counted up, or named, for long."""

CACHEDIR_TAG = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# This directory was made by tunelaunch; backup programs may skip it (https://bford.info/cachedir/).\n"
)
README = b"""Tables of kernel choices, one per GPU model and software environment, kept by tunelaunch.

v1/<device>/<environment>/table.json   the rows in use        history/          earlier states, for rollback
v1/<device>/<environment>/environment.json   what they depend on
v1/reports/                            what each start loaded, tuned and left at default

Everything is JSON and can be deleted: the next start tunes again. See `tunelaunch cache ls`.
"""


@dataclass(frozen=True)
class TablePaths:
    """The files of one table."""

    directory: Path

    @property
    def environment(self) -> Path:
        return self.directory / "environment.json"

    @property
    def table(self) -> Path:
        return self.directory / "table.json"

    @property
    def history(self) -> Path:
        return self.directory / "history"

    @property
    def quarantine(self) -> Path:
        return self.directory / "quarantine.json"

    @property
    def journal(self) -> Path:
        return self.directory / "journal"

    @property
    def in_use(self) -> Path:
        return self.directory / "in-use"

    @property
    def wanted(self) -> Path:
        return self.directory / "wanted.json"

    @property
    def lock(self) -> Path:
        return self.directory / ".lock"

    def user(self, launch: str) -> Path:
        """The mark by which ``launch`` says that it uses this table."""
        return self.in_use / file_name(launch)

    def generation(self, number: int) -> Path:
        """The file that keeps generation ``number``."""
        return self.history / f"{number}.json"


@dataclass(frozen=True)
class Layout:
    """The paths under one root."""

    root: Path

    @property
    def tag(self) -> Path:
        return self.root / "CACHEDIR.TAG"

    @property
    def readme(self) -> Path:
        return self.root / "README"

    @property
    def base(self) -> Path:
        return self.root / VERSION

    @property
    def reports(self) -> Path:
        return self.base / "reports"

    def table(self, tid: TableId) -> TablePaths:
        """The files of table ``tid``."""
        return TablePaths(self.base / tid.device / tid.environment)

    def report(self, launch: str) -> Path:
        """The report of a launch."""
        return self.reports / f"{file_name(launch)}.json"


def generation_of(name: str) -> int | None:
    """The generation that a file name in ``history/`` stands for, or ``None`` for any other file."""
    match = re.fullmatch(r"(0|[1-9][0-9]{0,11})\.json", name)
    return int(match[1]) if match else None


def file_name(launch: str) -> str:
    """``launch`` as a file name; an id that is none gets a safe one that stays distinct."""
    if re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,150}", launch):
        return launch
    digest = hashlib.sha256(launch.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    readable = re.sub(r"[^A-Za-z0-9_+-]+", "-", launch)[:100].strip("-")
    return f"{readable or 'launch'}-{digest}"
