"""A fixed delay added between client and server: by which means, how long it really is, and how that is measured.

The nominal value of the plan is never what counts. The delay is calibrated against measured round trips at the start, and
round trips are measured again whenever the runner asks, through the path that the benchmark's connections take.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from runner.delays import carrier, netem
from runner.errors import Refused
from runner.host import parse_cpus
from runner.plan import CpuGroups, Network
from runner.process import SYSTEM_PATH, call, pinned

if TYPE_CHECKING:
    from runner.network import Ends

ECHO = Path(__file__).with_name("echo.py")
SAMPLES = 200
ROUNDS = 3  # of calibration, and sets of round trips without the delay
NEAR, TOLERANCE = 0.01, 0.20  # of the planned added round trip: near enough to stop calibrating, and too far to go on
WORDS = {
    "netem": "by the kernel (netem on both ends of the veth pair)",
    "tun": "by a process between two TUN devices, one in each namespace",
    "relay": "by a TCP relay at the server's end, which delays what connections carry and not their making",
}


class Link(Protocol):
    """A path that adds a delay, while it lasts."""

    facts: dict[str, object]  # how punctual it could be made: scheduling policy, CPUs that are kept awake

    def set(self, delay_us: int) -> None:
        """Make the delay each way this long."""

    def reach(self, address: str, port: int) -> tuple[str, int]:
        """Where the client finds what listens at the server's address and port."""

    def leave(self, port: int) -> None:
        """Undo `reach` for a port where nothing listens any more."""

    def assert_alive(self) -> None:
        """Raise Refused when what adds the delay has ended."""

    def rest(self, resting: bool) -> None:
        """Stop what keeps CPUs awake, or let it go on."""

    def close(self) -> None:
        """End it."""


@dataclass(frozen=True)
class Delay:
    """The delay that is in force, and what its calibration measured."""

    method: str
    delay_us: int  # planned, each way
    applied_us: int  # what the method was told, each way, so that the measured round trip is as planned
    undelayed_ns: list[int]  # round trips of the same network without the delay
    delayed_ns: list[int]  # and with it
    unavailable: dict[str, str]  # methods that go before this one, and why they could not be had
    link: Link = field(repr=False, compare=False)

    def facts(self) -> dict[str, Any]:
        """For the journal."""
        return {
            "method": self.method,
            "delay_us": self.delay_us,
            "applied_us": self.applied_us,
            "undelayed_ns": self.undelayed_ns,
            "delayed_ns": self.delayed_ns,
            "unavailable": self.unavailable,
            **self.link.facts,
        }

    def describe(self) -> str:
        """Half a sentence for the report: the method, and the measured values before the nominal one."""
        without, together = (statistics.median(ns) / 1000 for ns in (self.undelayed_ns, self.delayed_ns))
        return (
            f"with a delay added {WORDS[self.method]}: a round trip of 64 bytes measured {together:.0f} us at the start, "
            f"{without:.0f} us without the delay (medians; {self.delay_us} us each way were planned)"
        )


# -- by which means


@dataclass(frozen=True)
class Choice:
    """The first method that this host has."""

    method: str
    unavailable: dict[str, str]


PROBES: Mapping[str, Callable[[], str]] = {"netem": netem.probe, "tun": carrier.probe_tun}


def available(network: Network, root: bool, probes: Mapping[str, Callable[[], str]] = PROBES) -> Choice:
    """The first of netem, tun and relay that this host and the plan's network have, and why those before it are not.

    A probe returns why its method cannot be had, or "". Raises Refused when the plan has no network to delay.
    """
    if network.kind == "none":
        raise Refused(
            "plan: network.delay_us",
            "there is no network to delay",
            expected='0, or network.kind "veth" or "loopback"',
            found=f'{network.delay_us} with network.kind "none"',
            remedy="plan network.delay_us = 0",
        )
    why: dict[str, str] = {}
    for method, probe in probes.items():
        if network.kind != "veth":
            why[method] = 'it needs network namespaces (network.kind "veth")'
        elif not root:
            why[method] = "it needs root"
        else:
            why[method] = probe()
            if not why[method]:
                del why[method]
                return Choice(method, why)
    return Choice("relay", why)


def words(choice: Choice) -> str:
    """The choice in one line, for `check`."""
    return "; ".join(
        [f"delay {WORDS[choice.method]}", *(f"no {name}: {why}" for name, why in choice.unavailable.items())]
    )


def commands(method: str, ends: Ends, delay_us: int, server: str, client: str) -> list[list[str]]:
    """Every command that adds the delay, as before its calibration; for `check --dry-run`.

    `server` and `client` are the process ids of the namespaces' holders, or names for them.
    """
    cpus = _cpus(ends)
    if method == "netem":
        return netem.commands(server, client, delay_us)
    if method == "tun":
        tun = carrier.tun_command(server, client, delay_us, cpus.server, _spin(cpus))
        return [tun, *carrier.tun_setup_commands(server, client)]
    return [carrier.relay_command(ends.server_network, ends.address, delay_us, cpus.server, _spin(cpus))]


def server_address(method: str, address: str) -> str:
    """At which address the server listens, given the one that it has without a delay."""
    return carrier.SERVER_ADDRESS if method == "tun" else address


# -- how long it really is


def added_us(undelayed: Sequence[int], delayed: Sequence[int]) -> float:
    """By how much the median round trip is longer, in us."""
    return (statistics.median(delayed) - statistics.median(undelayed)) / 1000


