"""The minimal client with one thing broken, as its first argument says: for tests of `conform`."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import secrets
import struct
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "runner" / "starters" / "files"))

import client as minimal_client

LOG = "latency.hlog"
Edit = Callable[[str], str]


def sub(pattern: str, replacement: str | Callable[[re.Match[str]], str]) -> Edit:
    """Change the first match; one there has to be, so that no variant is whole by mistake."""

    def edit(text: str) -> str:
        text, count = re.subn(pattern, replacement, text, count=1, flags=re.MULTILINE)
        assert count == 1, pattern
        return text

    return edit


def added(unit: str, difference: float) -> Edit:
    """Another value of a unit, the first time that it is there."""
    return sub(rf"[0-9.]+ {unit}", lambda match: f"{float(match[0].split()[0]) + difference:g} {unit}")


def stages_swapped(text: str) -> str:
    first, second = (re.search(rf"^stage-{name}: (.*)$", text, re.MULTILINE) for name in "bc")
    assert first and second
    return sub("^stage-c: .*$", f"stage-c: {first[1]}")(sub("^stage-b: .*$", f"stage-b: {second[1]}")(text))


def stage_c_late(text: str) -> str:
    """C 1 ns before D: what was measured does not fit between them."""
    found = re.search(r"^stage-d: ([0-9]+) ", text, re.MULTILINE)
    assert found
    return sub("^stage-c: [0-9]+ ", f"stage-c: {int(found[1]) - 1} ")(text)


def other_highest(text: str) -> str:
    """The first histogram with another highest value in its header."""

    def repack(match: re.Match[str]) -> str:
        inner = bytearray(zlib.decompress(base64.b64decode(match[0])[8:]))
        struct.pack_into(">Q", inner, 24, 3_600_000_000_000)
        data = zlib.compress(bytes(inner))
        return base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()

    return sub(r"HIST\S+", repack)(text)


def one_more(text: str) -> str:
    """The first histogram with one value more than was measured."""
    match = re.search(r",([0-9]+),HIST", text)
    assert match
    return sub(r"[0-9]+,HIST\S+", f"{match[1]},{minimal_client.payload([0, int(match[1])] + [1] * 99)}")(text)


STDOUT: dict[str, Edit] = {
    "text-format": lambda text: text + "Benchmarklookup 10 fast ns/op\n",
    "case-name": sub("^Benchmarklookup", "Benchmarkother"),
    "repeat-lines": sub(r"^Benchmark\S+ [0-9]+ \S+ ns/op\n", ""),
    "run-line": sub(r" \S+ p99\.9-ns", ""),
    "operations": sub(r"^Benchmarklookup [0-9]+", "Benchmarklookup 110"),
    "values": sub(r"max-ns", "max-ns -1 B/op"),
    "configuration": sub("^own-files-sha256: .*\n", ""),
    "configuration-workers": sub("^workers: .*$", "workers: 7"),
    "configuration-digest": sub("^own-files-sha256: .*$", "own-files-sha256: 1234"),
    "same-answers": sub("^checked-sha256: .*$", lambda _: f"checked-sha256: {secrets.token_hex(32)}"),
    "other-payload": sub("^payload-sha256: .*$", f"payload-sha256: {'0' * 64}"),
    "stages": sub("^stage-b: .*\n", ""),
    "stages-origin": sub("^stage-a: 0", "stage-a: 5"),
    "stage-order": stages_swapped,
    "stage-clock": sub("^stage-e: ", "stage-e: 99999"),
    "stage-length": stage_c_late,
    "cpu-total": added("cpu-E-A-ns/op", 100),
    "cpu-measured": added("cpu-measured-ns/op", 1e9),
    "percentiles": added("p90-ns", 1),
    "mean": added("ns/op", -5),
}
LOGS: dict[str, Edit] = {
    "log-header": sub("version 1.3", "version 1.2"),
    "log-header-legend": sub('^"Start.*\n', ""),
    "log-lines": lambda text: text + "0.1,0.2\n",
    "log-tags": sub("Tag=repeat-0-worker-0", "Tag=repeat-9-worker-0"),
    "log-tags-none": sub("Tag=repeat-0-worker-0,", ""),
    "log-decodes": sub(r"HIST(\S{40})\S*", r"HIST\1"),
    "log-decodes-base64": sub("HIST", "HIST-"),
    "log-layout": other_highest,
    "log-counts": one_more,
    "log-max": sub(r"[0-9]+,HIST", "999999999,HIST"),
    "log-times": sub(r"(worker-0),[0-9.]+", r"\1,0.000000"),
    "closed-loop": sub(r"(worker-0,[0-9.]+),[0-9.]+", r"\1,0.000000"),
}
WRONG_USE = {
    "unknown-parameter": "no_such_parameter",
    "missing-parameter": "missing parameter",
    "unknown-case": "invalid choice",
    "unknown-switch": "unknown switch",
}


def main(variant: str, argv: list[str]) -> int:
    folder = Path(argv[argv.index("--output") + 1])
    corrupt = "corrupt" in json.loads(argv[argv.index("--parameters") + 1])
    if variant == "hang" and not corrupt:
        time.sleep(60)
    if variant == "not-declared" and corrupt:
        print("unknown parameter corrupt", file=sys.stderr)
        return 2
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            status = minimal_client.main(argv)
        except SystemExit as ended:
            status = int(str(ended.code))
    text, log = stdout.getvalue(), folder / LOG
    if status == 0:
        text = STDOUT.get(variant, str)(text)
        log.write_text(LOGS.get(variant, str)(log.read_text()))
        if variant == "log-alone":
            (folder / "notes.txt").write_text("x")
        if variant == "log-there":
            log.unlink()
        status = 1 if variant == "done" else 0
    elif status == 2 and variant in WRONG_USE and WRONG_USE[variant] in stderr.getvalue():
        status = 0
    elif status == 2 and variant == "unknown-parameter-unnamed" and "no_such_parameter" in stderr.getvalue():
        stderr = io.StringIO("something is wrong")
    elif status == 3 and variant == "wrong-answer":
        status = 0
    elif status == 3 and variant == "wrong-answer-log":
        log.write_text("")
    sys.stdout.write(text)
    sys.stderr.write(stderr.getvalue())
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
