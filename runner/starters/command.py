"""The template `command`: any two commands, timed in counterbalanced blocks."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.errors import Missing, WrongUse
from runner.plantypes import FILE_NAME
from runner.process import RUN_PATH
from runner.starters import Starter, filled, quoted, seed_of, text_of

EXAMPLE = (("fast", "gzip -1 -c {harness}/sample.txt"), ("small", "gzip -9 -c {harness}/sample.txt"))
LARGEST = 16 << 20  # bytes of a file that is taken into harness/
_VERSIONS = {"gzip", "bzip2", "xz", "zstd", "sort", "grep", "sed", "awk", "gawk", "tar", "jq", "rg"}  # know --version
_SEE_NULL = {"grep", "egrep", "fgrep", "tar"}  # GNU's: with /dev/null for output they leave out most of their work


@dataclass
class _Taken:
    """What is gathered while commands are read."""

    harness: dict[str, bytes] = field(default_factory=dict)
    origins: dict[str, Path] = field(default_factory=dict)  # of each file taken in
    notes: list[str] = field(default_factory=list)


def command(folder: Path, commands: Sequence[str], names: Sequence[str]) -> Starter:
    """Two commands as arms; without any, an example. Raises WrongUse and Missing."""
    taken = _Taken({"timecommand.py": text_of("timecommand.py")})
    given = _given(commands, names)
    if not commands:
        taken.harness["sample.txt"] = sample()
    words = [_words(text, taken) for _, text in given]
    arms = [name for name, _ in given]
    trees = {argv[0]: _tree_name(argv[0]) for argv in words}
    if len({name.casefold() for name in trees.values()}) < len(trees):
        trees = dict(zip(trees, arms, strict=True))
    title = " against ".join(arms[::-1])
    question = f"Which takes less time, {_shown(words[0])} or {_shown(words[1])}?"
    question = question if len(question) <= 2000 else "Which of the two commands takes less time?"
    fields = {
        "question": quoted(question),
        "phase": "T",
        "case": "Command",
        "what": quoted("one execution of the whole command"),
        "first": arms[0],
        "second": arms[1],
        "first_tree": trees[words[0][0]],
        "second_tree": trees[words[1][0]],
        "first_command": quoted(words[0]),
        "second_command": quoted(words[1]),
        "trees": "\n".join(_tree(name, program) for program, name in trees.items()),
        "seed": seed_of(folder.name),
    }
    return Starter(filled("command.toml", fields), taken.harness, {}, title, question, notes=tuple(taken.notes))


def _given(commands: Sequence[str], names: Sequence[str]) -> list[tuple[str, str]]:
    """Names and commands of the two arms."""
    if not commands and not names:
        return list(EXAMPLE)
    if len(commands) != 2 or len(names) not in (0, 2):
        raise WrongUse(
            "--command",
            "this template compares two commands",
            expected="--command twice, and --name twice or not at all",
            found=f"--command {len(commands)} times, --name {len(names)} times",
            remedy="--command 'gzip -1 -c FILE' --command 'gzip -9 -c FILE' --name fast --name small",
        )
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) or names[0].casefold() == names[1].casefold():
            raise WrongUse(
                "--name",
                "no name for an arm",
                expected="two different names of letters, digits, '.', '_' and '-'",
                found=", ".join(names),
            )
    own = [_tree_name(text.split()[0]) if text.split() else "" for text in commands]
    default = own if len({name.casefold() for name in own}) == 2 else ["first", "second"]
    return list(zip(names or default, commands, strict=True))


def _words(text: str, taken: _Taken) -> list[str]:
    """A command as a list of words, its program and files where a run finds them."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise WrongUse("--command", f"cannot be split into words: {error}", found=text) from None
    if not words or not words[0]:
        raise WrongUse("--command", "an empty command", expected="a program and its arguments", found=repr(text))
    return [_program(words[0], taken), *(_file(word, taken) for word in words[1:])]


def _program(word: str, taken: _Taken) -> str:
    """A program as the plan names it: by its name alone where a run finds the same file, else by its whole path."""
    path = shutil.which(word)
    if path is None:
        shown = "a word such as | or > needs a shell: 'sh -c \"...\"'" if re.search(r"[|&;<>]", word) else "install it"
        raise Missing(
            f"--command: {word}",
            "no such program",
            expected="one in a folder of PATH, or a path of a file that may be executed",
            remedy=shown,
        )
    if os.path.basename(word) in _SEE_NULL:
        taken.notes.append(
            f"{word} may notice that its output goes to /dev/null and then do less: let something read it, "
            f"as in sh -c '{os.path.basename(word)} ... | cat > /dev/null'"
        )
    found = shutil.which(word, path=RUN_PATH)
    if "/" not in word and found and os.path.samefile(found, path):
        return word
    whole = os.path.abspath(path)
    if whole != word:
        taken.notes.append(
            f"{word} is written as {whole}: a run finds no other programs by name than those in {RUN_PATH}"
        )
    return whole


def _file(word: str, taken: _Taken) -> str:
    """A word that names a file becomes one in harness/, so that the campaign is whole; other words stay."""
    path = Path(word)
    if word.startswith("-") or not path.is_file():
        if word and not word.startswith("-") and path.exists() and not path.is_absolute():
            taken.notes.append(f"{word} is written as {path.absolute()}: a command starts in an empty folder")
            return str(path.absolute())
        return word
    if path.stat().st_size > LARGEST:
        taken.notes.append(
            f"{word} is written as {path.absolute()}, and its bytes are not sealed: it is larger than 16 MiB"
        )
        return str(path.absolute())
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", path.name)[-60:]
    name = name if FILE_NAME.match(name) else f"file{name}"
    if taken.origins.get(name, path.resolve()) != path.resolve() or (
        name in taken.harness and name not in taken.origins
    ):
        raise WrongUse(
            f"--command: {word}",
            "another file of this name is taken in already",
            expected="files with different names",
            found=name,
            remedy="copy one of them under another name",
        )
    if name not in taken.origins:
        taken.notes.append(f"{word} is copied to harness/{name}, where the seal covers it")
    taken.origins[name], taken.harness[name] = path.resolve(), path.read_bytes()
    return f"{{harness}}/{name}"


def _shown(words: Sequence[str]) -> str:
    return " ".join(word if re.fullmatch(r"\{harness\}/[A-Za-z0-9_.-]+", word) else shlex.quote(word) for word in words)


def _tree_name(program: str) -> str:
    """A name for a program's tree."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", os.path.basename(program)).lstrip("._-")[:64] or "program"


def _tree(name: str, program: str) -> str:
    version = f"version = [{quoted([program, '--version'])}]\n" if program in _VERSIONS else ""
    hint = (
        "" if version else f"# version = [{quoted([program, '--version'])}]   # what it says of itself, for the page\n"
    )
    return (
        "# The file of a program as it is found when the campaign is sealed: any other one is refused at every later run.\n"
        f'[trees.{name if re.fullmatch("[A-Za-z0-9_-]+", name) else quoted(name)}]\nkind = "programs"\n'
        f"what = {quoted(f'{os.path.basename(program)} of this host')}\nprograms = {quoted([program])}\n{version}{hint}"
    )


def sample() -> bytes:
    """A text of 1.2 MB in lines, the same everywhere: hexadecimal digits, of which half can be compressed away."""
    digits = hashlib.shake_256(b"sample").hexdigest(600_000)
    return "".join(f"{digits[start : start + 79]}\n" for start in range(0, len(digits), 79)).encode()
