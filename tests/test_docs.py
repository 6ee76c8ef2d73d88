"""The documentation: that its code runs, that it names everything public, and that its pages fetch nothing."""

import ast
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCS, BENCH, BUILT = ROOT / "docs", ROOT / "bench", ROOT / "build" / "docs"
if not (DOCS / "conf.py").is_file():
    pytest.skip("the documentation is not here", allow_module_level=True)

# Pages written by hand; those of the gallery are made from examples/, which have tests of their own.
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "gallery" not in path.relative_to(DOCS).parts]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
FAMILIES = ("gram", "conv", "group", "scattering", "hebbian")
EXTRAS = ("torch", "sklearn", "dask")
REFERENCE = tuple(f"reference.{name}" for name in FAMILIES)


def imported(code):
    """The libraries that code imports; those of an extra count as imported with it."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.split(".")[0] for name in found} | {name for name in EXTRAS if f"fastdl.{name}" in found}


def names(code):
    """The lines in which the names of code are first bound, and first used."""
    bound, used = {}, {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            where = used if isinstance(node.ctx, ast.Load) else bound
            where[node.id] = min(node.lineno, where.get(node.id, node.lineno))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound[node.name] = node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).split(".")[0]: node.lineno for alias in node.names}
    return bound, used


def blocks(text):
    """The code of a page, with where it begins and ends. What follows a line `<!-- not run: reason -->` is not code."""
    for found in BLOCK.finditer(text):
        above = text[: found.start()].rstrip().rpartition("\n")[2]
        if not above.startswith("<!-- not run:"):
            yield found.start(1), found.end(1), found[1]


def program(text):
    """A page as a program, with empty lines for all else, so that errors name the line of the page.

    Left out is what needs a library that is not here, and what needs names from there.
    """
    parts, last, lost = [], 0, set()
    for begin, end, code in blocks(text):
        bound, used = names(code)
        needs = {name for name in lost & used.keys() if bound.get(name, used[name]) >= used[name]}
        if needs or not all(find_spec(name) for name in imported(code)):
            lost |= bound.keys()
            continue
        lost -= bound.keys()
        parts += ["\n" * text.count("\n", last, begin), code]
        last = end
    return "".join(parts)


# Not as a file: processes that a page starts would read it again, from its first block to its last.
EXECUTE = """from pathlib import Path
exec(compile(Path('page.py').read_text('utf-8'), 'page.py', 'exec'), {'__name__': '__main__'})
"""


def run(code, folder, options=("-W", "error"), python=sys.executable, **environment):
    (folder / "page.py").write_text(code, encoding="utf-8")
    # Without the extension the import warns, and is meant to.
    command = [python, *options, "-W", "ignore:fastdl computes:RuntimeWarning", "-c", EXECUTE]
    environment = {**os.environ, "MPLBACKEND": "Agg", **environment}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


# What makes an old library importable beside current ones. It stands in the first line of a page, which is its title.
MENDED = {
    "kymatio": "import scipy.special as s; s.sph_harm = getattr(s, 'sph_harm', "
    "lambda m, n, azimuth, polar: s.sph_harm_y(n, m, polar, azimuth))",
    "e2cnn": f"import sys; sys.path[:0] = [{str(BENCH)!r}, {str(ROOT / 'tests')!r}]; import rivals_e2cnn; "
    "rivals_e2cnn._library().torch.set_grad_enabled(True)",
}


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_code_of_a_page_runs(page, tmp_path):
    text = page.read_text(encoding="utf-8")
    if not any(blocks(text)):
        return  # a page without code
    code = program(text)
    if not code:
        pytest.skip("what its code imports is not installed")
    old = [name for name in MENDED if name in imported(code)]
    # Old libraries warn as they like.
    run("; ".join(MENDED[name] for name in old) + code, tmp_path, ("-W", "ignore") if old else ("-W", "error"))


def test_neural_tangents_has_the_same_numbers(native, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    python = pytest.importorskip("foreign").interpreter("neural-tangents")
    if python is None:
        pytest.skip("neural-tangents has no environment: make rivals")
    text = (DOCS / "migration" / "neural_tangents.md").read_text(encoding="utf-8")
    theirs, ours = {}, {}
    save = "numpy.savez(f'{len(theirs)}.npz', **theirs)\n"
    there = [code for _, _, code in blocks(text) if "neural_tangents" in code]
    here = [code for _, _, code in blocks(text) if "neural_tangents" not in code]
    assert len(there) == len(here) == 2
    run("import numpy\n" + save.join([*there, ""]), tmp_path, (), python, JAX_ENABLE_X64="1", JAX_PLATFORMS="cpu")
    for path in tmp_path.glob("*.npz"):
        with np.load(path) as found:
            theirs |= dict(found)
    for code in here:
        results = {}
        exec(code, results)
        ours |= results["ours"]
    assert theirs.keys() == ours.keys() == {"nngp", "ntk", "cntk"}
    for name, found in ours.items():
        # Both in float64, a few layers deep. (The reference knows angles of equal patches to √eps only.)
        assert np.abs(found - theirs[name]).max() < 1e-13 * np.abs(theirs[name]).max()


def table_names(page):
    """What the tables of a page of the reference list, by module."""
    names, module, inside = {}, None, False
    for line in (DOCS / "api" / page).read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif line.startswith(".. autosummary::"):
            inside = True
        elif inside and re.fullmatch(r"   \w+", line):
            names.setdefault(module, []).append(line.strip())
        elif line and not line.startswith("   "):
            inside = False
    return names


@pytest.mark.parametrize("name", [*FAMILIES, *EXTRAS])
def test_the_reference_lists_everything_public(name):
    if name in EXTRAS:
        pytest.importorskip(name)
    module = import_module(f"fastdl.{name}")
    listed = table_names(f"{name}.rst")
    assert sorted(listed[module.__name__]) == sorted(module.__all__)
    for other, names in listed.items():
        assert all(hasattr(import_module(other), entry) for entry in names)


def test_the_reference_lists_the_package():
    import fastdl

    listed = table_names("fastdl.rst")["fastdl"]
    assert sorted([*listed, *FAMILIES, "__version__"]) == sorted(fastdl.__all__)


def test_headers_are_named():
    text = (DOCS / "api" / "c.md").read_text(encoding="utf-8")
    headers = {path.name.removesuffix(".in") for path in (ROOT / "csrc" / "include" / "fastdl").iterdir()}
    assert set(re.findall(r"^\| `fastdl/([\w.]+)`", text, re.M)) == headers


# ---- the pages as they were built, if they were ----


def newest(*folders):
    return max(
        path.stat().st_mtime
        for folder in folders
        for path in folder.rglob("*")
        if path.suffix in (".md", ".rst", ".py", ".css") and "gallery" not in path.relative_to(folder).parts
    )


@pytest.fixture(scope="module")
def built():
    inventory = BUILT / "objects.inv"
    if not inventory.is_file():
        pytest.skip("the pages were not built: make docs")
    if inventory.stat().st_mtime < newest(DOCS, ROOT / "python" / "fastdl"):
        pytest.skip("the pages are older than their sources: make docs")
    return sorted(BUILT.rglob("*.html"))


class Resources(HTMLParser):
    """What a browser fetches to show a page; links to follow are not among it."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        for name in ("src", "srcset", "data", "poster"):
            self.found.append(attributes.get(name) or "")
        if tag == "link" and attributes.get("rel") not in ("canonical", "next", "prev", "index", "search", "author"):
            self.found.append(attributes.get("href") or "")


