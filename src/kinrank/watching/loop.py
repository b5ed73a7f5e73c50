"""A source that is followed -> looked at again and again, until Ctrl-C."""

from __future__ import annotations

import time
from collections.abc import Callable

from kinrank.progress import Show
from kinrank.watching.following import Followed, follow
from kinrank.watching.ledger import Ledger
from kinrank.watching.places import Watched


def watch(
    watched: Watched,
    every: float = 2.0,
    looks: int | None = None,
    tell: Callable[[Followed], None] | None = None,
    trouble: Callable[[str], None] | None = None,
    progress: Show = None,
) -> None:
    """Follow a source: a folder is listed every few seconds, which also works where files lie on another machine.

    Args:
        watched: what to follow, see `watched`.
        every: seconds before each look.
        looks: how many; None for no end.
        tell: is given what a look has changed, if it has.
        trouble: is given a sentence where a look failed, such as when a disk is not there; nothing is removed then, and
            the next look tries again. The same sentence is given once.
        progress: True for a bar, or a callable `f(label, done, total)`.
    """
    said, done = "", 0
    while looks is None or done < looks:
        time.sleep(every)
        done += 1
        try:
            ledger = Ledger.load(watched.place) or watched.ledger  # anew: what a failed look entered is not believed
            found = follow(ledger, watched.place, watched.target, watched.encoder, progress)
            said = ""
            if found and tell is not None:
                tell(found)
        except Exception as error:  # whatever an encoder, a disk or a service does: the next look tries again
            if trouble is not None and str(error) != said:
                said = str(error)
                trouble(said)
