"""Engines: what the benchmark processes talk to. Each adapter starts, resets, observes and stops one server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from runner import plan as plans
from runner.engines import foundationdb, postgres
from runner.network import Ends
from runner.plan import Plan


class Engine(Protocol):
    """A running engine."""

    environment: dict[str, str]  # what a benchmark process needs to reach it
    secrets: tuple[str, ...]  # names in `environment` whose values are never written down

    def reset(self) -> None:
        """Clear all user data, down to the fixture where there is one; done before every process, untimed."""

    def keep_fixture(self) -> None:
        """Make what the database holds now the fixture: what every later `reset` leaves."""

    def health(self) -> dict[str, Any]:
        """Version, uptime and counters; {} when there is nothing to ask. Raises Refused when it does not answer."""

    def restart(self) -> None:
        """Start again with no data and no fixture, after the engine did not answer."""


class NoEngine:
    """For harnesses that need no server."""

    def __init__(self) -> None:
        self.environment: dict[str, str] = {}
        self.secrets: tuple[str, ...] = ()

    def reset(self) -> None:
        """Nothing to clear."""

    def keep_fixture(self) -> None:
        """Nothing to keep."""

    def health(self) -> dict[str, Any]:
        """Nothing to ask."""
        return {}

    def restart(self) -> None:
        """Nothing to start."""


def identity(plan: Plan) -> dict[str, str]:
    """What the engine is: versions and digests for the seal. Raises Missing when it is not installed."""
    if plan.engine.kind == "foundationdb":
        return foundationdb.identity(plan.engine)
    return postgres.identity(plan.engine) if plan.engine.kind == "postgres" else {}


@contextmanager
def open_engine(engine: plans.Engine, ends: Ends, cpus: str) -> Iterator[Engine]:
    """Start an engine at the server's end, bound to its CPUs, and stop it at the end."""
    if engine.kind == "none":
        yield NoEngine()
    elif engine.kind == "foundationdb":
        with foundationdb.running(engine, ends, cpus) as cluster:
            yield cluster
    else:
        with postgres.running(engine, ends, cpus) as server:
            yield server


def commands(engine: plans.Engine, ends: Ends, cpus: str, *, fixture: bool) -> list[list[str]]:
    """Every command that starting, resetting and stopping the engine takes, for `check --dry-run`."""
    if engine.kind == "foundationdb":
        return foundationdb.commands(engine, ends, cpus)
    return postgres.commands(engine, ends, cpus, fixture=fixture) if engine.kind == "postgres" else []
