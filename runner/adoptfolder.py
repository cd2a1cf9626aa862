"""A folder that others filled: which files are in it, and their bytes. Links and special files are refused, sizes bounded."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path

from runner.errors import WrongUse

LARGEST_FILE = 200_000_000  # bytes
LARGEST_FOLDER = 2_000_000_000
MOST_FILES = 10_000


def regular_files(folder: Path) -> Iterator[tuple[str, int]]:
    """Every file below a foreign folder with its size. Raises WrongUse for whatever is no plain file or folder."""
    count = total = 0
    known: dict[str, str] = {}
    pending = [(folder, "")]
    if not folder.is_dir() or folder.is_symlink():
        raise WrongUse(str(folder), "not a folder, or a link to one")
    while pending:
        here, prefix = pending.pop()
        with os.scandir(here) as entries:
            for found in sorted(entries, key=lambda found: found.name):
                path = prefix + found.name
                _assert_plain_name(folder, path)
                _assert_another_name(folder, path, known)
                status = found.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    pending.append((Path(found.path), f"{path}/"))
                    continue
                count, total = count + 1, total + status.st_size
                _assert_plain_file(f"{folder}/{path}", status)
                if count > MOST_FILES or total > LARGEST_FOLDER:
                    raise WrongUse(
                        str(folder), "too much for one adoption", found=f"{count} files, {total} bytes so far",
                        expected=f"at most {MOST_FILES} files and {LARGEST_FOLDER} bytes", remedy="bring it in parts",
                    )  # fmt: skip
                yield path, status.st_size


def _assert_plain_name(folder: Path, path: str) -> None:
    if not path.isprintable() or "\\" in path or len(path.encode(errors="replace")) > 1000:
        raise WrongUse(
            f"{folder}/{path!r}", "a name that cannot be recorded as it is",
            expected="printable characters of UTF-8, no backslash", remedy="rename the file",
        )  # fmt: skip


def _assert_another_name(folder: Path, path: str, known: dict[str, str]) -> None:
    """Where capitals do not count, or an accent is written in another way, one file would take another's place."""
    key = unicodedata.normalize("NFKC", path).casefold()
    if known.setdefault(key, path) != path:
        raise WrongUse(
            f"{folder}/{path}", "a name that differs from another only in case, or in how a character is written",
            found=known[key], remedy="rename one of them: on some hosts they are one file",
        )  # fmt: skip


def _assert_plain_file(where: str, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "a link" if stat.S_ISLNK(status.st_mode) else "a device, pipe or socket"
        raise WrongUse(
            where, f"{kind}, not a file", expected="plain files and folders", remedy="take it out of the folder"
        )
    if status.st_size > LARGEST_FILE:
        raise WrongUse(
            where, "a file that is too large", expected=f"at most {LARGEST_FILE} bytes", found=f"{status.st_size}"
        )


def copy(source: Path, target: Path) -> None:
    """Copy a foreign file's bytes, and put them on disk; a link that came in its place meanwhile is not followed."""
    target.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(descriptor, "rb") as file, target.open("xb") as out:
        _assert_plain_file(str(source), os.fstat(descriptor))
        left = LARGEST_FILE
        while chunk := file.read(min(1 << 20, left + 1)):
            left -= len(chunk)
            if left < 0:
                raise WrongUse(str(source), "a file that grows while it is read")
            out.write(chunk)
        out.flush()
        os.fsync(out.fileno())
