"""A closed-loop client of the standard library alone: each operation looks a value up in a dictionary."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import struct
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Pass = tuple[list[list[int]], list[bytes], int, int, int]  # of one repeat: times, answers, start, end, CPU time
REQUIRED = ("payload_seed", "workers", "warmup_operations", "measured_operations")


def cell(ns: int) -> int:  # 3 significant digits: 1024 cells in each doubling, the first 2048 one wide
    bucket = max(ns.bit_length() - 11, 0)
    return (bucket << 10) + (ns >> bucket)


def high(number: int) -> int:  # the highest value of a cell
    bucket = max((number >> 10) - 1, 0)
    return ((number - (bucket << 10) + 1) << bucket) - 1


def payload(
    times: Iterable[int],
) -> str:  # HdrHistogram V2: counts, and negative runs of zeros, in ZigZag LEB128; zlib; base64
    body, before = bytearray(), 0
    for number, count in sorted(Counter(map(cell, times)).items()):
        words = [((number - before) << 1) - 1] if number > before else []
        for word in [*words, count << 1]:
            while word > 127:
                body.append(word & 127 | 128)
                word >>= 7
            body.append(word)
        before = number + 1
    data = zlib.compress(struct.pack(">IIIIQQd", 0x1C849313, len(body), 0, 3, 1, 60_000_000_000, 1.0) + body)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(data)) + data).decode()


def percentile(numbers: Sequence[int], share: float) -> int:
    return high(numbers[max(int(share * len(numbers) / 100 + 0.5), 1) - 1])


# closed loop: an operation begins when the one before has ended
def run_workers(store: Mapping[int, bytes], first: int, operations: int, workers: int) -> Pass:
    times, found = [[0] * operations for _ in range(workers)], [b""] * workers

    def loop(worker: int) -> None:
        for n in range(operations):
            start = time.perf_counter_ns()
            found[worker] = store[(first + n) % len(store)]
            times[worker][n] = time.perf_counter_ns() - start

    threads = [threading.Thread(target=loop, args=(worker,)) for worker in range(workers)]
    start = time.perf_counter_ns(), time.process_time_ns()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times, found, start[0], time.perf_counter_ns(), time.process_time_ns() - start[1]


def measure(case: str, repeats: int, given: Mapping[str, Any], folder: str) -> int:
    stamps: list[tuple[int, int]] = []

    def stamp() -> None:
        stamps.append((time.perf_counter_ns(), time.process_time_ns()))

    with open(__file__, "rb") as source:
        own = hashlib.sha256(source.read()).hexdigest()
    stamp()  # A: own files hashed
    values = [hashlib.shake_256(f"{given['payload_seed']}/{n}".encode()).digest(100) for n in range(100)]
    stamp()  # B: client imported, connections made
    store = dict(enumerate(values))
    if given.get("corrupt"):
        store = dict.fromkeys(store, b"damaged")
    workers, warmup, count = given["workers"], given["warmup_operations"], given["measured_operations"]
    run_workers(store, 0, warmup, workers)
    stamp()  # C: fixture made, warmed up
    passes = [run_workers(store, warmup + repeat * count, count, workers) for repeat in range(repeats)]
    stamp()  # D: the last repeat
    for repeat, (_, found, *_) in enumerate(passes):
        if set(found) != {values[(warmup + (repeat + 1) * count - 1) % len(values)]}:
            print(f"--- FAIL: Benchmark{case}\n    repeat {repeat}: not the value that was stored")
            return 3
    stamp()  # E: answers compared, connections closed
    lines = {"client": "dictionary", "client-version": "1", "own-files-sha256": own, "workers": workers}
    lines["payload-sha256"] = hashlib.sha256(b"".join(values)).hexdigest()
    lines["checked-sha256"] = hashlib.sha256(b"".join(done[1][0] for done in passes)).hexdigest()
    lines |= {
        f"stage-{name}": f"{wall - stamps[0][0]} {cpu}" for name, (wall, cpu) in zip("abcde", stamps, strict=True)
    }
    print(*(f"{key}: {value}" for key, value in lines.items()), sep="\n")
    with open(os.path.join(folder, "latency.hlog"), "w", encoding="ascii") as file:
        file.write("#[Histogram log format version 1.3]\n")
        file.write('"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n')
        for repeat, (times, _, start, end, _) in enumerate(passes):
            for worker, own_times in enumerate(times):
                when = f"{(start - stamps[0][0]) / 1e9:.6f},{(end - start) / 1e9:.6f}"
                top = high(cell(max(own_times)))
                file.write(f"Tag=repeat-{repeat}-worker-{worker},{when},{top},{payload(own_times)}\n")
    for times, *_ in passes:
        mean = sum(map(sum, times)) / (workers * count)
        print(f"Benchmark{case} {workers * count} {mean:.1f} ns/op")
    total = repeats * workers * count
    numbers = sorted(cell(ns) for times, *_ in passes for own_times in times for ns in own_times)
    shares = {f"p{share:g}-ns": percentile(numbers, share) for share in (50, 90, 99, 99.9)}
    units: dict[str, object] = {**shares, "max-ns": high(numbers[-1])}
    units["cpu-E-A-ns/op"] = f"{(stamps[4][1] - stamps[0][1]) / total:.1f}"
    units["cpu-measured-ns/op"] = f"{sum(done[4] for done in passes) / total:.1f}"
    print(f"Benchmark{case} {total} {' '.join(f'{value} {unit}' for unit, value in units.items())}")
    return 0


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()  # ends with status 2 by itself when an option is wrong
    parser.add_argument("--case", required=True, choices=["lookup"])
    parser.add_argument("--repeats", required=True, type=int)
    parser.add_argument("--switches", default="{}")
    parser.add_argument("--parameters", required=True)
    parser.add_argument("--output", required=True)
    options = parser.parse_args(argv)
    given = json.loads(options.parameters)
    problems = [f"missing parameter {name}" for name in REQUIRED if name not in given]
    problems += [f"unknown parameter {name}" for name in given if name not in (*REQUIRED, "corrupt")]
    problems += [f"unknown switch {name}" for name in json.loads(options.switches)]
    problems += [f"parameter {name} is no whole number" for name, value in given.items() if not isinstance(value, int)]
    if problems or options.repeats < 1:
        print(*problems, sep="\n", file=sys.stderr)
        return 2
    return measure(options.case, options.repeats, given, options.output)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
