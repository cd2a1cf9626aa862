"""Looks at built pages in headless Chromium: the DevTools protocol over a pipe, standard library only.

python -m tests.site.browser PAGE.html 390 out.png     a screenshot of a whole page
"""

from __future__ import annotations

import base64
import contextlib
import functools
import http.server
import itertools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)


def chromium() -> str | None:
    """The browser's path, or None where there is none."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve ``folder`` as a static host would; gives the address without a slash at its end."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()


@dataclass
class Look:
    """What one page did when it was opened."""

    requests: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)


class Browser:
    """One headless Chromium with a profile of its own; use as a context manager."""

    def __init__(self, path: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # The protocol's ends are descriptors 3 and 4 in the browser.
        script = f'exec "$0" "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", script, path, *FLAGS, f"--user-data-dir={self._profile.name}", "about:blank"],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._page(f"{domain}.enable")
        self._page("Network.setCacheDisabled", cacheDisabled=True)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        self._profile.cleanup()

    def _receive(self, seconds: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise TimeoutError(f"the browser said nothing for {seconds:g} s")
            got = os.read(self._read, 1 << 20)
            if not got:
                raise RuntimeError("the browser ended")
            self._buffer += got
        message, self._buffer = self._buffer.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _call(self, method: str, params: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive(30)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def _page(self, method: str, **params: Any) -> dict[str, Any]:
        return self._call(method, params, self._session)

    def inject(self, script: str) -> None:
        """From now on execute a script in every page before anything of its own."""
        self._page("Page.addScriptToEvaluateOnNewDocument", source=script)

    def open(self, url: str, width: int, height: int = 900, dark: bool = False) -> Look:
        """Open a page at a width in CSS pixels and wait until it has loaded and been quiet for 0.3 s."""
        self._size(width, height)
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._page("Emulation.setEmulatedMedia", features=features)
        self._events.clear()
        self._page("Page.navigate", url=url)
        loaded = any(event["method"] == "Page.loadEventFired" for event in self._events)
        while True:
            try:
                event = self._receive(0.3 if loaded else 30)
            except TimeoutError:
                if loaded:
                    break
                raise
            self._events.append(event)
            if event["method"] == "Page.javascriptDialogOpening":  # it would wait for a person
                self._page("Page.handleJavaScriptDialog", accept=False)
            loaded = loaded or event["method"] == "Page.loadEventFired"
        return self._seen()

    def _seen(self) -> Look:
        look = Look()
        for event in self._events:
            params = event.get("params", {})
            if event["method"] == "Network.requestWillBeSent":
                look.requests.append(params["request"]["url"])
            elif event["method"] == "Network.loadingFailed":
                look.failed.append(params.get("errorText", ""))
            elif event["method"] == "Network.responseReceived" and params["response"]["status"] >= 400:
                look.failed.append(f"{params['response']['status']} {params['response']['url']}")
            elif event["method"] == "Page.javascriptDialogOpening":
                look.dialogs.append(params["message"])
            elif event["method"] == "Log.entryAdded":
                look.console.append(params["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                look.console.append(json.dumps(params["args"])[:400])
            elif event["method"] == "Runtime.exceptionThrown":
                look.errors.append(json.dumps(params["exceptionDetails"])[:400])
        return look

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the open page."""
        result = self._page("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"]))
        return result["result"].get("value")

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """Write a PNG of the open page, the whole of it or what is visible."""
        if whole:
            size = self._page("Page.getLayoutMetrics")["cssContentSize"]
            self._size(self._width, min(round(size["height"]), 16000))
            self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        path.write_bytes(base64.b64decode(self._page("Page.captureScreenshot", format="png")["data"]))

    def _size(self, width: int, height: int) -> None:
        self._width = width
        self._page("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)


def main(page: str, width: str, out: str, *options: str) -> int:
    found = chromium()
    if found is None:
        print("chromium is missing: install the package chromium", file=sys.stderr)
        return 1
    with Browser(found) as browser:
        address = page if "://" in page else Path(page).resolve().as_uri()
        browser.open(address, int(width), dark="dark" in options)
        browser.screenshot(Path(out), whole="visible" not in options)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
