"""The page made of a record: that it is safe and whole and, in a browser, renders, sorts and fetches nothing."""

import html
import json
import re
import shutil
import subprocess
import threading
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

import bench_records as made

pytest.importorskip("matplotlib")
if not made.BENCH.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="needs chromium or google-chrome on the path")


@pytest.fixture(scope="module")
def page():
    with made.modules("page") as modules:
        yield modules["page"]


def example():
    """Times whose order differs from that of their texts, a row in which a rival wins, and a series."""
    rows = [
        ("gram.first", {"fastdl": made.timing(9e-3, 10e-3), "reference": 2.0, "torch": 2.0}),
        ("gram.second", {"fastdl": made.timing(80e-3, 81e-3), "torch": 0.1}),
        ("gram.third", {"fastdl": made.timing(700e-6, 701e-6), "reference": 30.0, "torch": 350e-6}),
    ]
    groups = [made.group(name, times, size={"n": size}) for (name, times), size in zip(rows, (9, 10, 8), strict=True)]
    series = [
        made.group("conv.conv2d", {"fastdl": n * 1e-3, "torch": 1.0}, series="side", size={"side": n})
        for n in (8, 16, 32)
    ]
    return made.record(*groups, *series)


class Elements(HTMLParser):
    """All elements of a page with their attributes, and all its text."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


# ---- the text of the page ----
def test_a_page_names_no_other_file(page):
    text = page.html(example())
    elements = Elements(text).found
    links = [value for _, attributes in elements for name, value in attributes.items() if name in ("src", "href")]
    assert links and all(link.startswith(("data:", "#")) for link in links)
    assert len([link for link in links if link.startswith("data:image/png")]) == 1
    assert not re.search(r"url\(|@import|https?:|srcset", text)
    (policy,) = [attributes["content"] for _, attributes in elements if "http-equiv" in attributes]
    assert policy.split("; ")[0] == "default-src 'none'"
    allowed = dict(part.split(" ", 1) for part in policy.split("; "))
    assert set(allowed.values()) == {"'none'", "'unsafe-inline'", "data:"}


def test_a_page_has_best_and_median_and_marks_who_wins(page):
    text = page.html(example())
    assert "9 ms <small>10 ms</small>" in text
    rows = re.findall(r"<tr.*?</tr>", text, re.S)
    (behind,) = [row for row in rows if "rival-faster" in row]
    assert "gram.third" in behind
    assert re.search(r'class="number behind" data-value="0.5">0.50x', behind)
    assert re.search(r'class="number fastest" data-value="0.00035">', behind)


POISON = "<i class=poison onclick=alert(1)>\"'&$x^</script><script>alert(1)</script>"


def poisoned(value):
    """The same with every text of a record, and the names of contenders, made to break out of a page."""
    if isinstance(value, dict):
        return {key + POISON if key == "torch" else key: poisoned(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [poisoned(entry) for entry in value]
    return value + POISON if isinstance(value, str) else value


def test_nothing_of_a_record_becomes_markup(page):
    record = example()
    for group in record["timings"]:
        # What the suite itself goes by stays.
        kept = {"series": group["series"]}
        group.update({**poisoned(group), **kept})
    for name in ("machine", "fastdl", "versions", "commit", "mode"):
        record[name] = poisoned(record[name])
    record["date"] = POISON
    record["failed"] = [{"label": POISON, "message": POISON}]
    record["skipped"] = [{"label": POISON}]
    elements = Elements(page.html(record))
    tags = [tag for tag, _ in elements.found]
    assert "i" not in tags and tags.count("script") == 1 and tags.count("style") == 1
    assert not any(name.startswith("on") for _, attributes in elements.found for name in attributes)
    assert not any(attributes.get("class") == "poison" for _, attributes in elements.found)
    # It is there to be read: function, processor, contender, failure.
    for part in ("gram.first", "A processor", "torch", "FAILED "):
        assert part + POISON in elements.text


# ---- in a browser ----
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--virtual-time-budget=5000",
)


def browse(folder, text, script, *options):
    """Open a page with a script at its end; give what the script, a body of an async function, returns."""
    hook = f"""<pre id="answer"></pre><script>