def is_elsewhere(address):
    return re.match(r"(?:[a-z]+:)?//", address) is not None


def test_built_pages_fetch_nothing(built):
    for page in built:
        found = [address for address in Resources(page).found if address and not address.startswith("data:")]
        assert not [address for address in found if is_elsewhere(address)], page
        for address in found:
            file = address.partition("?")[0].partition("#")[0]
            assert (page.parent / file).resolve().is_file(), f"{page.name}: {address}"
    for sheet in BUILT.rglob("*.css"):
        text = sheet.read_text(encoding="utf-8")
        assert not [url for url in re.findall(r"url\(\s*['\"]?([^'\")]+)", text) if is_elsewhere(url)], sheet
        assert not re.search(r"@import\s+(?:url\()?['\"]?(?:https?:)?//", text), sheet


def test_built_pages_have_everything_public(built):
    # Four lines of header, then compressed lines: name, domain:role, priority, address, title.
    packed = (BUILT / "objects.inv").read_bytes().split(b"\n", 4)[4]
    entries = [line.split() for line in zlib.decompress(packed).decode().splitlines()]
    described = {entry[0] for entry in entries if entry[1].startswith("py:")}
    for name in (*FAMILIES, *EXTRAS, *REFERENCE):
        try:
            module = import_module(f"fastdl.{name}")
        except ImportError:
            continue  # an extra that is not installed; its page is made from the docstrings
        assert {f"fastdl.{name}.{entry}" for entry in module.__all__} <= described


def test_built_gallery_has_every_example(built):
    for example in (ROOT / "examples").glob("*.py"):
        text = (BUILT / "gallery" / f"{example.stem}.html").read_text(encoding="utf-8")
        if "It was not run for this page" not in text:
            assert "What it prints" in text and "Look for" in text
        pictures = re.findall(r"savefig\(", example.read_text(encoding="utf-8"))
        assert not pictures or "<img" in text
