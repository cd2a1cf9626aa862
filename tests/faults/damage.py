"""Changes of a campaign's folder as someone might make them, each taken back after it was looked for."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import strategies as st

from runner.errors import BenchbookError
from runner.store import Store
from runner.verify import verify
from tests.campaigns import rechained

JOURNAL, MANIFEST = "journal.jsonl", "MANIFEST.sha256"


def problems(folder: Path) -> list[str]:
    """What `verify` finds, also where the folder is no campaign any more."""
    try:
        return verify(Store.open(folder)).problems
    except BenchbookError as error:
        return [str(error)]


@dataclass(repr=False)
class Copy:
    """A campaign's folder with the bytes that every file had at first."""

    folder: Path
    files: dict[str, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.files = {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in sorted(self.folder.rglob("*"))
            if path.is_file()
        }
        self.folders = {path for path in self.folder.rglob("*") if path.is_dir()}

    def __repr__(self) -> str:
        return f"Copy({self.folder})"

    def write(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)

    def restore(self) -> None:
        """Put everything back."""
        for path in sorted(self.folder.rglob("*"), reverse=True):
            name = path.relative_to(self.folder).as_posix()
            if path.is_symlink() or not path.is_dir():
                kept = name in self.files and not path.is_symlink() and path.is_file() and path.stat().st_nlink == 1
                if not kept or path.read_bytes() != self.files[name]:
                    path.unlink()
            elif path not in self.folders:
                shutil.rmtree(path)
        for name, data in self.files.items():
            path = self.folder / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)

    @property
    def lines(self) -> list[bytes]:
        """The journal's lines."""
        return self.files[JOURNAL].splitlines(keepends=True)


Damage = Callable[[Copy, st.DataObject], tuple[str, ...]]  # what it changed: one of these names must be in a problem


def a_file(copy: Copy, data: st.DataObject, *, least: int = 0) -> str:
    names = [name for name, content in copy.files.items() if len(content) >= least]
    return data.draw(st.sampled_from(names), label="file")


