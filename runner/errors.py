"""Errors that say where, what was expected, what was found and what to do."""

from __future__ import annotations

import errno


class BenchbookError(Exception):
    """Base of every error that is shown to the user as a message, without a traceback.

    Built from its parts, so that no message can leave out what a reader needs to act.
    """

    exit_code = 1

    def __init__(self, where: str, problem: str, *, expected: str = "", found: str = "", remedy: str = "") -> None:
        self.where, self.problem = where, problem
        self.expected, self.found, self.remedy = expected, found, remedy
        parts = [f"{where}: {problem}"]
        parts += [
            f"  {name}: {text}"
            for name, text in (("expected", expected), ("found", found), ("what to do", remedy))
            if text
        ]
        super().__init__("\n".join(parts))


class PlanError(BenchbookError):
    """The plan file cannot be used; the message lists every problem with its line."""


class Refused(BenchbookError):
    """The runner will not go on: seal, host, tree, harness or another runner stands in the way."""


class DataError(BenchbookError):
    """Files of a campaign disagree with each other or are damaged."""


class Unwritable(DataError):
    """A file could not be written: no room, a read-only folder, a quota, a disk that fails."""


def unwritable(path: str, error: OSError, remedy: str = "") -> Unwritable:
    """What an OSError of a write means, and what to do."""
    return Unwritable(
        path,
        "this file could not be written",
        found=error.strerror or str(error),
        remedy=remedy or f"{REMEDIES.get(error.errno or 0, 'look at the disk')}; then call the same command again",
    )


def os_error(error: OSError) -> BenchbookError:
    """An OSError that nothing nearer has explained, as a message."""
    return BenchbookError(
        str(error.filename2 or error.filename or "a file of the campaign"),  # of two, the one that is written
        error.strerror or str(error),
        remedy=REMEDIES.get(error.errno or 0, ""),
    )


REMEDIES = {
    errno.ENOSPC: "make room on the disk",
    errno.EDQUOT: "make room below the quota",
    errno.EFBIG: "raise the limit for the size of a file (ulimit -f)",
    errno.EROFS: "the file system is mounted read-only: mount it for writing, or copy the campaign to where you may write",
    errno.EACCES: "give this user the right to read and write it, or copy the campaign to where you may write",
    errno.EPERM: "give this user the right to read and write it, or copy the campaign to where you may write",
    errno.EIO: "the disk reports an error: copy the campaign to another one",
    errno.EMFILE: "raise the limit for open files (ulimit -n)",
}


class Missing(BenchbookError):
    """A program or package that the campaign needs is not installed."""


class WrongUse(BenchbookError):
    """The command was called with something that does not exist or does not fit."""

    exit_code = 2
