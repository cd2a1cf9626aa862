"""Errors that say where, what was expected, what was found and what to do."""

from __future__ import annotations


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


class Missing(BenchbookError):
    """A program or package that the campaign needs is not installed."""


class WrongUse(BenchbookError):
    """The command was called with something that does not exist or does not fit."""

    exit_code = 2