def calibrate(delay_us: int, undelayed: Sequence[int], measure: Callable[[int], list[int]]) -> tuple[int, list[int]]:
    """The delay to apply each way, in us, so that the median round trip is longer by twice the plan's, and its round trips.

    `measure` applies a delay each way and returns round trips in ns; the delay that is returned need not be the one that it
    applied last. Raises Refused when the path without the delay was not measured, or when no round comes near enough.
    """
    wanted = 2 * delay_us
    if not undelayed or min(undelayed) <= 0:
        raise Refused(
            "network delay",
            "the round trip without the delay could not be measured",
            expected="round trips longer than 0",
            found=f"{len(undelayed)} round trips" + (f", the shortest {min(undelayed)} ns" if undelayed else ""),
            remedy="look whether the network of the plan works without network.delay_us",
        )
    applied, best, doubted = delay_us, (float("inf"), 0, [0]), False
    for _ in range(ROUNDS):
        found = measure(applied)
        off = added_us(undelayed, found) - wanted
        best = min(best, (abs(off), applied, found), key=lambda tried: tried[0])
        if abs(off) <= NEAR * wanted:
            break
        if abs(off) > TOLERANCE * wanted and not doubted:
            doubted = True  # a busy moment? nothing is changed before the same delay was measured again
            continue
        applied = max(0, round(applied - off / 2))
    if best[0] > TOLERANCE * wanted:
        raise Refused(
            "network delay",
            f"no delay near the planned one within {ROUNDS} rounds of calibration",
            expected=f"{wanted} us more per round trip, within {TOLERANCE:.0%}",
            found=f"{added_us(undelayed, best[2]):.0f} us more at best ({best[1]} us applied each way)",
            remedy="quiet the host, or plan another network.delay_us",
        )
    return best[1], best[2]


def measure_rtt(ends: Ends, samples: int = SAMPLES) -> list[int]:
    """Round trips in ns of 64-byte TCP echoes, in their order, over the path and on the CPUs of the benchmark.

    About 5 s at most: with a delay of more than some ms there are fewer samples, but at least 20. Raises Refused when the
    echoes fail.
    """
    cpus = _cpus(ends)
    if ends.delay:
        ends.delay.link.assert_alive()
    limit_s = 30 + (100 * ends.delay.delay_us // 1_000_000 if ends.delay else 0)
    script = [sys.executable, "-I", "-S", str(ECHO)]
    server = subprocess.Popen(
        [*ends.server_network, *pinned(cpus.server), *script, "serve", str(limit_s), ends.address],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={"PATH": SYSTEM_PATH, "LANG": "C.UTF-8"},
    )
    try:
        assert server.stdout is not None
        assert server.stderr is not None
        ready, _, _ = select.select([server.stdout], [], [], limit_s)
        port = server.stdout.readline().strip() if ready else b""
        if not port:
            server.kill()
            said = server.stderr.read().decode(errors="replace").strip()
            raise Refused("echo server", "it did not start", found=said[-2000:])
        address, at = ends.reach(int(port))
        asked = [*ends.client, *pinned(cpus.client), *script, "ask", str(limit_s), address, str(at), str(samples)]
        found: list[int] = json.loads(call(asked, limit_s=limit_s))
        if ends.delay:
            ends.delay.link.leave(int(port))
        return found
    except Refused as error:
        raise Refused(
            "network",
            "round trips could not be measured",
            expected=f"echoes of 64 bytes from {ends.address}",
            found="; ".join(filter(None, (error.problem, error.found))),
            remedy="look whether the network of the plan works; run again: a session begins with a new one",
        ) from None
    finally:
        server.kill()
        server.communicate()


# -- in force


@contextmanager
def delayed(network: Network, ends: Ends, server: str, client: str) -> Iterator[Ends]:
    """The same ends with the plan's delay between them, calibrated; `server` and `client` hold the namespaces.

    Of several sets of round trips without the delay the one with the lowest median is what it is calibrated against: a busy
    moment makes them longer, never shorter, and would be taken for a part of the path. Raises Refused when this host cannot
    give the delay.
    """
    cpus = _cpus(ends)
    choice = available(network, os.geteuid() == 0)
    undelayed = min((measure_rtt(ends) for _ in range(ROUNDS)), key=statistics.median)
    link = _open(choice.method, ends, network.delay_us, server, client)
    try:
        delay = Delay(choice.method, network.delay_us, network.delay_us, undelayed, [], choice.unavailable, link)
        there = replace(ends, address=server_address(choice.method, ends.address), cpus=cpus, delay=delay)

        def measure(applied_us: int) -> list[int]:
            link.set(applied_us)
            return measure_rtt(there)

        applied_us, found = calibrate(network.delay_us, undelayed, measure)
        link.set(applied_us)
        yield replace(there, delay=replace(delay, applied_us=applied_us, delayed_ns=found))
    finally:
        link.close()


def _open(method: str, ends: Ends, delay_us: int, server: str, client: str) -> Link:
    cpus = _cpus(ends)
    if method == "netem":
        return netem.Netem(server, client)
    if method == "tun":
        return carrier.Tun(server, client, delay_us, cpus.server, _spin(cpus))
    return carrier.Relay(ends.server_network, ends.address, delay_us, cpus.server, _spin(cpus))


def _cpus(ends: Ends) -> CpuGroups:
    if ends.cpus is None:
        raise ValueError("a delay needs the plan's CPUs: open_ends(network, cpus=plan.host.cpus)")
    return ends.cpus


def _spin(cpus: CpuGroups) -> list[int]:
    return sorted({*parse_cpus(cpus.server), *parse_cpus(cpus.client)})
