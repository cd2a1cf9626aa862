"""What `new --template` was called with: which options belong to which template. Pure but for what templates read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runner.errors import WrongUse
from runner.starters import Starter, assert_new, command, fixed, gotest

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "go-test": ("repository", "before", "after", "package", "bench"),
    "python": (),
    "client": (),
    "command": ("command", "name"),
}


@dataclass(frozen=True)
class Given:
    """The options of `new` that belong to templates."""

    command: tuple[str, ...] = ()
    name: tuple[str, ...] = ()
    repository: str | None = None
    before: str | None = None
    after: str | None = None
    package: str | None = None
    bench: tuple[str, ...] = ()


def starter(folder: Path, template: str, given: Given) -> Starter:
    """What a template makes of its options. Raises WrongUse, and Refused for a folder that is not empty."""
    assert_new(folder)
    assert_options(f"--template {template}", OPTIONS[template], given)
    if template == "command":
        return command.command(folder, given.command, given.name)
    if template == "go-test":
        return gotest.go_test(folder, given.repository, given.before, given.after, given.package or ".", given.bench)
    return fixed.python(folder) if template == "python" else fixed.client(folder)


def assert_options(where: str, known: tuple[str, ...], given: Given) -> None:
    """Raise WrongUse for an option that belongs to another template."""
    for option, value in vars(given).items():
        if value and option not in known:
            [owner] = [template for template, options in OPTIONS.items() if option in options]
            raise WrongUse(
                where,
                f"--{option} is an option of --template {owner}",
                expected=", ".join(f"--{name}" for name in known) or "no further option",
                found=f"--{option}",
                remedy=f"leave it out, or give --template {owner}",
            )
