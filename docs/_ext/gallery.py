"""A gallery of the programs in examples/: each is run, and its page shows its text, pictures, output and source.

An example is a file examples/NAME.py that is run as ``python examples/NAME.py FOLDER [ARGUMENTS]``, prints what it
found and may write pictures into the folder. ``gallery_arguments`` of conf.py has further arguments for those that
would take long. Pages are written to docs/gallery, which Sphinx then reads as any other; results are kept in
build/gallery and made anew when the example or the library has changed.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

logger = logging.getLogger(__name__)

# An example is filed under the last of these modules that it imports.
SECTIONS = {
    "gram": "Gram matrices",
    "conv": "Convolutions",
    "group": "Groups",
    "scattering": "Scattering",
    "hebbian": "Hebbian learning",
    "sklearn": "With scikit-learn",
    "dask": "With Dask",
    "torch": "With PyTorch",
}
NAMES = {"dask": "Dask", "gram": "Gram", "lenet": "LeNet", "pca": "PCA", "pytorch": "PyTorch", "svc": "SVC"}
LONGEST = 170  # seconds that an example may take


@dataclass
class Example:
    """A program, and what came of it."""

    path: Path
    arguments: list[str]
    folder: Path

    def __post_init__(self) -> None:
        self.name = self.path.stem
        title = " ".join(NAMES.get(word, word) for word in self.name.split("_"))
        self.title = title[0].upper() + title[1:]
        self.text = self.path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        imported = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        self.missing = sorted({name.split(".")[0] for name in imported if find_spec(name.split(".")[0]) is None})
        parts = {name.split(".")[1] for name in imported if name.startswith("fastdl.")}
        self.section = max((list(SECTIONS).index(part) for part in parts if part in SECTIONS), default=0)

    @property
    def words(self) -> list[str]:
        """The paragraphs of its docstring."""
        return (ast.get_docstring(self.tree) or self.title).split("\n\n")

    @property
    def pictures(self) -> list[Path]:
        """What it has drawn."""
        return sorted(self.folder.glob("*.png"))

    @property
    def output(self) -> str:
        """What it has printed."""
        path = self.folder / "output.txt"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    def run(self, library: str) -> None:
        """Run it, unless it was run as it is now with the library as it is now."""
        key = hashlib.sha256("\0".join([self.text, *self.arguments, library]).encode()).hexdigest()
        kept = self.folder / "key.txt"
        if self.missing or (kept.exists() and kept.read_text(encoding="utf-8") == key):
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        command = [sys.executable, str(self.path), str(self.folder), *self.arguments]
        # Two examples run side by side, mostly importing: a thread for each.
        environment = {"FASTDL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **os.environ, "MPLBACKEND": "Agg"}
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
            )
        except subprocess.TimeoutExpired:
            logger.warning("examples/%s.py takes more than %d seconds", self.name, LONGEST)
            return
        if done.returncode:
            logger.warning("examples/%s.py failed:\n%s", self.name, done.stderr)
            return
        # A figure of this run is no figure of the reader's folder.
        (self.folder / "output.txt").write_text(done.stdout.replace(f"{self.folder}{os.sep}", ""), encoding="utf-8")
        kept.write_text(key, encoding="utf-8")

    def page(self) -> str:
        """Give its page, in Markdown."""
        parts = [f"# {self.title}", *(words for words in self.words if not words.startswith("Usage:"))]
        parts += [f"![{picture.stem}]({self.name}/{picture.name})" for picture in self.pictures]
        if self.output:
            parts += ["## What it prints", f"```text\n{self.output.rstrip()}\n```"]
        elif self.missing:
            parts.append(f"It was not run for this page: {', '.join(self.missing)} is not installed here.")
        options = "".join(f" {argument}" for argument in self.arguments)
        parts += [
            "## The program",
            f"`python examples/{self.name}.py FOLDER{options}`",
            f"```{{literalinclude}} ../../examples/{self.name}.py\n:language: python\n```",
        ]
        return "\n\n".join(parts) + "\n"

    def card(self) -> str:
        """Give what the page of all examples shows of it."""
        lines = [f"[![{self.title}]({self.name}/{picture.name})]({self.name}.md)" for picture in self.pictures[:1]]
        summary = " ".join(self.words[0].split())
        return "\n\n".join([":::{container} card", *lines, f"[{self.title}]({self.name}.md)", summary, ":::"])


def _library() -> str:
    """Tell one state of the library from another."""
    import fastdl
    from fastdl import _dispatch

    digest = hashlib.sha256()
    files = sorted(Path(fastdl.__file__).parent.rglob("*.py"))
    for path in [*files, *([Path(_dispatch.core.__file__)] if _dispatch.core else [])]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _index(examples: list[Example]) -> str:
    parts = [
        "# Gallery",
        "The programs in `examples/`. Each was run to make its page, which shows what it draws and prints, and its "
        "source. Each takes the folder to draw in as its argument. How a C or C++ program uses the library is in "
        "[C and C++](../embedding.md).",
    ]
    for number, section in enumerate(SECTIONS.values()):
        cards = [example.card() for example in examples if example.section == number]
        if cards:
            parts += [f"## {section}", "::::{container} gallery", *cards, "::::"]
    names = "\n".join(example.name for example in sorted(examples, key=lambda example: example.section))
    return "\n\n".join([*parts, f"```{{toctree}}\n:hidden:\n\n{names}\n```"]) + "\n"


def _write(path: Path, content: bytes) -> None:
    """Write a file, but leave one alone that has this content: Sphinx reads again what is newer."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def make(app: Sphinx) -> None:
    """Run the examples and write their pages."""
    source = Path(app.srcdir)
    target, results = source / "gallery", Path(app.outdir).parent / "gallery"
    arguments = app.config.gallery_arguments
    examples = [
        Example(path, [str(word) for word in arguments.get(path.stem, ())], results / path.stem)
        for path in sorted((source.parent / "examples").glob("*.py"))
    ]
    library = _library()
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(lambda example: example.run(library), examples))
    wanted = {target / "index.md": _index(examples).encode()}
    for example in examples:
        wanted[target / f"{example.name}.md"] = example.page().encode()
        for picture in example.pictures:
            wanted[target / example.name / picture.name] = picture.read_bytes()
    for path in target.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
    for path, content in wanted.items():
        _write(path, content)


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx of it."""
    app.add_config_value("gallery_arguments", {}, "env", [dict])
    app.connect("builder-inited", make)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
