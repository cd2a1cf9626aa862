"""Processes that are started, held and ended: what the whole campaigns of the other tests cannot bring about."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from runner import process
from runner.errors import Refused

PROJECT = Path(__file__).resolve().parents[1]


def test_an_interruption_from_the_keyboard_does_not_reach_what_the_runner_asks() -> None:
    """Ctrl-C goes to the whole foreground group: what is asked while the runner holds it back still answers, and then it comes."""
    script = """
import os, signal, sys, threading
from runner import process
from runner.interrupts import held
try:
    with held():
        threading.Timer(0.3, lambda: os.killpg(0, signal.SIGINT)).start()
        print(process.call([sys.executable, "-c", "import time; time.sleep(1); print('whole')"]), end="", flush=True)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=PROJECT, capture_output=True, text=True, check=False, start_new_session=True
    )
    assert done.stdout.splitlines() == ["whole", "interrupted"], done.stderr


def test_a_process_that_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "END_LIMIT_S", 0.05)
    stays = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(Refused, match=rf"process {stays.pid}.*did not end within 0.05 s"):
            process._assert_ends(stays.pid)
    finally:
        stays.kill()
        stays.wait()
    gone = subprocess.Popen(["true"])
    monkeypatch.setattr(process, "END_LIMIT_S", 10)
    process._assert_ends(gone.pid)
    assert gone.wait() == 0


def test_an_orphan_that_does_not_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "END_LIMIT_S", 0.05)
    known = process.children()
    orphan = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(process.os, "kill", lambda *_: None)
    try:
        with pytest.raises(Refused, match=rf"process {orphan.pid}.*did not end within 0.05 s"):
            process.end_orphans(known)
    finally:
        monkeypatch.undo()
        process.end_orphans(known)
    assert orphan.pid not in process.children()
