"""The added delay for real: between TUN devices and through the relay, calibrated, measured, and gone with its runner."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner import delay, echo, network, plan
from runner.delays import carrier, netem
from runner.errors import BenchbookError, Refused
from tests.campaigns import PROJECT, alive, kill, wait_for
from tests.test_postgres import descendants

ROOT = os.geteuid() == 0
ALLOWED = sorted(os.sched_getaffinity(0))
CPUS = plan.CpuGroups(housekeeping=str(ALLOWED[0]), server=str(ALLOWED[0]), client=str(ALLOWED[-1]))
DELAY_US = 1000  # each way: long enough that a busy host does not hide it
TUN = ROOT and not carrier.probe_tun()
METHODS = [
    pytest.param("veth", "tun", marks=pytest.mark.skipif(not TUN, reason="TUN devices need root and /dev/net/tun")),
    pytest.param("veth", "relay", marks=pytest.mark.skipif(not ROOT, reason="namespaces need root")),
    ("loopback", "relay"),
]
BULK = 16 << 20

SINK = """
import hashlib, socket, sys
with socket.create_server((sys.argv[1], 0)) as listener:
    print(listener.getsockname()[1], flush=True)
    connection, _ = listener.accept()
digest, size = hashlib.sha256(), 0
while data := connection.recv(1 << 20):
    digest.update(data)
    size += len(data)
connection.sendall(f"{size} {digest.hexdigest()}".encode())
"""
SOURCE = """
import hashlib, random, socket, sys, time
data = random.Random(5).randbytes(int(sys.argv[3]))
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
start = time.perf_counter()
connection.sendall(data)
connection.shutdown(socket.SHUT_WR)
answer = b""
while more := connection.recv(100):
    answer += more
print(answer.decode(), hashlib.sha256(data).hexdigest(), time.perf_counter() - start)
"""
HOLDER = """
import sys, time
from runner import delay, network, plan
if sys.argv[2] != "tun":
    delay.PROBES = dict.fromkeys(delay.PROBES, lambda: "not here")
    delay.available.__defaults__ = (delay.PROBES,)
cpus = plan.CpuGroups(housekeeping=sys.argv[3], server=sys.argv[3], client=sys.argv[4])
with network.open_ends(plan.Network(kind=sys.argv[1], delay_us=1000), cpus) as ends:
    print(ends.delay.method, flush=True)
    time.sleep(60)
