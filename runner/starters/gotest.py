"""The template `go-test`: benchmarks of one Go package, at two commits of a repository."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.errors import BenchbookError, WrongUse
from runner.process import call
from runner.repositories import Mirror, address_of, git_command
from runner.starters import Starter, filled, quoted, seed_of
from runner.trees import cache_folder

_WHOLE = re.compile(r"[0-9a-f]{40}")
_URL = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://|^[^/]+:")
_BENCHMARK = re.compile(r"^func Benchmark([A-Z_0-9]\w*)?\(\w+ \*testing\.B\)", re.M)


def go_test(
    folder: Path, repository: str | None, before: str | None, after: str | None, package: str, names: Sequence[str]
) -> Starter:
    """Two commits as arms, their benchmarks as cases. Raises WrongUse where something is not given or not there."""
    if not (repository and before and after):
        options = {"--repository": repository, "--before": before, "--after": after}
        raise WrongUse(
            "--template go-test",
            "this template needs a repository and two commits of it",
            expected="--repository, --before and --after",
            found="no " + ", ".join(name for name, value in options.items() if not value),
            remedy="--repository ../project --before v1.0.0 --after main --package ./codec",
        )
    into = _folder_of(package)
    address = address_of(repository, Path.cwd())
    commits = [_commit(address, option, revision) for option, revision in (("--before", before), ("--after", after))]
    mirror = Mirror(cache_folder().parent, address, f"--repository {repository}")
    for commit in commits:
        mirror.require(commit)
    older, newer = (mirror.texts(commit, into, "_test.go") for commit in commits)
    cases = _cases(names, newer, f"{into or '.'} at {commits[1][:12]}")
    overlay = _overlay(older, newer, cases)
    fields = {
        "before": commits[0],
        "after": commits[1],
        "before_what": quoted(_what(commits[0], before)),
        "after_what": quoted(_what(commits[1], after)),
        "repository": quoted(_as_planned(repository, folder)),
        "package": package,
        "into": into or ".",
        "place": f"{{checkout}}/{into}" if into else "{checkout}",
        "example": next(iter(newer), "x_test.go"),
        "overlay": f"overlay = {{ commit = {quoted(commits[1])}, files = {quoted(overlay)} }}\n" if overlay else "",
        "cases": "\n".join(_case(name) for name in cases),
        "seed": seed_of(folder.name),
    }
    told = f"the benchmarks of {', '.join(overlay)} differ between the commits, or are in the later one alone: both trees get"
    notes: tuple[str, ...] = (f"{told} those of the later one",) if overlay else ()
    if os.path.isabs(repository):
        notes += (f"the plan names {repository} of this machine: a URL, or a path from here, would not",)
    name = os.path.basename(repository.rstrip("/")).removesuffix(".git") or "A repository"
    title = f"{name}, {into}: two commits" if into else f"{name}: two commits"
    shown = [revision[:12] if _WHOLE.fullmatch(revision) else revision for revision in (before, after)]
    question = f"What changed from {shown[0]} to {shown[1]}?"
    return Starter(filled("go-test.toml", fields), title=title, question=question, notes=notes)


def _what(commit: str, revision: str) -> str:
    return f"commit {commit[:12]}" + ("" if _WHOLE.fullmatch(revision) else f", {revision}")


def _folder_of(package: str) -> str:
    """The folder of one package below the repository, "" for the topmost."""
    parts = package.split("/")
    if not re.fullmatch(r"\.(/[A-Za-z0-9_.-]+)*", package) or any(part in ("..", "...") for part in parts):
        raise WrongUse(
            "--package",
            "no single package of the repository",
            expected=". or a path such as ./codec, without /...",
            found=package,
            remedy="make one campaign, or one phase, for each package",
        )
    return "/".join(parts[1:])


def _commit(address: str, option: str, revision: str) -> str:
    """The whole name of a commit, asked of the repository now: a plan holds no name that can move."""
    if _WHOLE.fullmatch(revision):
        return revision
    try:
        if _URL.match(address):
            wanted = ("HEAD",) if revision == "HEAD" else tuple(f"refs/{kind}/{revision}" for kind in ("tags", "heads"))
            listed = call(
                git_command("ls-remote", "--", address, *wanted, *(f"{name}^{{}}" for name in wanted)),
                environment=dict(os.environ) | {"GIT_TERMINAL_PROMPT": "0"},
            )
            found = {name: commit for commit, name in (line.split("\t") for line in listed.splitlines())}
            names = [found.get(f"{name}^{{}}") or found.get(name) for name in wanted]
            said = next(filter(None, names), "")
        else:
            said = call(
                git_command("-C", address, "rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
            )
    except BenchbookError as error:
        said, why = "", error.found.partition("\n")[2] or error.problem
    else:
        why = "no such branch or tag"
    if not _WHOLE.fullmatch(said.strip()):
        raise WrongUse(
            option,
            f"{revision!r} is no commit of {address}",
            expected="a branch, a tag, or the 40 digits of a commit",
            found=why,
        )
    return said.strip()


def _cases(names: Sequence[str], texts: Mapping[str, str], where: str) -> list[str]:
    """The benchmarks that were asked for, or all that the test files declare."""
    declared = [name for text in texts.values() for name in _BENCHMARK.findall(text)]
    given = [name.removeprefix("Benchmark") for name in names]
    unknown = [name for name in given if name.partition("/")[0] not in declared]
    bad = [name for name in given if re.search(r"[\s\x00-\x1f\x7f]", name) or not name]
    if unknown or bad or not declared:
        raise WrongUse(
            "--bench" if given else "--package",
            f"no such benchmark in {where}",
            expected=", ".join(declared[:20]) or "func BenchmarkName(b *testing.B) in a file that ends in _test.go",
            found=", ".join(unknown or bad) or "no benchmark",
            remedy="name benchmarks as Go does, sub-benchmarks as Name/sub" if given else "name another package",
        )
    return list(dict.fromkeys(given or declared))


def _overlay(older: Mapping[str, str], newer: Mapping[str, str], cases: Sequence[str]) -> list[str]:
    """Files with the cases' benchmarks that are not the same at both commits."""
    tops = {name.partition("/")[0] for name in cases}
    return [name for name, text in newer.items() if tops & set(_BENCHMARK.findall(text)) and older.get(name) != text]


def _as_planned(repository: str, folder: Path) -> str:
    """A URL or whole path as it is; a path from here as one from the campaign's folder, which does not name this machine."""
    if _URL.match(repository) or os.path.isabs(repository):
        return repository
    return os.path.relpath(repository, folder)


def _case(name: str) -> str:
    return (
        f"[[phases.G.cases]]\nname = {quoted(name)}\nwhat = {quoted(f'Benchmark{name}')}\n"
        "expected_s = 3             # a guess of one process's length, for the schedule alone\n"
        'parameters = { benchtime = "0.5s" }\n'
    )
