"""Compare the kernels that tests have emulated with all that the extension has: run at the end of `make test-cuda`.

``python tests/cuda_launches.py build/cpp/cuda_emulation build/launches``
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def kernel_names() -> set[str]:
    """Give the names of all functions that are kernels in the sources."""
    declared = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\s*\(")
    sources = (path for pattern in ("*.cu", "*.cuh") for path in (ROOT / "cuda").glob(pattern))
    return {name for source in sources for name in declared.findall(source.read_text())}


def compiled(extension: Path) -> dict[int, str]:
    """Give the kernels of an extension, each instance of a template for itself, by their places in the file."""
    names = kernel_names()
    listed = subprocess.run(["nm", "-C", str(extension)], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in listed.splitlines():
        place, _, rest = line.partition(" ")
        kind, _, symbol = rest.partition(" ")
        # The name before the template's arguments or the function's: what is last before them. Functions that are no
        # templates are listed without their type; lambdas and variables within kernels go on behind their arguments.
        whole = re.sub(r"\(anonymous namespace\)", "", symbol)
        head = re.split(r"[<(]", whole, maxsplit=1)[0].removeprefix("void ")
        is_kernel = head.split("::")[-1] in names and "::bindings::" not in head and "[clone" not in symbol
        template = whole.startswith("void ")
        if place and kind in "tTwW" and is_kernel and (template or "<" not in whole.split("(")[0]):
            found[int(place, 16)] = symbol
    return found


def main(folder: Path, launches: Path) -> int:
    """Print how many kernels ran, and those that did not. Give the exit code."""
    kernels = compiled(next(folder.glob("_cuda.*so")))
    ran = {int(place, 16) for file in launches.glob("*.txt") for place in file.read_text().split()}
    unknown = ran - set(kernels)
    for place in sorted(set(kernels) - ran, key=lambda place: kernels[place]):
        print("not launched:", kernels[place])
    for place in unknown:
        print("launched, but not among the kernels:", hex(place))
    print(f"{len(ran & set(kernels))} of {len(kernels)} kernels were launched")
    return 0 if ran == set(kernels) and kernels else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