"""


def only(method: str) -> dict[str, Callable[[], str]]:
    """Probes of a host that has this method first."""
    return {name: lambda name=name: "" if name == method else "not here" for name in ("netem", "tun")}  # type: ignore[misc]


@contextmanager
def opened(kind: str, method: str, monkeypatch: pytest.MonkeyPatch, delay_us: int = DELAY_US) -> Iterator[network.Ends]:
    """Ends with a delay by this method, whatever else the host has."""
    monkeypatch.setattr(delay.available, "__defaults__", (only(method),))
    with network.open_ends(plan.Network(kind=kind, delay_us=delay_us), CPUS) as ends:  # type: ignore[arg-type]
        yield ends


def own_network() -> dict[str, Any]:
    """Links of the host and the processes below this one."""
    return {"links": {path.name for path in Path("/sys/class/net").iterdir()}, "below": descendants(os.getpid())}


def descriptor_count(link: delay.Link) -> int:
    """Descriptors that the process which adds the delay has open."""
    assert isinstance(link, carrier.Shuttle)
    return len(os.listdir(f"/proc/{link.pid}/fd"))


def transfer(ends: network.Ends, size: int) -> list[str]:
    """Send bytes from the client's end: size and digest as received, digest as sent, seconds."""
    server = subprocess.Popen([*ends.server, sys.executable, "-c", SINK, ends.address], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        address, port = ends.reach(int(server.stdout.readline()))
        return subprocess.run(
            [*ends.client, sys.executable, "-c", SOURCE, address, str(port), str(size)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=60,
        ).stdout.split()
    finally:
        server.kill()
        server.communicate()


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_a_delay_is_as_long_as_planned_loses_nothing_and_leaves_nothing(
    kind: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = own_network()
    with opened(kind, method, monkeypatch) as ends:
        assert ends.delay is not None
        link = ends.delay.link
        facts = ends.delay.facts()
        assert json.loads(json.dumps(facts)) == facts
        assert (facts["method"], facts["delay_us"]) == (method, DELAY_US)
        assert 0 < facts["applied_us"] < 2 * DELAY_US
        assert len(facts["undelayed_ns"]) == len(facts["delayed_ns"]) == 200
        assert all(type(value) is int for value in facts["undelayed_ns"] + facts["delayed_ns"])
        assert delay.added_us(facts["undelayed_ns"], facts["delayed_ns"]) == pytest.approx(2 * DELAY_US, rel=0.2)
        assert list(facts["unavailable"]) == (["netem"] if method == "tun" else ["netem", "tun"])
        assert f"{DELAY_US} us each way were planned" in ends.describe()
        assert "measured" in ends.describe()
        # measured again, also while the spinners rest
        found = delay.measure_rtt(ends, samples=50)
        assert len(found) == 50
        assert min(found) > 1.6e6 * DELAY_US / 1000
        descriptors = descriptor_count(link)
        with ends.resting():
            assert min(delay.measure_rtt(ends, samples=20)) > 1.6e6 * DELAY_US / 1000
        assert wait_for(lambda: descriptor_count(link) == descriptors)  # a session measures hundreds of times
        # bytes arrive all of them, and in their order
        size, received, sent, _ = transfer(ends, BULK)
        assert (int(size), received) == (BULK, sent)
        assert transfer(ends, 0)[:2] == ["0", hashlib.sha256().hexdigest()]
        below = descendants(os.getpid()) - before["below"]
        assert len(below) >= 1 + len(facts["spinners"])
    assert not any(alive(pid) for pid in below)
    assert wait_for(lambda: own_network() == before)


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_kill_of_a_runner_with_a_delay_leaves_nothing(kind: str, method: str) -> None:
    links = own_network()["links"]
    argv = [sys.executable, "-c", HOLDER, kind, method, CPUS.server, CPUS.client]
    runner = subprocess.Popen(argv, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert runner.stdout is not None
        assert runner.stdout.readline().strip() == method
        runner.stdout.close()
        below = descendants(runner.pid)
    finally:
        kill(runner)
    assert len(below) >= 1
    assert wait_for(lambda: not any(alive(pid) for pid in below))
    assert own_network()["links"] == links


@pytest.mark.parametrize(("kind", "method"), [METHODS[0], METHODS[-1]])
def test_a_process_that_died_is_told_and_takes_its_spinners_with_it(
    kind: str, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(kind, method, monkeypatch) as ends:
        assert ends.delay is not None
        link = ends.delay.link
        assert isinstance(link, carrier.Shuttle)
        spinners = descendants(link.pid)
        assert len(spinners) == len(link.facts["spinners"])  # type: ignore[arg-type]
        os.kill(link.pid, signal.SIGKILL)
        wait_for(lambda: not alive(link.pid))
        assert wait_for(lambda: not any(alive(pid) for pid in spinners))
        with pytest.raises(Refused, match=r"does not answer[\s\S]*expected[\s\S]*exit status[\s\S]*what to do"):
            delay.measure_rtt(ends)
        with pytest.raises(Refused, match="does not answer"):
            link.set(1)


def test_the_relay_ends_both_sides_when_one_is_reset_and_when_nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        opened("loopback", "relay", monkeypatch, delay_us=1000) as ends,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        port = server.getsockname()[1]
        assert ends.reach(port) == ends.reach(port) != ("127.0.0.1", port)
        with socket.create_connection(ends.reach(port), timeout=5) as client:
            there, _ = server.accept()
            client.sendall(b"before the reset")
            assert there.recv(100) == b"before the reset"
            there.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            there.close()
            assert client.recv(100) == b""
        # one direction may end before the other
        with socket.create_connection(ends.reach(port), timeout=5) as client:
            there, _ = server.accept()
            client.shutdown(socket.SHUT_WR)
            assert there.recv(100) == b""
            there.sendall(b"still here")
            there.close()
            assert client.recv(100) == b"still here"
            assert client.recv(100) == b""
        # more than the relay holds waits with its sender, and arrives
        with socket.create_connection(ends.reach(port), timeout=20) as client:
            there, _ = server.accept()
            sender = threading.Thread(target=lambda: (client.sendall(bytes(BULK)), client.shutdown(socket.SHUT_WR)))
            sender.start()
            sender.join(0.2)
            got = 0
            while data := there.recv(1 << 20):
                got += len(data)
            there.close()
            sender.join()
            assert got == BULK
        server.close()
        with socket.create_connection(ends.reach(port), timeout=5) as client:
            assert client.recv(100) == b""


def test_without_root_the_relay_works_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with network.open_ends(plan.Network(kind="loopback", delay_us=DELAY_US), CPUS) as ends:
        assert (ends.server, ends.client, ends.private_mounts) == ((), (), False)
        assert ends.delay is not None
        assert ends.delay.method == "relay"
        assert min(delay.measure_rtt(ends, samples=20)) > 2e3 * DELAY_US * 0.8


@pytest.mark.parametrize("kind", [pytest.param("veth", marks=pytest.mark.skipif(not ROOT, reason="root")), "loopback"])
def test_no_delay_changes_nothing(kind: str) -> None:
    with network.open_ends(plan.Network(kind=kind)) as bare:  # type: ignore[arg-type]
        assert (bare.delay, bare.reach(5432)) == (None, (bare.address, 5432))
        assert bare.clients == ("10.203.0.1/30" if kind == "veth" else "127.0.0.1/32")
        assert "delay" not in bare.describe()
        with pytest.raises(ValueError, match="needs the plan's CPUs"):
            delay.measure_rtt(bare)
        with bare.resting():
            found = delay.measure_rtt(replace(bare, cpus=CPUS), samples=30)
        assert len(found) == 30
        assert 0 < statistics.median(found) < 5e6
    with (
        pytest.raises(ValueError, match="needs the plan's CPUs"),
        network.open_ends(plan.Network(kind="loopback", delay_us=1)),
    ):
        pytest.fail("opened")


# -- calibration


@given(
    delay_us=st.integers(50, 10_000_000),
    path_ns=st.integers(1000, 500_000),
    cost_ns=st.integers(0, 80_000),
    slope=st.floats(0.9, 1.1),
)
def test_calibration_takes_out_what_the_method_itself_costs(
    delay_us: int, path_ns: int, cost_ns: int, slope: float
) -> None:
    applied: list[int] = []

    def measure(us: int) -> list[int]:
        applied.append(us)
        return [path_ns + cost_ns + round(2000 * us * slope)] * 5

    chosen, found = delay.calibrate(delay_us, [path_ns] * 5, measure)
    assert applied[0] == delay_us
    assert len(applied) <= 3
    assert chosen in applied
    off = [abs(delay.added_us([path_ns], measure(us)) - 2 * delay_us) for us in applied[:3]]
    assert abs(delay.added_us([path_ns], found) - 2 * delay_us) == min(off)
    assert min(off) <= max(0.02 * delay_us, 0.11 * off[0]) + 2


@pytest.mark.parametrize(
    ("undelayed", "delayed", "text"),
    [
        ([], [520_000], r"could not be measured\n  expected: .*\n  found: 0 round trips\n  what to do: "),
        ([20_000, 0], [520_000], "the shortest 0 ns"),
        ([20_000], [20_000], r"expected: 500 us more .* within 20%\n  found: 0 us more at best \(250 us applied"),
        ([20_000], [900_000], "found: 880 us more at best"),
        ([20_000], [621_000], "found: 601 us more at best"),
    ],
)
def test_a_calibration_that_cannot_be_met_is_refused(undelayed: list[int], delayed: list[int], text: str) -> None:
    with pytest.raises(Refused, match=text):
        delay.calibrate(250, undelayed, lambda _: delayed)
    if undelayed and min(undelayed):  # just within
        assert delay.calibrate(250, undelayed, lambda _: [619_000]) == (250, [619_000])


def test_a_delay_shorter_than_what_the_method_costs_is_refused() -> None:
    asked: list[int] = []
    with pytest.raises(Refused, match="60 us more at best"):
        delay.calibrate(10, [20_000], lambda us: asked.append(us) or [80_000 + 2000 * us])  # type: ignore[func-returns-value]
    assert asked == [10, 10, 0]


def test_a_busy_moment_is_measured_again_before_anything_is_changed() -> None:
    found = iter([[2_000_000], [550_000], [521_000]])
    asked: list[int] = []
    chosen = delay.calibrate(250, [20_000], lambda us: asked.append(us) or next(found))  # type: ignore[func-returns-value]
    assert asked == [250, 250, 235]
    assert chosen == (235, [521_000])


# -- which method


def test_the_first_method_that_the_host_has_is_chosen() -> None:
    def choice(kind: str, root: bool, **reasons: str) -> delay.Choice:
        probes = {name: lambda name=name: reasons[name] for name in ("netem", "tun")}  # type: ignore[misc]
        return delay.available(plan.Network(kind=kind, delay_us=250), root, probes)  # type: ignore[arg-type]

    assert choice("veth", True, netem="") == delay.Choice("netem", {})  # the second is not even looked at
    assert choice("veth", True, netem="n", tun="") == delay.Choice("tun", {"netem": "n"})
    assert choice("veth", True, netem="n", tun="t") == delay.Choice("relay", {"netem": "n", "tun": "t"})
    for kind, root, text in (
        ("veth", False, "root"),
        ("loopback", True, "namespaces"),
        ("loopback", False, "namespaces"),
    ):
        found = choice(kind, root)
        assert found.method == "relay"
        assert all(text in why for why in found.unavailable.values())
        assert "no netem: it needs" in delay.words(found)
    with pytest.raises(Refused, match=r"no network to delay\n  expected: .*\n  found: .*\n  what to do: "):
        choice("none", True)


def test_a_method_that_is_absent_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_: object, **__: object) -> str:
        raise Refused("tc", "exit status 2", found="tc qdisc add ...\nError: Specified qdisc kind is unknown.")

    for module, probe in ((netem, netem.probe), (carrier, carrier.probe_tun)):
        monkeypatch.setattr(module, "call", absent)
        assert probe() == "exit status 2: Error: Specified qdisc kind is unknown."

        def missing(name: str) -> str:
            raise BenchbookError(name, "this program is not installed")

        monkeypatch.setattr(module, "tool", missing)
        assert probe() == "this program is not installed: unshare"


def test_the_commands_of_each_method(monkeypatch: pytest.MonkeyPatch) -> None:
    """netem cannot be tried on every kernel: its commands are held to these very words."""
    for module in (netem, carrier):
        monkeypatch.setattr(module, "tool", lambda name: name)
    monkeypatch.setattr(carrier, "pinned", lambda cpus: ["pin", cpus])
    monkeypatch.setattr(carrier.sys, "executable", "python")
    monkeypatch.setattr(carrier, "SCRIPT", Path("shuttle.py"))
    at_server = ("nsenter", "--net=/proc/S/ns/net", "--mount=/proc/S/ns/mnt", "--ipc=/proc/S/ns/ipc", "--")
    cpus = plan.CpuGroups(housekeeping="0", server="1", client="2-3")
    ends = network.Ends("veth", "10.203.0.1", at_server, ("nsenter", "--net=/proc/C/ns/net", "--"), True, cpus)

    def text(method: str) -> list[str]:
        return [" ".join(argv) for argv in delay.commands(method, ends, 250, "S", "C")]

    assert text("netem") == [
        "nsenter --net=/proc/S/ns/net -- tc qdisc replace dev bb-server root netem delay 250us limit 100000",
        "nsenter --net=/proc/C/ns/net -- tc qdisc replace dev bb-client root netem delay 250us limit 100000",
    ]
    assert text("tun") == [
        "pin 1 python -I -S shuttle.py tun 250 1,2,3 /proc/S/ns/net /proc/C/ns/net",
        "nsenter --net=/proc/S/ns/net -- ip address add 10.204.0.1/30 dev bb-tun",
        "nsenter --net=/proc/S/ns/net -- ip link set bb-tun mtu 1500 txqueuelen 10000 up",
        "nsenter --net=/proc/C/ns/net -- ip address add 10.204.0.2/30 dev bb-tun",
        "nsenter --net=/proc/C/ns/net -- ip link set bb-tun mtu 1500 txqueuelen 10000 up",
    ]
    assert text("relay") == ["nsenter --net=/proc/S/ns/net -- pin 1 python -I -S shuttle.py relay 250 1,2,3 10.203.0.1"]
    assert [delay.server_address(method, "a") for method in ("netem", "tun", "relay")] == ["a", "10.204.0.1", "a"]
    called: list[list[str]] = []
    monkeypatch.setattr(netem, "call", lambda argv, **_: called.append(argv))
    link = netem.Netem("S", "C")
    link.set(238)
    assert called == netem.commands("S", "C", 238)
    assert link.reach("a", 5432) == ("a", 5432)


# -- echoes


def test_an_answer_that_is_not_what_was_sent_is_no_round_trip() -> None:
    def wrong(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(bytes(reversed(echo.receive(connection, echo.SIZE))))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=wrong, args=(listener,), daemon=True).start()
        with pytest.raises(ConnectionError, match="the answer is not what was sent"):
            echo.ask("127.0.0.1", listener.getsockname()[1], 5)


def test_echoes_that_fail_are_refused_with_their_words() -> None:
    nowhere = network.Ends("loopback", "192.0.2.1", (), (), False, CPUS)
    with pytest.raises(
        Refused, match=r"round trips could not be measured[\s\S]*expected: echoes[\s\S]*found: [\s\S]*what"
    ):
        delay.measure_rtt(nowhere)


# -- what goes wrong with the process that carries bytes


def test_a_process_that_does_not_start_is_refused_with_its_words() -> None:
    with pytest.raises(
        Refused, match=r"network delay: the process that adds the delay does not answer[\s\S]*found: no such device"
    ) as raised:
        carrier.Shuttle([sys.executable, "-c", "import sys; sys.exit('no such device')"])
    assert raised.value.remedy == "run again: a session begins with a new one"


def test_a_process_that_ends_without_a_word_is_told_by_its_exit_status() -> None:
    with pytest.raises(Refused, match="found: exit status"):
        carrier.Shuttle([sys.executable, "-c", ""])


def test_a_process_that_does_not_end_by_itself_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = carrier.Shuttle([sys.executable, "-c", "import time; print('{}', flush=True); time.sleep(60)"])
    wait = subprocess.Popen.wait
    monkeypatch.setattr(  # the same, with less patience
        subprocess.Popen, "wait", lambda self, timeout=None: wait(self, timeout and min(timeout, 0.1))
    )
    deaf.close()
    assert not alive(deaf.pid)


@pytest.mark.skipif(not TUN, reason="TUN devices need root and /dev/net/tun")
def test_devices_that_cannot_be_set_up_end_their_process(monkeypatch: pytest.MonkeyPatch) -> None:
    before = own_network()
    monkeypatch.setattr(carrier, "SERVER_ADDRESS", "nowhere")
    with (
        pytest.raises(Refused, match="network delay: tun"),
        opened("veth", "tun", monkeypatch),
    ):
        pytest.fail("opened")
    assert wait_for(lambda: own_network() == before)


def test_the_order_of_a_host_with_netem_is_netem(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = network.Ends("veth", "10.203.0.1", (), (), True, CPUS)
    link = delay._open("netem", ends, 250, "S", "C")
    assert isinstance(link, netem.Netem)