(async () => {{ {script} }})().catch((error) => ({{error: String(error)}})).then((answer) => {{
  document.getElementById("answer").textContent = JSON.stringify(answer);
}});
</script></body>"""
    file = folder / "page.html"
    file.write_text(text.replace("</body>", hook), encoding="utf-8")
    command = [BROWSER, *OPTIONS, f"--user-data-dir={folder / 'browser'}", *options, "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found = re.search(r'<pre id="answer">(.*?)</pre>', done.stdout, re.S)
    answer = json.loads(html.unescape(found[1]))
    assert "error" not in answer, answer
    return answer


ORDERS = """
const table = document.querySelector("#gram table");
const heading = (name) => [...table.tHead.rows[0].cells].find((cell) => cell.textContent.trim() === name);
const look = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent.replace("gram.", ""));
const answer = {original: look()};
for (const name of ["ours", "reference", "size", "best rival / ours"]) {
  const button = heading(name).querySelector("button");
  button.focus();
  answer[name] = {focused: document.activeElement === button, orders: []};
  for (let click = 0; click < 3; ++click) {
    button.click();
    const sorted = [...table.tHead.rows[0].cells].filter((cell) => cell.getAttribute("aria-sort") !== "none");
    answer[name].orders.push([heading(name).getAttribute("aria-sort"), sorted.length, look()]);
  }
}
return answer;
"""


@needs_browser
def test_tables_sort_by_value(page, tmp_path):
    answer = browse(tmp_path, page.html(example()), ORDERS)
    original = ["first", "second", "third"]
    assert answer.pop("original") == original
    up = {
        "ours": ["third", "first", "second"],  # 700 µs, 9 ms, 80 ms
        "reference": ["first", "third", "second"],  # 2 s, 30 s, none
        "size": ["third", "first", "second"],  # n=8, n=9, n=10
        "best rival / ours": ["third", "second", "first"],  # 0.5, 1.25, 222
    }
    # Whichever way, what is missing is last.
    down = {name: order[::-1] for name, order in up.items()} | {"reference": ["third", "first", "second"]}
    assert set(answer) == set(up)
    for name, found in answer.items():
        assert found["focused"]  # a button: the keyboard presses it
        expected = [["ascending", 1, up[name]], ["descending", 1, down[name]], ["none", 0, original]]
        assert found["orders"] == expected, name


FILTERED = """
const look = () => [...document.querySelectorAll(".figures tbody tr")].filter((row) => row.offsetParent)
  .map((row) => row.cells[0].textContent);
const filter = document.getElementById("filter"), behind = document.getElementById("behind");
const type = (text) => { filter.value = text; filter.dispatchEvent(new Event("input")); return look(); };
const answer = {all: look(), words: type("GRAM n=9"), none: type("nothing"), again: type("")};
behind.click();
return {...answer, behind: look(), count: document.getElementById("count").textContent};
"""


@needs_browser
def test_rows_are_filtered(page, tmp_path):
    answer = browse(tmp_path, page.html(example()), FILTERED)
    everything = ["gram.first", "gram.second", "gram.third", *["conv.conv2d"] * 3]
    assert answer["all"] == answer["again"] == everything
    assert answer["words"] == ["gram.first"] and answer["none"] == []
    assert answer["behind"] == ["gram.third"] and answer["count"] == "1 of 6 rows"


@pytest.fixture
def server():
    """An address, and what was asked of it."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(204)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", asked
        listening.shutdown()
        thread.join()


TRIED = """
const refused = [];
document.addEventListener("securitypolicyviolation", (event) => refused.push(event.effectiveDirective));
const before = performance.getEntriesByType("resource").length;
const pictures = [...document.images].map((image) => image.complete && image.naturalWidth > 0);
const image = new Image();
const failed = new Promise((resolve) => { image.onerror = image.onload = resolve; });
image.src = "ADDRESS/image";
await fetch("ADDRESS/fetch", {mode: "no-cors"}).catch(() => 0);
await failed;
await new Promise((resolve) => setTimeout(resolve, 100));
return {before, pictures, refused: refused.sort()};
"""


@needs_browser
def test_a_page_asks_nobody(page, server, tmp_path):
    address, asked = server
    script = TRIED.replace("ADDRESS", address)
    answer = browse(tmp_path, page.html(example()), script)
    assert answer == {"before": 0, "pictures": [True], "refused": ["connect-src", "img-src"]}
    assert asked == []
    # The same attempts from a page that forbids nothing arrive.
    browse(tmp_path, "<!doctype html><body></body>", script)
    assert sorted(asked) == ["/fetch", "/image"]


LOOKS = """
const style = getComputedStyle(document.body), small = getComputedStyle(document.querySelector("small"));
const behind = getComputedStyle(document.querySelector("td.behind"));
return {
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  pairs: [[style.color, style.backgroundColor], [small.color, style.backgroundColor],
    [behind.color, behind.backgroundColor]],
  width: document.documentElement.scrollWidth - innerWidth,
};
"""


def luminance(color):
    """Of WCAG 2."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", color)[:3]]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@needs_browser
@pytest.mark.parametrize("width", [500, 1400])  # the browser makes no narrower window
@pytest.mark.parametrize("dark", [False, True])
def test_a_page_is_readable(page, tmp_path, dark, width):
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    answer = browse(tmp_path, page.html(example()), LOOKS, scheme, f"--window-size={width},800")
    assert answer["dark"] == dark
    assert answer["width"] <= 0  # tables scroll, the page does not
    for front, back in answer["pairs"]:
        low, high = sorted(map(luminance, (front, back)))
        assert (luminance(back) < 0.1) == dark
        # What WCAG 2 asks of texts.
        assert (high + 0.05) / (low + 0.05) >= 4.5
