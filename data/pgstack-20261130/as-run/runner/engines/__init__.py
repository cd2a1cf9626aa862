"""Engines: what the benchmark processes talk to. Each adapter starts, resets, observes and stops one server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from runner.engines import postgres
from runner.network import Ends
from runner.plan import Plan


class Engine(Protocol):
    """A running engine."""

    environment: dict[str, str]  # what a benchmark process needs to reach it
    secrets: tuple[str, ...]  # names in `environment` whose values are never written down

    def reset(self) -> None:
        """Clear all user data; done before every process, untimed."""

    def health(self) -> dict[str, Any]:
        """Version, uptime and counters; {} when there is nothing to ask. Raises Refused when it does not answer."""

    def restart(self) -> None:
        """Start again with no data, after the engine did not answer."""


class NoEngine:
    """For harnesses that need no server."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        self.secrets: tuple[str, ...] = ()

    def reset(self) -> None:
        """Nothing to clear."""

    def health(self) -> dict[str, Any]:
        """Nothing to ask."""
        return {}

    def restart(self) -> None:
        """Nothing to start."""


def identity(plan: Plan) -> dict[str, str]:
    """What the engine is: versions and digests for the seal. Raises Missing when it is not installed."""
    return postgres.identity(plan.engine) if plan.engine.kind == "postgres" else {}


@contextmanager
def open_engine(plan: Plan, ends: Ends) -> Iterator[Engine]:
    """Start the plan's engine at the server's end and stop it at the end."""
    if plan.engine.kind == "none":
        yield NoEngine()
        return
    with postgres.running(plan.engine, ends, plan.host.cpus.server) as server:
        yield server


def commands(plan: Plan, ends: Ends) -> list[list[str]]:
    """Every command that starting, resetting and stopping the engine takes, for `check --dry-run`."""
    return postgres.commands(plan.engine, ends, plan.host.cpus.server) if plan.engine.kind == "postgres" else []
