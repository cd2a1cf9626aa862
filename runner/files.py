"""Files at the edge: digests, and writes that are whole or not there at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from runner.errors import unwritable
from runner.interrupts import held

PROJECT = Path(__file__).resolve().parent.parent


def escape(case: str) -> str:
    """A folder name for a case: percent-encoded, so that two names never share a folder."""
    if not case:
        raise ValueError("a case without a name has no folder")
    name = quote(case, safe="")
    return "%2E" + name[1:] if name.startswith(".") else name


def sha256(data: bytes) -> str:
    """Hex digest of bytes."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_of(mapping: dict[str, str]) -> str:
    """One digest for many: over sorted lines `digest  name`, the form of sha256sum."""
    return sha256(manifest_text(mapping).encode())


def manifest_text(mapping: dict[str, str]) -> str:
    """Lines in sha256sum's own format, sorted by name."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(mapping.items()))


def canonical_json(value: Any) -> str:
    """JSON with one key a line where it nests, keys in the order given, no NaN: readable, and the same every time."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn an OSError of a write into Unwritable: which file, what happened, what to do."""
    try:
        yield
    except OSError as error:
        raise unwritable(str(path), error) from None


def fsync_folder(path: Path) -> None:
    """Make the names in a folder durable. Raises Unwritable."""
    with writing(path):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def make_folder(path: Path) -> None:
    """Make a folder and those above it that are missing, every new name durable. Raises Unwritable."""
    for folder in reversed([path, *path.parents]):
        if not folder.is_dir():
            with writing(folder):
                folder.mkdir()
            fsync_folder(folder.parent)


def write_whole(path: Path, data: bytes) -> None:
    """Write, fsync, rename, fsync the folder: a reader sees the old file or the new one, never a part.

    Raises Unwritable, with nothing left beside the old file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    with held():
        with writing(path):
            try:
                with temporary.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
        fsync_folder(path.parent)


def tree_digests(folder: Path, patterns: Iterable[str], relative_to: Path) -> dict[str, str]:
    """Digest of every file below `folder` that matches a pattern, by its path relative to `relative_to`."""
    found = {
        path
        for pattern in patterns
        for path in folder.rglob(pattern)
        if path.is_file() and "__pycache__" not in path.parts
    }
    return {path.relative_to(relative_to).as_posix(): file_sha256(path) for path in sorted(found)}
