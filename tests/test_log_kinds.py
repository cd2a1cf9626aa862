"""Every kind of raw log that Go, a shell or an editor makes: the right record, or a fault with its line; never in silence.

The logs of tests/logs/kinds are of `go test` itself where it makes that kind, and by hand where it takes an accident.
To accept a change that is meant, write what was found into the .json file beside the log, and read it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from runner import adoptgo
from runner.benchfmt import Fault, parse
from runner.errors import DataError

KINDS = sorted((Path(__file__).parent / "logs" / "kinds").glob("*.txt"))


def read(data: bytes) -> dict[str, Any]:
    """What a log is, by the reader of the format; and case by case, as it is when it is adopted."""
    log = parse(data)

    def shown(faults: tuple[Fault, ...]) -> list[str]:
        return [f"{fault.line}: {fault.kind}: {fault.text[:160]}" for fault in faults]

    return {
        "records": [
            f"{r.line}: {r.package} {r.name} {r.iterations} {' '.join(f'{value!r} {unit}' for value, unit in r.values)}"
            for r in log.records
        ],
        "faults": shown(log.faults),
        "warnings": shown(log.warnings),
        "text": list(log.text),
        "better": log.better,
        "assume": log.assume,
        "adopted": adopted(data),
    }


def adopted(data: bytes) -> list[str]:
    try:
        found = adoptgo.read(data, "a.txt")
    except DataError as error:
        return str(error).splitlines()
    runs = [
        f"process {piece.process}, {piece.package} {piece.name}: "
        + (piece.problem[:160] or " ".join(f"{value.value!r} {value.metric}" for value in piece.values))
        for piece in found.pieces
    ]
    return [*runs, *(f"note: {note[:200]}" for note in found.notes)]


@pytest.mark.parametrize("path", KINDS, ids=lambda path: path.stem)
def test_each_kind_of_log_is_read_or_named(path: Path) -> None:
    """A log of this kind gives the records, faults and warnings of its golden file, each with its line."""
    found = json.dumps(read(path.read_bytes()), indent=1, ensure_ascii=False) + "\n"
    assert found == path.with_suffix(".json").read_text(encoding="utf-8")
