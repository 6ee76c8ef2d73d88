"""What ptxas says of every CUDA kernel: registers, shared memory, spills and the warps that fit a multiprocessor.

    python bench/cuda_resources.py               # of every generation: writes docs/cuda/resources.md, some 10 minutes
    python bench/cuda_resources.py 75 120        # prints those of some architectures, two minutes each

Needs nvcc, no GPU. What was compiled once is kept in build/cuda_resources until a source changes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CUDA = ROOT / "cuda"
KEPT = ROOT / "build" / "cuda_resources"
PAGE = ROOT / "docs" / "cuda" / "resources.md"
ARCHITECTURES = (75, 80, 90, 100, 120)

REGISTERS = 65536  # of a multiprocessor, given out to warps in units of 256
# Warps and kilobytes of shared memory that a multiprocessor has room for, and what the runtime takes of it for a block.
WARPS = {75: 32, 80: 64, 86: 48, 89: 48, 90: 64, 100: 64, 120: 48}
SHARED = {75: 64, 80: 164, 86: 100, 89: 100, 90: 228, 100: 228, 120: 100}
RESERVED = 1024

_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads.*?"
    r"Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)
_BOUNDS = re.compile(r"\.entry (\w+)\(.*?\)\s*((?:\.\w+ [\d, ]+\s*)*)\{", re.DOTALL)


@dataclass(frozen=True)
class Kernel:
    """One kernel as compiled for one architecture."""

    source: str
    name: str  # demangled, without its parameters
    architecture: int
    threads: int  # of a block; 0 where the launch bounds do not say
    blocks: int  # that the launch bounds ask for on a multiprocessor
    registers: int
    shared: int  # static, in bytes
    stack: int
    spilled: int  # bytes stored and loaded

    @property
    def warps(self) -> int:
        """How many warps fit a multiprocessor, as far as registers and static shared memory go."""
        of_block = -(-self.threads // 32)
        by_registers = REGISTERS // (-(-self.registers * 32 // 256) * 256 * of_block)
        by_shared = (SHARED[self.architecture] << 10) // (self.shared + RESERVED)
        return min(by_registers, by_shared, WARPS[self.architecture] // of_block) * of_block


def _output(*command: object) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout + done.stderr


def compiler() -> str:
    """Find nvcc."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise RuntimeError("expected nvcc, got none")
    return nvcc


def known(architectures: tuple[int, ...] = ARCHITECTURES) -> tuple[int, ...]:
    """Give those architectures that this nvcc compiles for."""
    names = set(re.findall(r"compute_(\d+)\b", _output(compiler(), "--list-gpu-arch")))
    return tuple(a for a in architectures if str(a) in names)


def _included(source: Path) -> set[Path]:
    """Find the project's own files that a source is made of, itself among them."""
    found: set[Path] = set()
    left = [source]
    while left:
        file = left.pop()
        if file not in found and file.exists():
            found.add(file)
            left += [CUDA / name for name in re.findall(r'^#include "([^"]+)"', file.read_text(), re.MULTILINE)]
    return found


def _kept(source: Path, name: str, make: Callable[[list[object], Path], None]) -> str:
    """Give a file that is made of a source by nvcc, made again only when something that it includes changed."""
    kept = KEPT / name
    if not kept.exists() or kept.stat().st_mtime <= max(file.stat().st_mtime for file in _included(source)):
        KEPT.mkdir(parents=True, exist_ok=True)
        # The version's header is made by the build.
        folders = [f"-I{folder}" for folder in (CUDA, ROOT / "csrc" / "include", ROOT / "build" / "cpp" / "include")]
        make([compiler(), "-std=c++20", "-Werror", "all-warnings", *folders, source], kept)
    return kept.read_text()


def said(source: Path, architecture: int) -> str:
    """Give what ptxas says of a source."""

    def make(command: list[object], to: Path) -> None:
        options = ["-cubin", f"-arch=sm_{architecture}", "-Xptxas", "-v", "-o", to.with_suffix(".cubin")]
        to.write_text(_output(*command, *options))

    return _kept(source, f"{source.stem}-{architecture}.txt", make)


def ptx(source: Path) -> str:
    """Give the PTX of a source."""
    oldest = f"-arch=compute_{min(known())}"

    def make(command: list[object], to: Path) -> None:
        unfinished = to.with_suffix(".part")
        _output(*command, "-ptx", oldest, "-o", unfinished)
        unfinished.rename(to)

    return _kept(source, f"{source.stem}.ptx", make)


def _lasting(name: str) -> str:
    """Leave out of a mangled name what differs from one run of nvcc to the next: names of unnamed namespaces."""
    unnamed = re.search(r"(\d+)(_GLOBAL__N__)", name)
    if unnamed is None:
        return name
    return name[: unnamed.start()] + name[unnamed.start(2) + int(unnamed[1]) :]


