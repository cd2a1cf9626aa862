"""A harness for tests of the runner. It measures nothing: its numbers are made up, a fixed function of its labels.

Every process appends one line to the file that TRACE names, so that a test can compare what really ran with what was
sealed. The parameter `faults` makes chosen runs fail: "kind:arm:block ...", with * for any arm or block. With PSQL in
its environment it also writes a row to the campaign's server and reads it back.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path


def made_up(case: str, arm: str, block: int, repeat: int) -> float:
    """The number that stands for a measurement: from 1000 to 2000, the same for the same labels."""
    digest = hashlib.sha256(f"{case}|{arm}|{block}|{repeat}".encode()).digest()
    return 1000 + int.from_bytes(digest[:2], "big") / 64


def fault_of(text: str, arm: str, block: int) -> str:
    """The kind of fault that these labels are to show; empty for none."""
    for entry in text.split():
        kind, for_arm, for_block = entry.split(":")
        if for_arm in ("*", arm) and for_block in ("*", str(block)):
            return kind
    return ""


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("case", "arm", "block", "repeats", "switches", "parameters"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    parameters = json.loads(options.parameters)
    trace(options)
    kind = fault_of(parameters.get("faults", ""), options.arm, int(options.block))
    print("note: simulated")
    print(f"switches: {options.switches}")
    print(f"rows: {parameters['rows'] - (kind == 'fewer')}", flush=True)  # a difference that nobody planned
    if "PSQL" in os.environ:
        use_server(kind)
    status = FAULTS[kind](options) if kind in FAULTS else None
    if status is None:
        status = results(options)
    return status


def trace(options: argparse.Namespace) -> None:
    line = json.dumps(
        {
            "pid": os.getpid(),
            "case": options.case,
            "arm": options.arm,
            "block": int(options.block),
            "cpus": sorted(os.sched_getaffinity(0)),
            "environment": sorted(os.environ),
        }
    )
    with open(os.environ["TRACE"], "a") as file:
        file.write(line + "\n")


def results(options: argparse.Namespace) -> int:
    for repeat in range(int(options.repeats)):
        value = made_up(options.case, options.arm, int(options.block), repeat)
        print(f"Benchmark{options.case} 10 {value!r} ns/op")
    print(f"Benchmark{options.case} 10 {made_up(options.case, options.arm, 0, 0)!r} B/op")
    return 0


def wrong(options: argparse.Namespace) -> int:
    results(options)
    print("read 9 rows, expected 10", file=sys.stderr)
    return 3


def broken(options: argparse.Namespace) -> int:
    results(options)
    print("first line\nthe last words of /some/folder/of/the/host/module.py", file=sys.stderr)
    return 1


def hang(_options: argparse.Namespace) -> int:
    print("is at work", flush=True)
    time.sleep(600)
    return 0


def with_child(options: argparse.Namespace, *, own_session: bool = False) -> subprocess.Popen[bytes]:
    """A child that would outlive this process; its number goes to a file beside TRACE."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=own_session)
    Path(os.environ["TRACE"] + f".child-{options.arm}-{options.block}").write_text(str(child.pid))
    return child


def hang_with_child(options: argparse.Namespace) -> int:
    with_child(options)
    return hang(options)


def leave_child(options: argparse.Namespace) -> None:
    with_child(options)


def leave_escaped_child(options: argparse.Namespace) -> None:
    with_child(options, own_session=True)


def malformed(options: argparse.Namespace) -> int:
    results(options)
    print(f"Benchmark{options.case} 10 fast ns/op")
    return 0


def cut_off(options: argparse.Namespace) -> int:
    results(options)
    sys.stdout.write(f"Benchmark{options.case} 10 12")
    return 0


def foreign(options: argparse.Namespace) -> int:
    options.case += "Other"
    return results(options)


def silent(_options: argparse.Namespace) -> int:
    return 0


def allocate(_options: argparse.Namespace) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
    return len(bytearray(1 << 30)) * 0


def end_by(number: int) -> int:
    sys.stdout.flush()
    os.kill(os.getpid(), number)
    time.sleep(60)
    return 0


def end_by_kill(options: argparse.Namespace) -> int:
    results(options)
    return end_by(signal.SIGKILL)


def end_by_unnamed_signal(_options: argparse.Namespace) -> int:
    return end_by(signal.SIGRTMIN + 1)


def forked() -> bool:
    """Fork; whether this is the child."""
    return os.fork() == 0


