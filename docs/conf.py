"""How Sphinx builds these pages: ``make docs``, or ``sphinx-build -W --keep-going -b html docs build/docs``.

Nothing is fetched while they are built or read: the mathematics is set by a MathJax that comes from the package index
(sphinx-mathjax-offline), in the version that needs no fonts.
"""

from __future__ import annotations

import re
import sys
from importlib.util import find_spec
from pathlib import Path

import fastdl

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_ext"))

project = "fastdl"
author = "the fastdl developers"
project_copyright = author
release = version = fastdl.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_parser",
    "gallery",
]
exclude_patterns = ["_ext"]
default_role = "py:obj"
smartquotes = False  # what is quoted is to be copied

# Docstrings name the types of what they take, in words; signatures with annotations as well would be hard to read.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # as a list, like parameters
napoleon_use_param = False  # types are words, not names to be linked
napoleon_use_rtype = False
toc_object_entries_show_parents = "hide"

# Where an extra is not installed its pages are made all the same, from the docstrings alone.
autodoc_mock_imports = [name for name in ("dask", "scipy", "sklearn", "torch") if find_spec(name) is None]

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

mathjax = Path(str(find_spec("sphinx-mathjax-offline").origin)).parent / "static" / "mathjax"
mathjax_path = "tex-svg.js"
# The menu would look for files that are not copied.
mathjax3_config = {"options": {"enableMenu": False}}

html_theme = "furo"
html_title = f"fastdl {release}"
html_static_path = ["_static", str(mathjax / mathjax_path)]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
pygments_style = "friendly"


def _change_docstring(app, what, name, obj, options, lines):
    """Leave out the docstrings of modules, which speak to who reads the code: pages have words of their own.

    Of those of properties napoleon takes what is before a colon for a type.
    """
    if what == "module":
        lines.clear()
    elif what == "property" and lines:
        lines[0] = lines[0].replace(": ", ", ", 1)


def _name_files(app, docname, source):
    """Name what a page links to outside of docs/, which is in a checkout but not on these pages."""
    folder = (HERE / docname).parent

    def named(link):
        path = (folder / link[2]).resolve()
        if path.is_relative_to(HERE) or not path.exists():
            return link[0]
        return f"{link[1]} (`{path.relative_to(HERE.parent).as_posix()}`)"

    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)#\s]+)\)", named, source[0])


def setup(app):
    """Tell Sphinx of these."""
    app.connect("autodoc-process-docstring", _change_docstring, priority=400)  # before napoleon
    app.connect("source-read", _name_files)
