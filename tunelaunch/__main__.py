"""``python -m tunelaunch``: the same as the console script ``tunelaunch``."""

from __future__ import annotations

import sys

from tunelaunch.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