def daemon(options: argparse.Namespace) -> None:
    """A process that left parent, session and group, and does not end when it is asked to."""
    if forked():
        os.setsid()
        if forked():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            Path(os.environ["TRACE"] + f".child-{options.arm}-{options.block}").write_text(str(os.getpid()))
            time.sleep(600)
        os._exit(0)
    os.wait()
    while not Path(os.environ["TRACE"] + f".child-{options.arm}-{options.block}").exists():
        time.sleep(0.01)


def daemon_and_pause(options: argparse.Namespace) -> None:
    with_child(options)  # its number is overwritten: the daemon's is the one that is looked for first
    Path(os.environ["TRACE"] + f".child-{options.arm}-{options.block}").rename(os.environ["TRACE"] + ".child-group")
    daemon(options)
    pause(options)


def daemon_and_hang(options: argparse.Namespace) -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    daemon(options)
    return hang(options)


def stop(options: argparse.Namespace) -> int:
    return end_by(signal.SIGSTOP)


def eat(_options: argparse.Namespace) -> int:
    eaten = []
    while True:
        eaten.append(bytearray(os.urandom(1 << 20)))


def child_that_eats(options: argparse.Namespace) -> int:
    if forked():
        eat(options)
    return int(os.waitstatus_to_exitcode(os.wait()[1]) != 0)


def flood(_options: argparse.Namespace) -> int:
    while True:
        sys.stdout.write("flood\n" * 1000)


def heedless(options: argparse.Namespace, line: bytes = b"log: ") -> int:
    """Fill the disk of its standard output, give the results there without looking at errors, and end as if all were well."""

    def put(data: bytes) -> int:
        try:
            return os.write(1, data)
        except OSError:
            return 0

    sys.stdout.flush()
    for size in (1 << 20, 4096, 16):
        while put(line + b"x" * (size - 1 - len(line)) + b"\n") == size:
            pass
    return 0


def heedless_and_broken(options: argparse.Namespace) -> int:
    """Fill the disk, and end with a failure."""
    heedless(options, line=b"")
    return 1


def pause(options: argparse.Namespace) -> None:
    """Wait until the test lets it go on; it looks for the runner's end by kill -9, which ends this process too."""
    Path(os.environ["TRACE"] + ".paused").write_text(str(os.getpid()))
    deadline = time.monotonic() + 60
    while not Path(os.environ["TRACE"] + ".go").exists() and time.monotonic() < deadline:
        time.sleep(0.01)


FAULTS = {
    "exit": broken,
    "wrong": wrong,
    "hang": hang,
    "hang-child": hang_with_child,
    "child": leave_child,
    "escape": leave_escaped_child,
    "malformed": malformed,
    "cut": cut_off,
    "foreign": foreign,
    "silent": silent,
    "allocate": allocate,
    "kill": end_by_kill,
    "realtime": end_by_unnamed_signal,
    "pause": pause,
    "daemon": daemon,
    "daemon-pause": daemon_and_pause,
    "daemon-hang": daemon_and_hang,
    "stop": stop,
    "eat": eat,
    "child-eats": child_that_eats,
    "flood": flood,
    "heedless": heedless,
    "heedless-exit": heedless_and_broken,
}


def use_server(kind: str) -> None:
    def ask(text: str) -> str:
        command = [os.environ["PSQL"], "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", text]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    ask("CREATE TABLE entry (id int PRIMARY KEY, what text)")  # fails where the process before left its own
    ask("INSERT INTO entry SELECT n, 'x' FROM generate_series(1, 10) n")
    if ask("SELECT count(*) FROM entry") != "10":
        raise SystemExit(3)
    if kind == "crash-server":
        os.kill(int(ask("SELECT pg_read_file('postmaster.pid')").split()[0]), signal.SIGKILL)
        time.sleep(0.3)
    if kind == "crash-part":  # the server ends all connections and recovers by itself
        os.kill(int(ask("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'")), signal.SIGKILL)
        for _ in range(100):
            time.sleep(0.1)
            with contextlib.suppress(subprocess.CalledProcessError):
                ask("SELECT 1")
                break
    if kind in ("stop-server", "busy-backend"):
        postmaster = int(ask("SELECT pg_read_file('postmaster.pid')").split()[0])
        if kind == "busy-backend":  # a query that goes on, and a server that is gone
            asked = [os.environ["PSQL"], "-X", "-c", "SELECT count(*) FROM generate_series(1, 1000000000) n"]
            subprocess.Popen(asked, start_new_session=True)
            time.sleep(0.3)
        os.kill(postmaster, signal.SIGKILL if kind == "busy-backend" else signal.SIGSTOP)
        ask("SELECT 1")


if __name__ == "__main__":
    sys.exit(main())
