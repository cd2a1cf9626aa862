"""The process that carries bytes and holds each back for a fixed time.

    python -I -S shuttle.py tun DELAY_US SPIN_CPUS SERVER_NAMESPACE CLIENT_NAMESPACE
    python -I -S shuttle.py relay DELAY_US SPIN_CPUS ADDRESS
    python -I -S shuttle.py probe

`tun` opens a TUN device in each of two network namespaces and carries packets between them. `relay` listens at an address
and carries the bytes of TCP connections to another port there. SPIN_CPUS are CPU numbers joined by commas, or "".

It prints one line of JSON when ready, takes orders from standard input, one a line, answers each with one line of JSON,
and ends when standard input ends: so it cannot outlive its runner. Orders: `delay US`, `reach PORT`, `leave PORT`,
`rest`, `work`.
Standard library alone, because it is started with neither site packages nor the project on its path.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

SPIN_NS = 30_000  # before each deadline it polls instead of sleeping, since waking up takes about as long
PR_SET_PDEATHSIG, PR_SET_TIMERSLACK = 1, 29
CLONE_NEWNET = 0x40000000
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0
IFF_TUN, IFF_NO_PI, IFF_VNET_HDR = 0x0001, 0x1000, 0x4000
TUN_F_CSUM, TUN_F_TSO4 = 0x01, 0x02
DEVICE = b"bb-tun"
LARGEST_READ = 1 << 17  # a packet of 64 KiB and its header, with room
READS_AT_ONCE = 8  # so that a burst on one side does not keep what is due from leaving
RELAY_READ = 1 << 18
RELAY_HELD = 1 << 23  # bytes under way in one direction; more stay with their sender


class Loop:
    """Waits for what can be read and for what is due, whichever comes first. Bytes leave in the order of their arrival."""

    def __init__(self, delay_us: int) -> None:
        self.delay_ns = delay_us * 1000
        self.readers: dict[Any, Callable[[], None]] = {}
        self.writers: dict[Any, Callable[[], None]] = {}
        self._due: deque[tuple[int, Callable[[bytes], None], bytes]] = deque()

    def later(self, deliver: Callable[[bytes], None], data: bytes) -> None:
        """Deliver after the delay, counted from now."""
        self._due.append((time.monotonic_ns() + self.delay_ns, deliver, data))

    def run(self) -> None:
        """For ever; an order ends the process."""
        due, clock = self._due, time.monotonic_ns
        while True:
            timeout: float | None = None
            while due:
                left = due[0][0] - clock()
                if left > 0:
                    timeout = max(0, left - SPIN_NS) / 1e9
                    break
                _, deliver, data = due.popleft()
                deliver(data)
            readable, writable, _ = select.select(self.readers, self.writers, (), timeout)
            for source in readable:
                if source in self.readers:  # the one before may have closed it
                    self.readers[source]()
            for target in writable:
                if target in self.writers:
                    self.writers[target]()


# -- TUN


def open_tun() -> int:
    """A TUN device in the current network namespace; it goes when its descriptor does.

    The kernel hands over segments of up to 64 KiB, as it does between two ends of a veth pair, though the MTU is 1500: so
    connections behave as over veth, and a bulk transfer takes few system calls. Raises OSError.
    """
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE, IFF_TUN | IFF_NO_PI | IFF_VNET_HDR))
    fcntl.ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4)
    return device


def enter_network(namespace: str) -> None:
    """Go to another network namespace. Raises OSError."""
    descriptor = os.open(namespace, os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns {namespace}")
    os.close(descriptor)


def join_tuns(loop: Loop, namespaces: list[str]) -> None:
    """Carry packets between a new device in each of the namespaces."""
    devices = []
    for namespace in namespaces:
        enter_network(namespace)
        devices.append(open_tun())

    def carry(source: int, target: int) -> None:
        def deliver(packet: bytes) -> None:
            # EIO while the other device is not up yet: a packet that a cable without its other end would lose too.
            with contextlib.suppress(OSError):
                os.write(target, packet)

        def read() -> None:
            with contextlib.suppress(OSError):
                for _ in range(READS_AT_ONCE):
                    loop.later(deliver, os.read(source, LARGEST_READ))

        loop.readers[source] = read

    carry(devices[0], devices[1])
    carry(devices[1], devices[0])


# -- relay


class Connection:
    """A client's connection and the one made for it to the server."""

    def __init__(self, loop: Loop, client: socket.socket, server: socket.socket) -> None:
        self._loop, self._sockets, self._ended = loop, (client, server), 0
        for end in self._sockets:
            end.setblocking(False)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        Way(loop, self, client, server)
        Way(loop, self, server, client)

    def one_way_ended(self) -> None:
        """Close once both directions have ended."""
        self._ended += 1
        if self._ended == 2:
            self.close()

    def close(self) -> None:
        """At once, also when one side was reset: then the other one ends too."""
        for end in self._sockets:
            self._loop.readers.pop(end, None)
            self._loop.writers.pop(end, None)
            end.close()