def _demangled(names: list[str]) -> list[str]:
    tool = shutil.which("cu++filt") or shutil.which("c++filt")
    if tool is None or not names:
        return names
    text = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    # void fastdl::gemm::cuda::product<...>(arguments) -> gemm::product<...>
    short = []
    for line in text.splitlines():
        name = re.sub(r"\(anonymous namespace\)::|<unnamed>::|fastdl::|cuda::|^void ", "", line)
        name = re.sub(r"\((?:\w+::)*Mode\)(\d)", lambda mode: ("rectangle", "triangle", "batch")[int(mode[1])], name)
        depth = 0
        for place, letter in enumerate(name):
            depth += {"<": 1, ">": -1}.get(letter, 0)
            if letter == "(" and depth == 0:
                name = name[:place]
                break
        short.append(re.sub(r"\((?:bool|int)\)", "", name))
    return short


def kernels(architectures: tuple[int, ...] = ARCHITECTURES) -> list[Kernel]:
    """Compile all sources and give what ptxas says of their kernels."""
    sources = sorted(CUDA.glob("*.cu"))
    pairs = [(source, architecture) for source in sources for architecture in known(architectures)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = list(pool.map(lambda pair: said(*pair), pairs))
        directives = dict(zip(sources, pool.map(lambda source: _BOUNDS.findall(ptx(source)), sources), strict=True))
    found = []
    for (source, architecture), text in zip(pairs, texts, strict=True):
        said_of = {_lasting(name): of_kernel for name, of_kernel in directives[source]}
        bounds = {name: dict(re.findall(r"\.(\w+) (\d+)", of_kernel)) for name, of_kernel in said_of.items()}
        entries = list(_ENTRY.finditer(text))
        for entry, name in zip(entries, _demangled([entry["name"] for entry in entries]), strict=True):
            bound = bounds.get(_lasting(entry["name"]), {})
            shared = re.search(r"(\d+) bytes smem", entry["rest"])
            found.append(
                Kernel(
                    source.name,
                    name,
                    architecture,
                    int(bound.get("maxntid", 0)),
                    int(bound.get("minnctapersm", 1)),
                    int(entry["registers"]),
                    int(shared[1]) if shared else 0,
                    int(entry["stack"]),
                    int(entry["stores"]) + int(entry["loads"]),
                )
            )
    return found


def _summary(found: list[Kernel]) -> list[str]:
    """Say how many kernels spill, and how many warps the hungriest leaves."""
    lines = ["| architecture | kernels | that spill | most registers | least warps |", "|---|---|---|---|---|"]
    for architecture in sorted({kernel.architecture for kernel in found}):
        those = [kernel for kernel in found if kernel.architecture == architecture]
        spilling = sum(kernel.spilled > 0 for kernel in those)
        most, least = max(kernel.registers for kernel in those), min(kernel.warps for kernel in those)
        lines.append(f"| sm_{architecture} | {len(those)} | {spilling} | {most} | {least} |")
    return lines


def page(found: list[Kernel]) -> str:
    """Make the table: a row a kernel, and for every architecture registers, spilled bytes and warps."""
    architectures = sorted({kernel.architecture for kernel in found})
    rows: dict[tuple[str, str], dict[int, Kernel]] = {}
    for kernel in found:
        rows.setdefault((kernel.source, kernel.name), {})[kernel.architecture] = kernel
    lines = [
        "# Resources of the CUDA kernels",
        "",
        "What ptxas says of each kernel, by `python bench/cuda_resources.py`: registers of a thread and, after the",
        "stroke, warps that fit a multiprocessor by registers and static shared memory; `+n` are bytes spilled.",
        "Dynamic shared memory, which the launch decides, is not counted. The code of sm_80 runs on 86 and 89 as well.",
        "",
        *_summary(found),
        "",
        "| source | kernel | threads | shared bytes | " + " | ".join(f"sm_{a}" for a in architectures) + " |",
        "|---|---|---|---|" + "---|" * len(architectures),
    ]
    for (source, name), by in sorted(rows.items()):
        first = next(iter(by.values()))
        cells = [
            f"{by[a].registers} / {by[a].warps}" + (f" +{by[a].spilled}" if by[a].spilled else "") if a in by else ""
            for a in architectures
        ]
        shown = name.replace("|", "\\|")
        lines.append(f"| {source} | `{shown}` | {first.threads} | {first.shared} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Print the table of some architectures, or write the page."""
    if arguments:
        print(page(kernels(tuple(map(int, arguments)))))
        return 0
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(kernels()))
    print(f"wrote {PAGE.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
