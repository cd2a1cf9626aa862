"""What FoundationDB's machine-readable status says, and whether it is what the plan asked for. Pure.

Field names are those of the documentation of 7.3, "Machine-Readable Status". It says that fields may be absent, so that
every one is looked for; what a decision needs and is not there is an error, what is only recorded is null.
"""

from __future__ import annotations

import json
from typing import Any

from runner.errors import Refused
from runner.plan import Engine

WHERE = "engine foundationdb"
REDUNDANCY = "single"
# What a storage engine is called once it is configured: "memory" is another name of the newest of its versions.
SHOWN_AS = {"memory": ("memory", "memory-2"), "ssd-2": ("ssd-2",)}
COUNTS = ("commit_proxies", "grv_proxies", "logs", "resolvers")
Status = dict[str, Any]


def parse(output: str) -> Status:
    """The status in the output of `status json`. Raises Refused when there is none."""
    first, last = output.find("{"), output.rfind("}")
    try:
        status = json.loads(output[first : last + 1])
    except ValueError:
        status = None
    if not isinstance(status, dict):
        raise Refused(
            WHERE,
            "status json cannot be read",
            expected="a JSON object",
            found=output.strip()[:500] or "no output",
            remedy="run fdbcli with the server's cluster file and look at its status",
        )
    return status


def look(status: Any, *path: str) -> Any:
    """A field, or None when it or one that holds it is absent."""
    for name in path:
        status = status.get(name) if isinstance(status, dict) else None
    return status


def available(status: Status) -> bool:
    """Whether client and cluster both say so."""
    return (
        look(status, "client", "database_status", "available") is True
        and look(status, "cluster", "database_available") is True
    )


def settled(status: Status) -> bool:
    """Whether a new database is at rest: available, recovered, and its data where it is to be."""
    return (
        available(status)
        and look(status, "cluster", "recovery_state", "name") == "fully_recovered"
        and look(status, "cluster", "data", "state", "healthy") is True
    )


def condition(status: Status) -> str:
    """How the database is, in one line for an error."""
    parts = {
        "available": available(status),
        "recovery": look(status, "cluster", "recovery_state", "name"),
        "data": look(status, "cluster", "data", "state", "name"),
        "messages": ", ".join(messages(status)) or "none",
    }
    return "; ".join(f"{name} {value}" for name, value in parts.items())


def messages(status: Status) -> list[str]:
    """Names of every message of client, cluster and processes, each once."""
    holders = [look(status, "client"), look(status, "cluster"), *_processes(status)]
    found = [message for holder in holders for message in look(holder, "messages") or []]
    return sorted({str(look(message, "name")) for message in found})


def health(status: Status) -> dict[str, Any]:
    """Version, uptime and counters for the record. Raises Refused when the database is not available."""
    if not available(status):
        raise Refused(
            WHERE,
            "the database is not available",
            expected="client.database_status.available and cluster.database_available",
            found=condition(status),
            remedy="see what status says of it; the next run starts it again with no data",
        )
    process = _only_process(status)
    moving = look(status, "cluster", "data", "moving_data") or {}
    lags = [look(role, "durability_lag", "seconds") for role in process.get("roles") or []]
    return {
        "server_version": process.get("version"),
        "uptime_s": process.get("uptime_seconds"),
        "generation": look(status, "cluster", "generation"),
        "available": True,
        "recovery_state": look(status, "cluster", "recovery_state", "name"),
        "data_state": look(status, "cluster", "data", "state", "name"),
        "redundancy": look(status, "cluster", "configuration", "redundancy_mode"),
        "storage_engine": look(status, "cluster", "configuration", "storage_engine"),
        "tenant_mode": look(status, "cluster", "configuration", "tenant_mode"),
        "messages": messages(status),
        "worst_durability_lag_s": max((lag for lag in lags if lag is not None), default=None),
        "moving_bytes": sum(moving.get(name) or 0 for name in ("in_flight_bytes", "in_queue_bytes")),
        "memory_used_bytes": look(process, "memory", "used_bytes"),
    }


def assert_planned(engine: Engine, status: Status) -> None:
    """Raise Refused when version or configuration are not the plan's; all differences are named at once."""
    process, configuration = _only_process(status), look(status, "cluster", "configuration") or {}
    wanted: list[tuple[str, tuple[str | None, ...], Any]] = [
        ("version", (engine.version,), process.get("version")),
        ("redundancy_mode", (REDUNDANCY,), configuration.get("redundancy_mode")),
        ("storage_engine", SHOWN_AS[engine.storage_engine], configuration.get("storage_engine")),
        ("tenant_mode", _tenant_modes(engine), configuration.get("tenant_mode")),
    ]
    for name in COUNTS:
        if name in engine.settings:
            found = configuration.get(name)
            wanted.append((name, (engine.settings[name],), None if found is None else str(found)))
    wrong = [
        (name, " or ".join(str(value) for value in values if value), found)
        for name, values, found in wanted
        if found not in values
    ]
    if wrong:
        raise Refused(
            WHERE,
            "the server is not as planned",
            expected="; ".join(f"{name} {value}" for name, value, _ in wrong),
            found="; ".join(f"{name} {value}" for name, _, value in wrong),
            remedy="install the planned version, or plan what this one has",
        )


def _tenant_modes(engine: Engine) -> tuple[str | None, ...]:
    """Without a mode in the plan: none, and a version that has no tenants says nothing of them."""
    planned = engine.settings.get("tenant_mode")
    return (planned,) if planned else ("disabled", None)


def _processes(status: Status) -> list[dict[str, Any]]:
    return list((look(status, "cluster", "processes") or {}).values())


def _only_process(status: Status) -> dict[str, Any]:
    processes = _processes(status)
    if len(processes) != 1:
        raise Refused(
            WHERE,
            "status does not show one server process",
            expected="one process in cluster.processes",
            found=", ".join(str(process.get("address")) for process in processes) or "none",
            remedy="stop other servers of this cluster; a process of another version is not shown at all",
        )
    return processes[0]


def keys_left(output: str, limit: int) -> list[str]:
    """The keys in the output of `getrangekeys`. Raises Refused when it does not look like one."""
    lines = [line.strip() for line in output.splitlines()]
    if f"Range limited to {limit} keys" not in lines:
        raise Refused(
            WHERE,
            "the answer to getrangekeys cannot be read",
            expected=f"Range limited to {limit} keys",
            found=output.strip()[:500] or "no output",
            remedy="this version of fdbcli may write another form: plan one that was tried",
        )
    return [line[1:-1] for line in lines if line.startswith("`") and line.endswith("'")]


def assert_empty(output: str, *, tenants: bool) -> None:
    """Raise Refused when a reset left a key, or a tenant where there can be any; `output` is what it printed."""
    keys = keys_left(output, 1)
    if keys or (tenants and "no tenants" not in output):
        raise Refused(
            WHERE,
            "a reset left something behind",
            expected="no user key and no tenant",
            found=f"key {keys[0]}" if keys else output.strip()[-200:],
            remedy="does a process of an earlier run still write? Every process must delete the tenants that it made",
        )
