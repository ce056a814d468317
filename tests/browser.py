"""A headless Chromium for tests, driven through its debugging pipe: two descriptors, no driver."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """The browser of this machine, or None; Windows has no pipes that it could be driven through."""
    if sys.platform == "win32":
        return None
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page in one browser; remembers what the console said and what was asked for over the network."""

    def __init__(self, profile: Path) -> None:
        self.console: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._rest = b""
        self._loads = 0
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        # What a browser does on its own account (updates, lists of bad sites) is off: only the page may ask.
        switches = (
            *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
            *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
            "--host-resolver-rules=MAP * ~NOTFOUND",
        )
        words = [
            str(chromium()),
            *switches,
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        # The browser reads from descriptor 3 and writes to 4.
        script = f'exec 3<&{theirs_in} 4>&{theirs_out}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", *words],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session = ""
        targets = self._page_targets()
        attached = self.ask("Target.attachToTarget", targetId=targets, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._session = ""
            self.ask("Browser.close")
        except (OSError, AssertionError):
            self._process.kill()
        self._process.wait(20)
        os.close(self._in)
        os.close(self._out)

    def ask(self, method: str, **params: Any) -> Any:
        """Send one command and return its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while True:
            answer = self._next(deadline)
            assert answer is not None, f"no answer to {method}"
            if answer.get("id") == self._number:
                assert "error" not in answer, answer["error"]
                return answer["result"]

    def open(
        self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False, scripts: bool = True
    ) -> None:
        """Go to an address and wait until it is loaded."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Emulation.setScriptExecutionDisabled", value=not scripts)
        self._go("about:blank")  # or an address that differs in its fragment only would load nothing
        self.console.clear()
        self.requests.clear()
        self._go(url)

    def _go(self, url: str) -> None:
        self._loads = 0
        self.ask("Page.navigate", url=url)
        deadline = time.monotonic() + 60
        while not self._loads:
            assert self._next(deadline) is not None, f"{url} did not load"

    def run(self, expression: str) -> Any:
        """Evaluate in the page and return plain data; a promise is waited for."""
        answer = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str, *, seconds: float = 20) -> None:
        """Wait until an expression is true."""
        deadline = time.monotonic() + seconds
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < deadline, f"not in {seconds} s: {condition}"
            time.sleep(0.03)

    def key(self, name: str, code: int, *, text: str = "") -> None:
        """Press and release one key."""
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.ask("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, **extra)

    def shoot(self, path: Path, *, whole: bool = False) -> None:
        """Write a picture of what is shown, or of the whole page."""
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _page_targets(self) -> str:
        deadline = time.monotonic() + 30
        while True:
            pages = [t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page"]
            if pages:
                return str(pages[0]["targetId"])
            assert time.monotonic() < deadline, "the browser opened no page"
            time.sleep(0.05)

    def _next(self, deadline: float) -> dict[str, Any] | None:
        """Read one message; note what events say."""
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            part = os.read(self._in, 1 << 20) if ready else b""
            if not part:
                return None
            self._rest += part
        raw, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loads += 1
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            self.console.append(json.dumps(params["exceptionDetails"])[:500])
        elif event == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif event == "Runtime.consoleAPICalled" and params["type"] in {"error", "warning", "assert"}:
            self.console.append(json.dumps(params["args"])[:500])
