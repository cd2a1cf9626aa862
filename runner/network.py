"""The two ends that server and client run at: two network namespaces joined by a veth pair, or loopback.

The namespaces have no name and no file: each lives as long as a `cat` that reads from a pipe of the runner. When the
runner ends, however it ends, the pipe closes, `cat` ends, and namespaces, veth pair and mounts are gone.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from runner import delay
from runner.errors import Refused
from runner.plan import CpuGroups, Network
from runner.process import SYSTEM_PATH, call, tool

SERVER_ADDRESS, CLIENT_ADDRESS, MASK = "10.203.0.1", "10.203.0.2", "30"


@dataclass(frozen=True)
class Ends:
    """How to start a command at the server's or the client's end. Empty prefixes mean: right here."""

    kind: str
    address: str  # at which the server listens; `reach` says where the client finds it
    server: tuple[str, ...]
    client: tuple[str, ...]
    private_mounts: bool  # the server's end has mounts of its own
    cpus: CpuGroups | None = None  # the plan's, needed to measure round trips
    delay: delay.Delay | None = None  # None: none was planned

    def describe(self) -> str:
        """One sentence for the report."""
        if self.kind == "none":
            return "no network"
        veth = self.kind == "veth"
        where = "in network namespaces of their own" if veth else "over the loopback interface of the host"
        joined = ", joined by a veth pair" if veth and (self.delay is None or self.delay.method != "tun") else ""
        return f"server and client {where}{joined}" + (f", {self.delay.describe()}" if self.delay else "")

    def reach(self, port: int) -> tuple[str, int]:
        """Address and port at which the client finds what listens on this port of `address`. Raises Refused."""
        return self.delay.link.reach(self.address, port) if self.delay else (self.address, port)

    @property
    def clients(self) -> str:
        """The addresses that connections come from, as the server sees them."""
        return f"{self.address}/{MASK if self.kind == 'veth' else 32}"

    @property
    def server_network(self) -> tuple[str, ...]:
        """The server's network alone: processes of the runner's own must see the host's files, whatever is mounted there."""
        return tuple(part for part in self.server if not part.startswith(("--mount=", "--ipc="))) * (
            self.kind == "veth"
        )

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Stop what keeps CPUs awake for the sake of the delay, so that their load can be looked at. Raises Refused."""
        if self.delay is None:
            yield
            return
        self.delay.link.rest(True)
        try:
            yield
        finally:
            self.delay.link.rest(False)


def check(network: Network) -> None:
    """Raise Refused when this host cannot give the plan's network."""
    if network.kind == "veth" and os.geteuid() != 0:
        raise Refused(
            "plan: network.kind",
            "network namespaces need root",
            expected="root",
            found=f"user {os.geteuid()}",
            remedy='run as root, or plan network.kind = "loopback"',
        )
    if network.kind == "veth":
        for name in ("ip", "unshare", "nsenter", "cat"):
            tool(name)
    if network.delay_us:
        delay.available(network, os.geteuid() == 0)


def prefixes(server: str, client: str, *, net: bool, mounts: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Command prefixes for the server's and the client's end, given the holders' process ids (or names for them)."""
    if not net and not mounts:
        return (), ()
    at_server = [tool("nsenter")]
    at_server += [f"--net=/proc/{server}/ns/net"] if net else []
    at_server += [f"--mount=/proc/{server}/ns/mnt", f"--ipc=/proc/{server}/ns/ipc"] if mounts else []
    at_client = [tool("nsenter"), f"--net=/proc/{client}/ns/net"] if net else []
    return (*at_server, "--"), (*at_client, "--") if at_client else ()


def setup_commands(server: str, client: str) -> list[list[str]]:
    """The commands that join two namespaces, given their holders' process ids."""
    enter = {
        end: [tool("nsenter"), f"--net=/proc/{pid}/ns/net", "--", tool("ip")]
        for end, pid in (("server", server), ("client", client))
    }
    return [
        [*enter["server"], "link", "add", "bb-server", "type", "veth", "peer", "name", "bb-client", "netns", client],
        *([*enter[end], "link", "set", "lo", "up"] for end in enter),
        [*enter["server"], "address", "add", f"{SERVER_ADDRESS}/{MASK}", "dev", "bb-server"],
        [*enter["client"], "address", "add", f"{CLIENT_ADDRESS}/{MASK}", "dev", "bb-client"],
        *([*enter[end], "link", "set", f"bb-{end}", "up"] for end in enter),
    ]


@contextmanager
def open_ends(network: Network, cpus: CpuGroups | None = None) -> Iterator[Ends]:
    """Make both ends, and let them go at the end. As root the server always gets mounts of its own.

    With a delay the plan's CPUs are needed. Raises Refused when this host cannot give the plan's network, or a delay near
    the planned one.
    """
    check(network)
    with ExitStack() as stack:
        ends, server, client = stack.enter_context(_undelayed(network, cpus))
        if network.delay_us:
            ends = stack.enter_context(delay.delayed(network, ends, server, client))
        yield ends


@contextmanager
def _undelayed(network: Network, cpus: CpuGroups | None) -> Iterator[tuple[Ends, str, str]]:
    """Both ends, and the process ids of their holders."""
    root = os.geteuid() == 0
    if network.kind == "none" or (network.kind == "loopback" and not root):
        yield Ends(network.kind, "127.0.0.1", (), (), False, cpus), "", ""
        return
    net = network.kind == "veth"
    holders = [_holder(net=net, mounts=True)] + ([_holder(net=True, mounts=False)] if net else [])
    try:
        server, client = str(holders[0].pid), str(holders[-1].pid)
        if net:
            for command in setup_commands(server, client):
                call(command, where="network")
        at_server, at_client = prefixes(server, client, net=net, mounts=True)
        address = SERVER_ADDRESS if net else "127.0.0.1"
        yield Ends(network.kind, address, at_server, at_client, True, cpus), server, client
    finally:
        for holder in holders:
            assert holder.stdin is not None
            holder.stdin.close()
            holder.wait(timeout=10)


def holder_command(*, net: bool, mounts: bool) -> list[str]:
    """The process that namespaces live with. A private IPC namespace goes with private mounts: the shared memory of a
    server that was killed goes with it."""
    own = ["--net"] * net + ["--ipc", "--mount", "--propagation", "private"] * mounts
    return [tool("unshare"), *own, "--", tool("cat")]


def _holder(*, net: bool, mounts: bool) -> subprocess.Popen[bytes]:
    argv = holder_command(net=net, mounts=mounts)
    holder = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is for the runner alone
        env={"PATH": SYSTEM_PATH},
    )
    kinds = ["net"] * net + ["mnt", "ipc"] * mounts
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if holder.poll() is not None:
            raise Refused(
                "network",
                "unshare failed",
                expected="new namespaces",
                found=f"exit status {holder.returncode}",
                remedy='is this a container without CAP_SYS_ADMIN? plan network.kind = "loopback"',
            )
        # Only once `unshare` has become `cat` are all namespaces in place.
        with open(f"/proc/{holder.pid}/comm") as file:
            if file.read().strip() == "cat" and all(_own(holder.pid, kind) for kind in kinds):
                return holder
        time.sleep(0.002)
    holder.kill()
    raise Refused("network", "no namespaces within 10 s")


def _own(pid: int, kind: str) -> bool:
    return os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
