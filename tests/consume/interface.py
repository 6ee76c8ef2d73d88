"""What fastdl.h declares, a line for each thing that a program compiled with it depends on.

`python tests/consume/interface.py` records it for the version of the package. What is recorded for a version, as 0.1,
stays as it is in all of 0.1.x; functions, structs and enumerators may be added.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEADER = ROOT / "csrc" / "include" / "fastdl" / "fastdl.h"
VERSION = ROOT / "python" / "fastdl" / "_version.py"


def declarations(text: str) -> list[str]:
    """The functions, the members of structs in their order, and the values of enumerators."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    text = " ".join(text.split())
    lines = []
    for body, name in re.findall(r"typedef enum \w+ FASTDL_INT \{(.*?)\} (\w+);", text):
        value = -1
        for entry in filter(None, (part.strip() for part in body.split(","))):
            label, _, given = entry.partition("=")
            value = int(given) if given else value + 1
            lines.append(f"enum {name}: {label.strip()} = {value}")
    for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text):
        lines.append(f"struct {name}: {body.strip()}")
    lines += [f"struct {name}" for name, other in re.findall(r"typedef struct (\w+) (\w+);", text) if name == other]
    lines += [f"function {declared.strip()}" for declared in re.findall(r"FASTDL_API ([^;{}]*);", text)]
    return lines


def functions(lines: list[str]) -> set[str]:
    """The names of the functions among declarations."""
    return {re.search(r"(fastdl_\w+)\(", line).group(1) for line in lines if line.startswith("function ")}


def recorded() -> Path:
    """The record of this version."""
    version = re.search(r'"(\d+\.\d+)\.', VERSION.read_text()).group(1)
    return Path(__file__).parent / f"interface-{version}.txt"


if __name__ == "__main__":
    recorded().write_text("\n".join(declarations(HEADER.read_text())) + "\n")
