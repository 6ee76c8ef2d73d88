"""Peak memory of a scattering transform, its making included, beside kymatio's: ``python bench/scattering_memory.py``.

Each in a process of its own, after its imports and a small transform; what is counted is the peak of the resident size
above that, as Linux has it (VmHWM).
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONTENDERS = ("fastdl", "kymatio numpy", "kymatio torch")
BATCH, SIDE, SCALES = 8, 256, 4


def resident(what: str) -> float:
    """Give a size of this process from its status, in MB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"expected {what} in /proc/self/status")


def measure(name: str) -> float:
    """Make the transform and call it; give the peak in MB."""
    sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]
    import numpy as np

    import rivals_kymatio
    from fastdl.scattering import Scattering2D

    def transform(x: np.ndarray, J: int):
        if name == "fastdl":
            return Scattering2D(J, x.shape[-2:])(x)
        return rivals_kymatio.transform(name.split()[1], "Scattering2D", x=x, J=J)()

    x = np.random.default_rng(0).standard_normal((BATCH, 1, SIDE, SIDE), dtype=np.float32)
    transform(np.ones((1, 1, 8, 8), np.float32), 1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident("VmRSS")
    kept = transform(x, SCALES)
    peak = resident("VmHWM") - before
    del kept
    return peak


def main() -> None:
    """Print a line for each."""
    if len(sys.argv) > 1:
        print(measure(sys.argv[1]))
        return
    print(f"peak of Scattering2D(J={SCALES}) on {BATCH} images of {SIDE} x {SIDE}, float32")
    for name in CONTENDERS:
        found = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, check=False)
        answer = f"{float(found.stdout):.1f} MB" if found.returncode == 0 else found.stderr.strip().splitlines()[-1]
        print(f"{name:14} {answer}")


if __name__ == "__main__":
    main()
