"""What the parts of a plan are made of: names, numbers, texts and paths, each with its bounds."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

UNDEFINED = "undefined"  # what a plan says where it was never known, as of a campaign that others published
OPEN = {UNDEFINED: True}  # the context in which a plan may say so


def _or_undefined(value: Any, handler: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
    """In an open plan "undefined" stands where a value's type would."""
    return UNDEFINED if value == UNDEFINED and info.context == OPEN else handler(value)


MayBeUndefined = WrapValidator(_or_undefined)
Place = tuple[str | int, ...]  # of a key in a plan
Problem = tuple[Place, str]
RUN_FILES = ("stdout.txt", "stderr.txt", "run.json")  # of every run
LARGEST = 10**12  # of any number among parameters and switches: more is a slip, and would fill memory or disk

Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
CaseName = Annotated[str, StringConstraints(pattern=r"^[^\s\x00-\x1f\x7f]{1,120}$")]
Text = Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=r"^[^\x00-\x08\x0b-\x1f\x7f]+$")]
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]{0,1000}$")]  # of text, or nothing
Contrast = Annotated[str, StringConstraints(pattern=r"^[^/\s]+/[^/\s]+$")]
IntervalKind = Annotated[Literal["t", "percentile"], MayBeUndefined]
Size = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST, allow_inf_nan=False)]
Word = Annotated[str, StringConstraints(pattern=r"^[^\x00]{0,4096}$")]  # of a command
Scalar = bool | Size | Number | Word
Seed = Annotated[int, Field(ge=0, lt=2**63), MayBeUndefined]
Ratio = Annotated[float, Field(gt=0, le=LARGEST, allow_inf_nan=False), MayBeUndefined]
Seconds = Annotated[float, Field(gt=0, le=7 * 86_400), MayBeUndefined]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False), MayBeUndefined]


def _inside(path: str) -> str:
    if any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"path {path!r} leaves its folder, or is not in its shortest form")
    return path


def _cpus(text: str) -> str:
    for part in text.split(","):
        first, _, last = part.partition("-")
        if not int(first) <= int(last or first) < 8192:
            raise ValueError(f"{part!r} is no range of CPU numbers")
    return text


CpuList = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$"),
    AfterValidator(_cpus),
    MayBeUndefined,
]
FILE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$")
FileName = Annotated[str, StringConstraints(pattern=FILE_NAME.pattern)]
Parameters = dict[Name, Scalar | tuple[Size, ...]]
Words = Annotated[tuple[Word, ...], Field(min_length=1, max_length=200)]
Switches = dict[Name, Scalar | Words]
Environment = dict[Annotated[str, StringConstraints(pattern=r"^[A-Z][A-Z0-9_]{0,127}$")], Word]


def _with_program(argv: tuple[str, ...]) -> tuple[str, ...]:
    if not argv[0].strip():
        raise ValueError(f"expected the name of a program as the first word, found {argv[0]!r}")
    return argv


Argv = Annotated[tuple[Word, ...], Field(min_length=1, max_length=200), AfterValidator(_with_program)]
Count = Annotated[int, Field(ge=0, le=LARGEST), MayBeUndefined]
Version = Annotated[str, StringConstraints(pattern=r"^([0-9A-Za-z][0-9A-Za-z.+~-]{0,63})?$")]  # of an engine; no path
RelativePath = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_./-]{0,199}$"), AfterValidator(_inside)
]

_PASSWORD = re.compile(r"://[^/@]*:[^/@]*@|^https?://[^/@]*@", re.IGNORECASE)  # a token may stand where a user does


def _public(address: str) -> str:
    """A plan is published, and with it the address."""
    if _PASSWORD.search(address):
        raise ValueError("an address with a password in it: expected one without, git asks its own helpers")
    return address


def _laid(path: str) -> str:
    if ".git" in path.lower().split("/"):
        raise ValueError(f"path {path!r} lies in git's own folder")
    return path


def _known_kind(value: object) -> object:
    if value not in ("packages", "git", "programs"):
        raise ValueError(f'expected "packages", "git" or "programs", found {value!r}')
    return value


Repository = Annotated[
    str, StringConstraints(pattern=r"^[^\x00-\x20\x7f-][^\x00-\x1f\x7f]{0,999}$"), AfterValidator(_public)
]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40}$"), MayBeUndefined]
LaidPath = Annotated[RelativePath, AfterValidator(_laid)]
# A name to be looked for, or a whole path; no comma, for {programs} is their list.
Program = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.+-]{0,99}|/[^\x00-\x1f\x7f,]{1,999})$")]
OfPackages = Annotated[Literal["packages"], BeforeValidator(_known_kind)]  # the kind that an unknown one is taken for


class PlanPart(BaseModel):
    """Base of every part of a plan: frozen, strict types, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def defined(value: object) -> bool:
    """Whether a value of an open plan is known."""
    return value != UNDEFINED
