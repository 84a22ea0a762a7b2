"""One errand to a remote, in a process of its own: ``python -m tunelaunch.share.errand`` with the request on stdin.

A driver that hangs in a name server, a mount or a lock of its own then hangs here and not in a server that starts.
The request and the answer are JSON objects; the answer's ``problem`` says why there is no result.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

LIFETIME_S = 60
"""The process ends itself after this time, whether anyone waits for it or not."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do what ``request`` says: ``pull`` or ``push``. Never raises."""
    from tunelaunch.errors import ShareError

    try:
        return _pull(request) if request["action"] == "pull" else _push(request)
    except ShareError as why:
        return {"problem": str(why)}
    except Exception as bug:
        return {"problem": f"{type(bug).__name__}: {bug}"}


def _pull(request: dict[str, Any]) -> dict[str, Any]:
    from tunelaunch.share.places import open_place
    from tunelaunch.share.remote import read_remote
    from tunelaunch.share.signing import trust_from
    from tunelaunch.store import TableId

    tid = TableId(request["device"], request["environment"])
    there = read_remote(open_place(request["url"]), tid, trust_from())
    table = there.table.to_bytes().decode("ascii") if there.table else None
    return {"table": table, "problems": list(there.problems)}


def _push(request: dict[str, Any]) -> dict[str, Any]:
    from tunelaunch.share.document import parse
    from tunelaunch.share.places import open_place
    from tunelaunch.share.remote import write_remote
    from tunelaunch.share.signing import trust_from

    return {
        "object": write_remote(open_place(request["url"]), parse(request["table"].encode("ascii"), "it"), trust_from())
    }


if __name__ == "__main__":
    signal.alarm(LIFETIME_S)
    sys.stdout.write(json.dumps(answer(json.load(sys.stdin))))
