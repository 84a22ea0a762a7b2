"""The one exception root.

Every error that tunelaunch raises on purpose derives from :class:`TunelaunchError`, so that a caller (and the one
boundary inside SGLang's processes) can tell a named failure from a bug. A message has up to four parts: what happened,
saved versus current where two values disagree, what is done now, what to run next.
"""

from __future__ import annotations


class TunelaunchError(Exception):
    """A named failure. ``exit_code`` is what the command line returns for it (1: refused or failed)."""

    exit_code = 1


class UsageError(TunelaunchError):
    """The command line was wrong; ``exit_code`` is 2."""

    exit_code = 2


class StoreError(TunelaunchError):
    """The table on disk could not be read or written."""


class IdentityError(TunelaunchError):
    """The device or its environment could not be determined."""


class HostError(TunelaunchError):
    """SGLang or FlashInfer is not what an adapter in ``hosts/`` expects."""


class AgreementError(TunelaunchError):
    """The ranks of a group could not agree; the group stands aside."""


class ShareError(TunelaunchError):
    """Something that came from elsewhere (a bundle, a remote, a neighbour's file) is refused, or cannot be reached."""