def one_bit(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    name = a_file(copy, data, least=1)
    content = bytearray(copy.files[name])
    place = data.draw(st.integers(0, len(content) - 1), label="place")
    content[place] ^= 1 << data.draw(st.integers(0, 7), label="bit")
    copy.write(name, bytes(content))
    return (name,)


def cut_short(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    name = a_file(copy, data, least=1)
    copy.write(name, copy.files[name][: data.draw(st.integers(0, len(copy.files[name]) - 1), label="length")])
    return (name,)


def bytes_put_in(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    name = a_file(copy, data)
    content = copy.files[name]
    place = data.draw(st.integers(0, len(content)), label="place")
    copy.write(name, content[:place] + data.draw(st.binary(min_size=1, max_size=20)) + content[place:])
    return (name,)


NAMES = st.one_of(
    st.sampled_from([".hidden", "stdout.txt", "run.json", "plan.toml", "a b", "x.partial", ".x.partial", "seal.json", "-rf"]),
    st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
        lambda name: name not in (".", "..") and len(name.encode()) < 200
    ),
)  # fmt: skip


def a_new_place(copy: Copy, data: st.DataObject) -> str:
    folders = [copy.folder, *sorted(copy.folders)]
    path = data.draw(st.sampled_from(folders), label="folder") / data.draw(NAMES, label="name")
    while path.exists():
        path = path.with_name(path.name + "x")
    return path.relative_to(copy.folder).as_posix()


def a_file_more(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    name = a_new_place(copy, data)
    copy.write(name, data.draw(st.binary(max_size=20)))
    return (name, ascii(name)[1:-1])


def a_file_less(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    name = a_file(copy, data)
    (copy.folder / name).unlink()
    return (name,)


def renamed(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    name, target = a_file(copy, data), a_new_place(copy, data)
    (copy.folder / name).rename(copy.folder / target)
    return (name, target, ascii(target)[1:-1])


def swapped(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    one = a_file(copy, data)
    others = [name for name, content in copy.files.items() if content != copy.files[one]]
    other = data.draw(st.sampled_from(others), label="other")
    copy.write(one, copy.files[other])
    copy.write(other, copy.files[one])
    return (one, other)


def copied_over(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    """One file's content in another's place."""
    one = a_file(copy, data)
    others = [name for name, content in copy.files.items() if content != copy.files[one]]
    copy.write(one, copy.files[data.draw(st.sampled_from(others), label="from")])
    return (one,)


def runs(copy: Copy) -> list[Path]:
    return sorted({copy.folder / name for name in copy.files if name.endswith("/run.json")})


def a_run_copied(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    """A whole run's folder in another's place, or in one of its own."""
    source = data.draw(st.sampled_from(runs(copy)), label="run").parent
    target = data.draw(st.sampled_from([path.parent for path in runs(copy)]), label="in the place of")
    if target == source:
        target = source.with_name(f"9{source.name}")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
    return (target.relative_to(copy.folder).as_posix(),)


def a_line_dropped(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    lines = copy.lines
    del lines[data.draw(st.integers(0, len(lines) - 1), label="line")]
    copy.write(JOURNAL, b"".join(lines))
    return (JOURNAL,)


def lines_cut_off(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    copy.write(JOURNAL, b"".join(copy.lines[: data.draw(st.integers(0, len(copy.lines) - 1), label="lines")]))
    return (JOURNAL,)


def a_line_moved(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    lines = copy.lines
    source, target = data.draw(
        st.tuples(*[st.integers(0, len(lines) - 1)] * 2).filter(lambda pair: pair[0] != pair[1]), label="from, to"
    )
    lines.insert(target, lines.pop(source))
    copy.write(JOURNAL, b"".join(lines))
    return (JOURNAL,)


def a_line_twice(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    lines = copy.lines
    source = data.draw(st.integers(0, len(lines) - 1), label="line")
    lines.insert(data.draw(st.integers(0, len(lines)), label="before"), lines[source])
    copy.write(JOURNAL, b"".join(lines))
    return (JOURNAL,)


def a_line_rewritten(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    """One value of one event is another, and the chain was computed anew."""
    events = [json.loads(line) for line in copy.lines]
    event = data.draw(st.sampled_from(events), label="event")
    key = data.draw(st.sampled_from([key for key in event if key not in ("number", "previous")]), label="key")
    event[key] = data.draw(
        st.one_of(st.integers(), st.text(), st.none(), st.booleans()).filter(lambda v: v != event[key])
    )
    copy.write(JOURNAL, rechained(events))
    return (JOURNAL, MANIFEST)


def a_link(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    """A file replaced by a link to a copy with the same bytes."""
    name = a_file(copy, data)
    path, elsewhere = copy.folder / name, copy.folder.parent / "elsewhere"
    elsewhere.write_bytes(copy.files[name])
    path.unlink()
    path.symlink_to(elsewhere)
    return (name,)


def a_pipe(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    """A pipe in a file's place, or beside it."""
    name = data.draw(st.one_of(st.just(""), st.sampled_from(sorted(copy.files))), label="in the place of")
    name = name or a_new_place(copy, data)
    (copy.folder / name).unlink(missing_ok=True)
    os.mkfifo(copy.folder / name)
    return (name, ascii(name)[1:-1])


def an_empty_folder(copy: Copy, data: st.DataObject) -> tuple[str, ...]:
    name = a_new_place(copy, data)
    (copy.folder / name).mkdir()
    return (name, ascii(name)[1:-1])


ANY = {
    function.__name__: function
    for function in (
        one_bit, cut_short, bytes_put_in, a_file_more, a_file_less, renamed, swapped, copied_over, a_run_copied,
        a_line_dropped, lines_cut_off, a_line_moved, a_line_twice, a_line_rewritten, a_link, a_pipe, an_empty_folder,
    )
}  # fmt: skip
# Where there is no manifest yet, a journal that was rewritten with its chain is found only where it contradicts the rest.
BEFORE_THE_CLOSE = [kind for kind in ANY if kind != "a_line_rewritten"]
