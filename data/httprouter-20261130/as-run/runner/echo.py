"""Echoes of 64 bytes over TCP: both halves of a measurement of round trips.

    python -I -S echo.py serve LIMIT_S ADDRESS             prints its port, answers one connection, ends with it
    python -I -S echo.py ask LIMIT_S ADDRESS PORT SAMPLES  prints the round trips in ns as a list

Each half is a process of its own, so that each can be at its end of the network and on its CPUs. Standard library alone.
"""

from __future__ import annotations

import gc
import json
import signal
import socket
import sys
import time

SIZE = 64
WARM_UP = 10
BUDGET_NS = 5_000_000_000  # with a long delay fewer samples are taken, but never fewer than
AT_LEAST = 20


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly so many bytes; fewer when the other side has ended."""
    data = b""
    while len(data) < size and (more := connection.recv(size - len(data))):
        data += more
    return data


def serve(address: str) -> None:
    """Answer one connection with what it sends, until it ends."""
    with socket.create_server((address, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while len(data := receive(connection, SIZE)) == SIZE:
            connection.sendall(data)


def ask(address: str, port: int, samples: int) -> list[int]:
    """Round trips in ns, one after the other; raises ConnectionError when an answer is not what was sent."""
    found: list[int] = []
    with socket.create_connection((address, port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.perf_counter_ns()
        for number in range(-WARM_UP, samples):
            sent = number.to_bytes(SIZE, "big", signed=True)
            start = time.perf_counter_ns()
            connection.sendall(sent)
            answer = receive(connection, SIZE)
            end = time.perf_counter_ns()
            if answer != sent:
                raise ConnectionError(f"echo {number}: the answer is not what was sent")
            if number >= 0:
                found.append(end - start)
            if end - begun > BUDGET_NS and len(found) >= AT_LEAST:
                break
    return found


def main() -> None:
    """The half that the command line names, ended by an alarm when the other half is lost."""
    role, limit_s, address, *rest = sys.argv[1:]
    signal.alarm(int(limit_s))
    gc.disable()
    if role == "serve":
        serve(address)
    else:
        print(json.dumps(ask(address, int(rest[0]), int(rest[1]))))


if __name__ == "__main__":
    main()
