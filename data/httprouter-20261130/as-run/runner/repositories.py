"""Commits of git repositories as plain files: fetched once into the cache, written out without hooks, filters or settings.

Only fetching sees the user's own settings, as proxies and credentials are theirs; what is written out depends on the commit alone.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from runner.errors import Refused
from runner.files import sha256
from runner.process import call, tool

_ADDRESS = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://|^[^/]+:")
_ALL = "2147483647"  # what git takes for the whole history, also when a part of it is there already
_ALONE = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}
_SETTINGS = (f"core.hooksPath={os.devnull}", "gc.auto=0", "core.bare=false", "core.autocrlf=false")


def address_of(repository: str, campaign: Path) -> str:
    """What git is to fetch from: a URL as it is, a path from the campaign's folder."""
    return repository if _ADDRESS.match(repository) else str((campaign / repository).resolve())


def git_command(*arguments: str) -> list[str]:
    """git, with no hook and no conversion of its own."""
    return [tool("git"), *(part for setting in _SETTINGS for part in ("-c", setting)), *arguments]


def fetch_command(address: str, commit: str) -> list[str]:
    """How one commit comes into the cache."""
    kept = f"+{commit}:refs/kept/{commit}"
    return git_command("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--depth=1", "--", address, kept)


class Mirror:
    """What the cache holds of one repository."""

    def __init__(self, cache: Path, address: str, where: str) -> None:
        self._address, self._where = address, where
        self._folder = cache / "repositories" / f"{sha256(address.encode())[:16]}.git"

    def require(self, commit: str) -> None:
        """Have a commit, fetching it if it is not there. Raises Refused when the repository does not give it."""
        if not (self._folder / "HEAD").is_file():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._git("init", "--quiet", "--bare")
        if self._has(commit):
            return
        try:
            call(fetch_command(self._address, commit), environment=self._own(), limit_s=1800, where=self._where)
        except Refused:
            self._fetch_all(commit)  # a server may refuse to give a commit that no branch or tag names
        if not self._has(commit):
            raise self._no_commit(commit, "an object that is no commit")

    def write_out(self, commit: str, folder: Path, paths: tuple[str, ...] = ()) -> list[str]:
        """Write the files of a commit into a folder: all, or those at and below some paths. Returns their names.

        Raises Refused for a path that the commit does not have, and for one that is no plain file.
        """
        folder.mkdir(parents=True)
        index = folder.with_name(f".{folder.name}.index")
        try:
            self._git("read-tree", commit, index=index)
            if not paths:
                self._git("checkout-index", "--all", index=index, folder=folder)
                return []
            names = [name for path in paths for name in self._plain_files(commit, path)]
            self._git("checkout-index", "-z", "--stdin", index=index, folder=folder, stdin="\0".join(names))
            return names
        finally:
            index.unlink(missing_ok=True)

    def texts(self, commit: str, folder: str, ending: str) -> dict[str, str]:
        """Names and texts of a commit's plain files in a folder ("" for the topmost), not below it, by how they end."""
        listed = self._git("ls-tree", "-z", "--full-tree", commit, *(["--", f"{folder}/"] if folder else []))
        entries = [entry.partition("\t") for entry in filter(None, listed.split("\0"))]
        names = [name for head, _, name in entries if head.startswith("100") and name.endswith(ending)]
        return {name: self._git("cat-file", "blob", f"{commit}:{name}") for name in names}

    def _plain_files(self, commit: str, path: str) -> list[str]:
        listed = self._git("--literal-pathspecs", "ls-tree", "-r", "-z", "--full-tree", commit, "--", path)
        names = []
        for entry in filter(None, listed.split("\0")):
            mode, name = entry.partition(" ")[0], entry.partition("\t")[2]
            if mode not in ("100644", "100755"):
                raise Refused(
                    f"{self._where}: overlay {name}",
                    "not a plain file in the overlay's commit",
                    expected="files",
                    found="a symbolic link" if mode == "120000" else f"mode {mode}",
                    remedy="name plain files in overlay.files",
                )
            names.append(name)
        if not names:
            raise Refused(
                f"{self._where}: overlay {path}",
                "the overlay's commit does not have it",
                expected=f"a file or folder {path} in {commit}",
                found="none",
                remedy="mend overlay.files or overlay.commit",
            )
        return names

    def _has(self, commit: str) -> bool:
        try:
            return self._git("cat-file", "-t", commit).strip() == "commit"
        except Refused:
            return False

    def _fetch_all(self, commit: str) -> None:
        refs = ("+refs/heads/*:refs/kept/heads/*", "+refs/tags/*:refs/kept/tags/*")
        flags = ("--quiet", "--no-write-fetch-head", f"--depth={_ALL}")
        try:
            call(
                git_command("fetch", *flags, "--", self._address, *refs),
                environment=self._own(),
                limit_s=1800,
                where=self._where,
            )
        except Refused as error:
            raise Refused(
                self._where,
                "the repository cannot be fetched",
                expected="a repository that git can read without asking for anything",
                found=error.found.partition("\n")[2] or error.problem,
                remedy="mend trees.<name>.repository, or give git access to it",
            ) from None
        if not self._has(commit):
            raise self._no_commit(commit, "no branch or tag leads to it")

    def _no_commit(self, commit: str, found: str) -> Refused:
        return Refused(
            self._where,
            "the repository does not have this commit",
            expected=commit,
            found=found,
            remedy="mend trees.<name>.commit or overlay.commit, or push the commit to the repository",
        )

    def _own(self) -> dict[str, str]:
        """The user's environment without what would point git at another repository, or let it ask."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        kept |= {name: os.environ[name] for name in ("GIT_SSH_COMMAND", "GIT_SSL_CAINFO") if name in os.environ}
        kept.setdefault("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
        return kept | {"GIT_TERMINAL_PROMPT": "0", "GIT_DIR": str(self._folder)}

    def _git(self, *arguments: str, index: Path | None = None, folder: Path | None = None, stdin: str = "") -> str:
        places = {"GIT_DIR": str(self._folder), "GIT_INDEX_FILE": str(index or self._folder / "index")}
        if folder is not None:
            places["GIT_WORK_TREE"] = str(folder)
        return call(git_command(*arguments), environment=_ALONE | places, stdin=stdin, limit_s=600, where=self._where)
