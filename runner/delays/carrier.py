"""The runner's side of the process that carries bytes: starts it, gives it orders, ends it."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runner.errors import BenchbookError, Refused
from runner.process import SYSTEM_PATH, call, pinned, tool

SCRIPT = Path(__file__).with_name("shuttle.py")
ANSWER_LIMIT_S = 10
SERVER_ADDRESS, CLIENT_ADDRESS, MASK = "10.204.0.1", "10.204.0.2", "30"  # of the TUN devices
MTU = 1500  # as of the veth pair: what TCP puts into its first windows follows from it
QUEUE = 10_000  # packets that wait for the process; the default of 500 would drop some of a bulk transfer


class Shuttle:
    """A running process that carries bytes. Raises Refused when it does not start or does not answer."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            env={"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"},
        )
        try:
            self.facts: dict[str, object] = self._answer()
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def assert_alive(self) -> None:
        """Raise Refused when the process has ended."""
        if self._process.poll() is not None:
            raise self._silent()

    def order(self, text: str) -> Any:
        """Give an order and return the answer."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(text.encode() + b"\n")
        except BrokenPipeError:
            raise self._silent() from None
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        deadline, data = time.monotonic() + ANSWER_LIMIT_S, b""
        while not data.endswith(b"\n"):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, deadline - time.monotonic()))
            more = self._process.stdout.read(4096) if ready else b""
            if not more:
                raise self._silent()
            data += more
        return json.loads(data)

    def _silent(self) -> Refused:
        self._process.kill()
        assert self._process.stderr is not None
        said = self._process.stderr.read().decode(errors="replace").strip()
        return Refused(
            "network delay",
            "the process that adds the delay does not answer",
            expected=f"an answer within {ANSWER_LIMIT_S} s",
            found=said[-2000:] or f"exit status {self._process.wait()}",
            remedy="run again: a session begins with a new one",
        )

    def close(self) -> None:
        """End it, and with it its devices, sockets and spinners."""
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def rest(self, resting: bool) -> None:
        """Stop its spinners for a while, or let them go on."""
        self.order("rest" if resting else "work")


def shuttle_command(role: str, delay_us: int, cpus: str, spin: Sequence[int], *rest: str) -> list[str]:
    """The process, bound to CPUs (it keeps those of `spin` awake)."""
    script = [sys.executable, "-I", "-S", str(SCRIPT), role, str(delay_us), ",".join(map(str, spin)), *rest]
    return [*pinned(cpus), *script]


# -- TUN


def probe_tun() -> str:
    """Why this host cannot have TUN devices, tried in a network namespace that ends with the command; "" when it can."""
    try:
        call([tool("unshare"), "--net", "--", sys.executable, "-I", "-S", str(SCRIPT), "probe"])
    except BenchbookError as error:
        return f"{error.problem}: {error.found.splitlines()[-1] if error.found else error.where}"
    return ""


def tun_command(server: str, client: str, delay_us: int, cpus: str, spin: Sequence[int]) -> list[str]:
    """The process between two TUN devices, given the process ids of the namespaces' holders."""
    return shuttle_command("tun", delay_us, cpus, spin, f"/proc/{server}/ns/net", f"/proc/{client}/ns/net")


def tun_setup_commands(server: str, client: str) -> list[list[str]]:
    """What brings up the devices that the process has made."""
    commands = []
    for pid, address in ((server, SERVER_ADDRESS), (client, CLIENT_ADDRESS)):
        ip = [tool("nsenter"), f"--net=/proc/{pid}/ns/net", "--", tool("ip")]
        commands += [
            [*ip, "address", "add", f"{address}/{MASK}", "dev", "bb-tun"],
            [*ip, "link", "set", "bb-tun", "mtu", str(MTU), "txqueuelen", str(QUEUE), "up"],
        ]
    return commands


class Tun(Shuttle):
    """Two TUN devices and the process between them."""

    def __init__(self, server: str, client: str, delay_us: int, cpus: str, spin: Sequence[int]) -> None:
        super().__init__(tun_command(server, client, delay_us, cpus, spin))
        try:
            for command in tun_setup_commands(server, client):
                call(command, where="network delay: tun")
        except BaseException:
            self.close()
            raise

    def set(self, delay_us: int) -> None:
        """Make the delay each way this long."""
        self.order(f"delay {delay_us}")

    def reach(self, address: str, port: int) -> tuple[str, int]:
        """The path itself is delayed."""
        return address, port

    def leave(self, port: int) -> None:
        """Nothing was made for it."""


# -- relay


def relay_command(at_server: Sequence[str], address: str, delay_us: int, cpus: str, spin: Sequence[int]) -> list[str]:
    """The process that listens at the server's end and carries the bytes of connections."""
    return [*at_server, *shuttle_command("relay", delay_us, cpus, spin, address)]


class Relay(Shuttle):
    """A TCP relay: what connections carry is delayed, the making of a connection is not."""

    def __init__(self, at_server: Sequence[str], address: str, delay_us: int, cpus: str, spin: Sequence[int]) -> None:
        super().__init__(relay_command(at_server, address, delay_us, cpus, spin))
        self._ports: dict[int, int] = {}

    def set(self, delay_us: int) -> None:
        """Make the delay each way this long."""
        self.order(f"delay {delay_us}")

    def reach(self, address: str, port: int) -> tuple[str, int]:
        """The relay's port for one of the server's; the relay begins to listen there when first asked."""
        if port not in self._ports:
            self._ports[port] = self.order(f"reach {port}")
        return address, self._ports[port]

    def leave(self, port: int) -> None:
        """Listen for it no longer; connections that are there stay."""
        if self._ports.pop(port, None):
            self.order(f"leave {port}")
