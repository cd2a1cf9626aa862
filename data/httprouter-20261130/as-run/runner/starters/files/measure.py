"""Measures one function in one process and prints Go benchmark text. Replace the functions by what you compare."""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import platform
import sys
import time
from collections.abc import Callable, Sequence

REQUIRED = ("payload_seed", "words", "warmup", "operations")


def growing(words: Sequence[str]) -> str:
    """One text of all words, longer word by word."""
    text = ""
    for word in words:
        text += word + " "
    return text


def joined(words: Sequence[str]) -> str:
    """The same text, at once."""
    return " ".join(words) + " "


FUNCTIONS: dict[str, Callable[[Sequence[str]], str]] = {"growing": growing, "joined": joined}


def main(argv: Sequence[str]) -> int:
    """Measure one case. Exit status: 0 done, 2 wrong use, 3 wrong answer."""
    parser = argparse.ArgumentParser()  # ends with status 2 by itself when an option is wrong
    parser.add_argument("--case", required=True)
    parser.add_argument("--repeats", required=True, type=int)
    parser.add_argument("--switches", required=True)
    parser.add_argument("--parameters", required=True)
    options = parser.parse_args(argv)
    switches, given = json.loads(options.switches), json.loads(options.parameters)
    if set(switches) != {"function"} or switches["function"] not in FUNCTIONS or set(given) != set(REQUIRED):
        print(f"expected the switch function, one of {', '.join(FUNCTIONS)}, and the parameters", file=sys.stderr)
        print(f"{', '.join(REQUIRED)}; found {options.switches} and {options.parameters}", file=sys.stderr)
        return 2
    function = FUNCTIONS[switches["function"]]
    words = [
        hashlib.shake_256(f"{given['payload_seed']}/{number}".encode()).hexdigest(4) for number in range(given["words"])
    ]
    for _ in range(given["warmup"]):
        function(words)
    times, answer = [], ""
    for _ in range(options.repeats):
        gc.collect()
        start = time.perf_counter_ns()
        for _ in range(given["operations"]):
            answer = function(words)
        times.append((time.perf_counter_ns() - start) / given["operations"])
    if answer.split() != words:  # compared after all timing, and printed before any result
        print(f"--- FAIL: Benchmark{options.case}\n    not the words that were given")
        return 3
    print(f"python: {platform.python_version()}")
    print(f"answer-sha256: {hashlib.sha256(answer.encode()).hexdigest()}")
    for ns in times:
        print(f"Benchmark{options.case} {given['operations']} {ns:.1f} ns/op")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
