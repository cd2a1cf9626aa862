"""What the host is, and what it is doing: observed from /proc and /sys, compared, and checked.

Observation is at the edge (`observe`, `counters`); grouping, comparison and checks are pure.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import statistics
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from runner import containment
from runner.plan import Checks, CpuGroups

CALIBRATION_ROUNDS = 5
CALIBRATION_STEPS = 40_000


def parse_cpus(text: str) -> tuple[int, ...]:
    """CPU numbers of a list such as "0-1,4"."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(cpus))


def format_cpus(cpus: Iterable[int]) -> str:
    """The shortest list for CPU numbers: "0-1,4"."""
    ranges: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{a}-{b}" if b > a else f"{a}" for a, b in ranges)


def cpu_groups(siblings: Iterable[tuple[int, ...]]) -> CpuGroups:
    """Split cores into housekeeping, server and client, whole cores (sets of siblings) at a time.

    One core in eight, at least one, is for housekeeping, half of the cores for the client, the rest for the
    server. With two cores the runner shares the server's core. With one core its CPUs are split like cores, and
    with one CPU all share it.
    """
    cores = sorted(set(siblings))
    if len(cores) == 1:
        cores = [(cpu,) for cpu in cores[0]]
    client = cores[(len(cores) + 1) // 2 :] or cores
    rest = cores[: (len(cores) + 1) // 2]
    keep = rest[: max(1, len(cores) // 8)]
    server = rest[len(keep) :] or keep

    def flat(group: list[tuple[int, ...]]) -> str:
        return format_cpus(cpu for core in group for cpu in core)

    return CpuGroups(housekeeping=flat(keep), server=flat(server), client=flat(client))


def siblings() -> list[tuple[int, ...]]:
    """The sibling sets of the CPUs that this process may use."""
    allowed = os.sched_getaffinity(0)
    found = []
    for cpu in sorted(allowed):
        text = _read(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") or str(cpu)
        found.append(tuple(c for c in parse_cpus(text.strip()) if c in allowed))
    return found


def observe(campaign: str) -> dict[str, Any]:
    """What this host is. "identity" must not change between seal and runs; "details" may, and are recorded."""
    cpuinfo = _read("/proc/cpuinfo")
    model = re.search(r"^model name\s*:\s*(.*)$", cpuinfo, re.M)
    microcode = re.search(r"^microcode\s*:\s*(.*)$", cpuinfo, re.M)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", _read("/proc/meminfo"), re.M)
    machine = _read("/etc/machine-id").strip()
    identity = {
        "machine": hashlib.sha256(f"{campaign} {machine}".encode()).hexdigest() if machine else "unknown",
        "architecture": platform.machine(),
        "cpu_model": model[1] if model else "unknown",
        "cpus": format_cpus(range(os.cpu_count() or 1)),
        "siblings": [format_cpus(core) for core in sorted(set(siblings()))],
        "memory_kb": int(memory[1]) if memory else None,
        "kernel": platform.release(),
    }
    details = {
        "os": _os_name(),
        "microcode": microcode[1] if microcode else "unknown",
        "hypervisor": "hypervisor" in cpuinfo,
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").strip() or "not exposed",
        "turbo": _read("/sys/devices/system/cpu/intel_pstate/no_turbo").strip() or "not exposed",
        "transparent_hugepages": _read("/sys/kernel/mm/transparent_hugepage/enabled").strip() or "not exposed",
        "clocksource": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource").strip(),
        "open_files": _limit(),
        "root": os.geteuid() == 0,
        "containment": containment.available(),
        "python": platform.python_version(),
        "libc": "-".join(platform.libc_ver()),
        "boot_id": _read("/proc/sys/kernel/random/boot_id").strip(),
    }
    return {"format": 1, "identity": identity, "details": details}


def differences(sealed: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    """In which parts of its identity the present host differs from the sealed one."""
    keys = sealed.keys() | found.keys()
    return [
        f"{key}: sealed {sealed.get(key)!r}, found {found.get(key)!r}"
        for key in sorted(keys)
        if sealed.get(key) != found.get(key)
    ]


def _os_name() -> str:
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', _read("/etc/os-release"), re.M)
    return match[1] if match else "unknown"


def _limit() -> list[int]:
    import resource

    return list(resource.getrlimit(resource.RLIMIT_NOFILE))


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def calibrate(cpus: Iterable[int]) -> list[int]:
    """Times (ns) of a short fixed loop of arithmetic on the given CPUs; this process's own CPUs are restored."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        times = []
        for _ in range(CALIBRATION_ROUNDS):
            start = time.perf_counter_ns()
            value = 1
            for step in range(CALIBRATION_STEPS):
                value = (value * 31 + step) & 0xFFFFFFFF
            times.append(time.perf_counter_ns() - start)
        return times
    finally:
        os.sched_setaffinity(0, before)


def cpu_ticks() -> dict[str, list[int]]:
    """Counters of /proc/stat by CPU: user nice system idle iowait irq softirq steal, in ticks."""
    ticks = {}
    for line in _read("/proc/stat").splitlines():
        match = re.match(r"^cpu(\d+)\s+(.*)$", line)
        if match:
            ticks[match[1]] = [int(field) for field in match[2].split()[:8]]
    return ticks


def counters() -> dict[str, Any]:
    """Counters whose change over a run says what else went on: CPU time, steal, swap, OOM kills, throttling."""
    vmstat = dict(line.split() for line in _read("/proc/vmstat").splitlines())
    throttled = re.findall(
        r"^nr_throttled (\d+)$", _read("/sys/fs/cgroup/cpu/cpu.stat") or _read("/sys/fs/cgroup/cpu.stat"), re.M
    )
    thermal = [
        _read(f"/sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count").strip()
        for cpu in range(os.cpu_count() or 1)
    ]
    return {
        "cpu_ticks": cpu_ticks(),
        "swap_pages": int(vmstat.get("pswpin", 0)) + int(vmstat.get("pswpout", 0)),
        "oom_kills": int(vmstat["oom_kill"]) if "oom_kill" in vmstat else None,
        "group_oom_kills": group_oom_kills(),
        "throttled_periods": int(throttled[0]) if throttled else None,
        "thermal_throttles": sum(map(int, filter(None, thermal))) if any(thermal) else None,
        "load_average": _read("/proc/loadavg").split()[:3],
    }


def group_oom_kills() -> int | None:
    """How many processes of this process's own memory cgroup, v1 or v2, the kernel has killed for memory; None: not exposed.

    /proc/vmstat counts those of the whole host, a neighbour's too. In a group without a memory controller of its own the
    nearest one above counts.
    """
    for line in _read("/proc/self/cgroup").splitlines():
        number, kinds, path = line.split(":", 2)
        if number != "0" and "memory" not in kinds.split(","):
            continue
        folder = containment.folder_of(kinds, path)
        for place in [folder, *folder.parents] if folder else []:
            text = _read(f"{place}/memory.events" if number == "0" else f"{place}/memory.oom_control")
            found = re.search(r"^oom_kill (\d+)$", text, re.M)
            if found:
                return int(found[1])
    return None


def busy_share(before: Mapping[str, list[int]], after: Mapping[str, list[int]], cpus: Iterable[int]) -> float | None:
    """Share of the time between two readings in which the CPUs were not idle; None when no tick passed."""
    total = idle = 0
    for cpu in map(str, cpus):
        change = [b - a for a, b in zip(before[cpu], after[cpu], strict=True)]
        total += sum(change)
        idle += change[3] + change[4]
    return 1 - idle / total if total else None


def steal_share(before: Mapping[str, list[int]], after: Mapping[str, list[int]]) -> float | None:
    """Share of CPU time between two readings that the hypervisor gave to others; None when no tick passed."""
    total = stolen = 0
    for cpu in before.keys() & after.keys():
        change = [b - a for a, b in zip(before[cpu], after[cpu], strict=True)]
        total += sum(change)
        stolen += change[7]
    return stolen / total if total else None


def cpus_beyond(planned: str, allowed: str) -> int | None:
    """How many CPUs a process was allowed beyond the planned ones; None when the kernel did not say."""
    return None if allowed == "unknown" else len(set(parse_cpus(allowed)) - set(parse_cpus(planned)))


def checks_of(
    limits: Checks,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    loops: tuple[list[int], list[int]],
    baseline_ns: float,
) -> list[dict[str, Any]]:
    """The checks of one run, each with its value, its limit and whether it holds. A value that the host
    does not expose is None and holds nothing against the run; it is listed all the same."""
    values: list[tuple[str, float | None, float]] = [
        ("calibration_ratio", max(statistics.median(loop) for loop in loops) / baseline_ns, limits.calibration_ratio),
        ("steal_share", steal_share(before["cpu_ticks"], after["cpu_ticks"]), limits.steal_share),
        ("swap_pages", _change(before, after, "swap_pages"), limits.swap_pages),
        ("oom_kills", _change(before, after, "oom_kills"), limits.oom_kills),
        ("throttled_periods", _change(before, after, "throttled_periods"), limits.throttled_periods),
    ]
    return [
        {
            "check": name,
            "value": None if value is None else round(value, 4),
            "limit": limit,
            "holds": None if value is None else value <= limit,
        }
        for name, value, limit in values
    ]


def _change(before: Mapping[str, Any], after: Mapping[str, Any], key: str) -> float | None:
    if before[key] is None or after[key] is None:
        return None
    return float(after[key] - before[key])
