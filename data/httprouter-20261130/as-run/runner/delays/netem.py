"""A delay added by the kernel: netem on both ends of the veth pair.

Untested on a kernel that has netem: the commands, their order and the refusal where it is absent are tested, the delay that
it gives is not. A campaign that uses it is guarded all the same, since the delay is measured and refused when it is off.
"""

from __future__ import annotations

from runner.errors import BenchbookError
from runner.process import call, tool

LIMIT = 100_000  # packets held; the default of 1,000 would drop some of a bulk transfer


def probe() -> str:
    """Why this host cannot, tried in a network namespace that ends with the command; "" when it can."""
    try:
        call(
            [
                tool("unshare"),
                "--net",
                "--",
                tool("tc"),
                *["qdisc", "add", "dev", "lo", "root", "netem", "delay", "1us"],
            ]
        )
    except BenchbookError as error:
        return f"{error.problem}: {error.found.splitlines()[-1] if error.found else error.where}"
    return ""


def commands(server: str, client: str, delay_us: int) -> list[list[str]]:
    """What sets, and sets anew, the delay each way, given the process ids of the namespaces' holders."""
    return [
        [
            *(tool("nsenter"), f"--net=/proc/{pid}/ns/net", "--", _tc(), "qdisc", "replace", "dev", device),
            *("root", "netem", "delay", f"{delay_us}us", "limit", str(LIMIT)),
        ]
        for pid, device in ((server, "bb-server"), (client, "bb-client"))
    ]


def _tc() -> str:
    return tool("tc")


class Netem:
    """The delay in force; it goes with the namespaces."""

    def __init__(self, server: str, client: str) -> None:
        self._server, self._client = server, client
        self.facts: dict[str, object] = {}

    def set(self, delay_us: int) -> None:
        """Make the delay each way this long."""
        for command in commands(self._server, self._client, delay_us):
            call(command, where="network delay: netem")

    def reach(self, address: str, port: int) -> tuple[str, int]:
        """The path itself is delayed."""
        return address, port

    def leave(self, port: int) -> None:
        """Nothing was made for it."""

    def assert_alive(self) -> None:
        """There is no process that could have ended."""

    def rest(self, resting: bool) -> None:
        """Nothing of this runs between packets."""

    def close(self) -> None:
        """Nothing to end."""
