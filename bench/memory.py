"""Peak memory of a call: how much the resident size of a process grows in the first call it makes.

A server (``python memory.py FILE quick|full``) knows the groups of a family. It imports what they need, but calls none
of it and has no threads, and forks a child for every question: the child makes the inputs and the call of one
contender, lets the kernel's high-water mark begin anew, calls once, and answers how far the mark has come above the
size before. So every figure is of a fresh process, and imports are paid for once. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PR_SET_PDEATHSIG = 1


# ---- for those who ask ----
class Server:
    """A server for the groups of a file; where there can be none, it has no answers."""

    def __init__(self, file: Path, full: bool) -> None:
        self._process = None
        if not Path("/proc/self/clear_refs").exists():
            return
        # OpenBLAS starts threads when it is loaded, and a process with threads must not fork; a child asks for them.
        self._process = subprocess.Popen(
            [sys.executable, __file__, os.fspath(file), "full" if full else "quick"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
            text=True,
        )

    def growth(self, label: str, contender: str) -> int | None:
        """Bytes by which a contender's first call of a group lets the peak grow; None if it could not be had."""
        if self._process is None:
            return None
        with contextlib.suppress(OSError):
            self._process.stdin.write(json.dumps([label, contender]) + "\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                # Libraries print what they like.
                if line.startswith("@ "):
                    return json.loads(line[2:])
        return None

    def close(self) -> None:
        """End the server, and with it a child that is still at work."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


# ---- the server ----
def _end_with_parent() -> None:
    # Whoever measures may be killed in the middle of a call of minutes.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _resident(what: str) -> int:
    """Give a size of this process from its status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"expected {what} in /proc/self/status")


def _first_call(group: Any, contender: str) -> int:
    from measure import same_threads

    with same_threads(group.threads):
        call = group.alone[contender]()
        with same_threads(group.threads):
            gc.collect()
            # What the preparation has freed lies ready in the heap, and the call would take it unseen.
            with contextlib.suppress(AttributeError):  # only glibc has it
                ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
            before = _resident("VmRSS")
            kept = call()
            peak = _resident("VmHWM")
    del kept
    # The kernel's counters are not exact to the page.
    return max(0, peak - before)


def _in_child(group: Any, contender: str) -> dict[str, Any]:
    """Ask a child for the growth and for the modules it has loaded; nothing where it failed."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            _end_with_parent()
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            before = set(sys.modules)
            growth = _first_call(group, contender)
            with open(write, "w") as pipe:
                json.dump({"growth": growth, "modules": [name for name in sys.modules if name not in before]}, pipe)
        finally:
            # No handlers, no buffers, no message: those are the parent's.
            os._exit(0)
    os.close(write)
    with open(read) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else {"growth": None, "modules": []}


def _load(modules: list[str]) -> bool:
    """Import modules as far as they can be; tell whether one of them was new."""
    before = len(sys.modules)
    for name in modules:
        with contextlib.suppress(Exception):
            import_module(name)
    return len(sys.modules) > before


def _answer(group: Any, contender: str) -> int | None:
    found = _in_child(group, contender)
    # What a child had to import, the next ones find here; and it may have been imported in the call itself.
    if _load(found["modules"]):
        found = _in_child(group, contender)
    return found["growth"]


def main(file: str, length: str) -> None:
    """Answer questions until there are no more."""
    _end_with_parent()
    # The family's own folder first; the suite; and the cases, which are the tests'.
    sys.path[:0] = [os.fspath(Path(file).parent), os.fspath(HERE), os.fspath(HERE.parent / "tests")]
    import machine

    module = import_module(Path(file).stem)
    groups = {group.label: group for group in module.groups(length == "full", machine.active_level())}
    for line in sys.stdin:
        label, contender = json.loads(line)
        group = groups.get(label)
        growth = None if group is None or contender not in group.alone else _answer(group, contender)
        print(f"\n@ {json.dumps(growth)}", flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main(*sys.argv[1:])