class Way:
    """One direction of a connection."""

    def __init__(self, loop: Loop, connection: Connection, source: socket.socket, target: socket.socket) -> None:
        self._loop, self._connection, self._source, self._target = loop, connection, source, target
        self._waiting: deque[bytes] = deque()  # due, and not yet taken by the target
        self._held = 0
        self._ended = False
        loop.readers[source] = self.read

    def read(self) -> None:
        """Take what has arrived; b"" is the end of this direction and waits its turn like any bytes."""
        try:
            data = self._source.recv(RELAY_READ)
        except BlockingIOError:
            return
        except OSError:
            self._connection.close()
            return
        self._held += len(data)
        self._ended = not data
        if self._ended or self._held > RELAY_HELD:
            del self._loop.readers[self._source]
        self._loop.later(self.deliver, data)

    def deliver(self, data: bytes) -> None:
        """Send what is due."""
        self._waiting.append(data)
        self.flush()

    def flush(self) -> None:
        """Send as much as the target takes now."""
        if self._target.fileno() < 0:
            return
        try:
            while self._waiting:
                data = self._waiting[0]
                if not data:
                    self._waiting.clear()
                    self._target.shutdown(socket.SHUT_WR)
                    self._loop.writers.pop(self._target, None)
                    self._connection.one_way_ended()
                    return
                sent = self._target.send(data)
                self._held -= sent
                self._waiting.popleft()
                if sent < len(data):
                    self._waiting.appendleft(data[sent:])
        except BlockingIOError:
            self._loop.writers[self._target] = self.flush
            return
        except OSError:
            self._connection.close()
            return
        self._loop.writers.pop(self._target, None)
        if not self._ended and self._held <= RELAY_HELD:
            self._loop.readers[self._source] = self.read


def listen(loop: Loop, address: str, port: int) -> socket.socket:
    """Carry connections to a port of this address from a new one, whose listener is returned."""
    listener = socket.create_server((address, 0), backlog=128)
    listener.setblocking(False)

    def accept() -> None:
        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            try:
                server = socket.create_connection((address, port), timeout=5)
            except OSError:
                client.close()
                return
            Connection(loop, client, server)

    loop.readers[listener] = accept
    return listener


# -- the process


def start_spinner(cpu: int) -> int | None:
    """A process that keeps one CPU out of its idle state while nothing else wants it; None where that cannot be had.

    A virtual CPU that is idle is taken away by the host, and comes back late. Everything else goes before this process: it has
    the policy SCHED_IDLE, and where the kernel shares CPU time between sessions, its session has the smallest share.
    """
    parent = os.getpid()
    reader, writer = os.pipe()
    child = os.fork()
    if child:
        os.close(writer)
        ready = os.read(reader, 1)
        os.close(reader)
        if not ready:
            os.waitpid(child, 0)
        return child if ready else None
    try:  # pragma: no cover - in the forked child, which is killed and leaves no count
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(nothing, descriptor)
        os.setsid()
        os.sched_setaffinity(0, {cpu})
        os.nice(19)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        smallest_share()
        if os.getppid() == parent:
            os.write(writer, b"1")
            while True:
                pass
    finally:  # pragma: no cover
        os._exit(1)


def smallest_share() -> None:  # pragma: no cover - called in the forked child alone
    """Give this session the smallest share of CPU time, where the kernel shares it between sessions. Raises OSError."""
    for attempt in range(5):
        try:
            with contextlib.suppress(FileNotFoundError), open("/proc/self/autogroup", "w") as file:
                file.write("19")
            return
        except BlockingIOError:  # without root the kernel takes one such change in 0.1 s
            if attempt == 4:
                raise
            time.sleep(0.11)


def tighten() -> str:
    """Make waking up as punctual as this user may. Returns the scheduling policy."""
    gc.disable()
    ctypes.CDLL(None).prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        return "other"
    return "fifo"


def answer(what: object) -> None:
    """One line to the runner."""
    os.write(1, json.dumps(what).encode() + b"\n")


def take_orders(loop: Loop, spinners: list[int], address: str) -> Callable[[], None]:
    """What to do when standard input can be read."""
    listeners: dict[int, socket.socket] = {}

    def orders() -> None:
        data = os.read(0, 4096)
        if not data:
            for spinner in spinners:
                os.kill(spinner, signal.SIGKILL)
                os.waitpid(spinner, 0)
            os._exit(0)
        for line in data.decode().splitlines():
            order, _, argument = line.partition(" ")
            if order == "delay":
                loop.delay_ns = int(argument) * 1000
                answer("ok")
            elif order == "reach":
                listeners[int(argument)] = listen(loop, address, int(argument))
                answer(listeners[int(argument)].getsockname()[1])
            elif order == "leave":
                listener = listeners.pop(int(argument))
                del loop.readers[listener]
                listener.close()
                answer("ok")
            elif order in ("rest", "work"):
                for spinner in spinners:
                    os.kill(spinner, signal.SIGSTOP if order == "rest" else signal.SIGCONT)
                answer("ok")

    return orders


def main() -> None:
    """Carry what the command line names."""
    if sys.argv[1] == "probe":
        open_tun()
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # from the terminal; the runner decides when this ends
    role, delay_us, spin, *rest = sys.argv[1:]
    loop = Loop(int(delay_us))
    started = {cpu: start_spinner(cpu) for cpu in map(int, filter(None, spin.split(",")))}
    spinners = {cpu: pid for cpu, pid in started.items() if pid is not None}
    if role == "tun":
        join_tuns(loop, rest)
    loop.readers[0] = take_orders(loop, list(spinners.values()), rest[0])
    answer({"scheduler": tighten(), "spinners": sorted(spinners)})
    loop.run()


if __name__ == "__main__":
    main()
