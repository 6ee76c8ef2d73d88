"""The benchmark suite: that it runs, records what it promises, and fails when contenders disagree."""

import dataclasses
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

for module in ("matplotlib", "pytest_benchmark", "threadpoolctl", "tqdm"):
    pytest.importorskip(module)

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parents[1]
BENCH = ROOT / "bench"
if not BENCH.is_dir():
    pytest.skip("the benchmarks are not here", allow_module_level=True)

# A case of every family that takes no time; of gram and engine it belongs to a plot.
SMALL = "n=64 "


@pytest.fixture(scope="module")
def suite():
    """The modules of the suite, found as its own processes find them, and forgotten afterwards."""
    before, path = set(sys.modules), list(sys.path)
    sys.path.insert(0, str(BENCH))
    try:
        import accuracy
        import bench_conv
        import bench_gram
        import contest
        import machine
        import measure
        import report
        import run

        modules = (accuracy, bench_conv, bench_gram, contest, machine, measure, report, run)
        yield {module.__name__: module for module in modules}
    finally:
        sys.path[:] = path
        for name in set(sys.modules) - before:
            if getattr(sys.modules[name], "__file__", None) and Path(sys.modules[name].__file__).parent == BENCH:
                del sys.modules[name]


@pytest.fixture(scope="module")
def peaks(suite):
    """Peaks measured in no time: good enough to be there."""
    return suite["machine"].peaks(0.01)


@pytest.fixture(scope="module")
def ran(suite, peaks, tmp_path_factory):
    """A small run of everything: its folder, its record, its exit status."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suite["machine"], "peaks", lambda seconds: peaks)
        status = suite["run"].main(["--case", SMALL, "--output", str(folder)])
    (record,) = folder.glob("*.json")
    return folder, record, status


def test_peaks_are_measured_for_every_instruction_set(suite, peaks):
    levels = suite["machine"].levels() or ("native",)
    assert peaks["method"]
    if suite["machine"].find_compiler() is not None:
        assert tuple(peaks["gflops"]) == levels
        assert set(peaks["vector_bytes"]) == set(levels)
    for rates in peaks["gflops"].values():
        for dtype in ("float32", "float64"):
            assert set(rates[dtype]) == {str(count) for count in suite["machine"].thread_counts()}
            # No processor does more than 4096 flops a nanosecond, nor less than one in ten.
            assert all(0.1 < rate < 4096 * os.cpu_count() for rate in rates[dtype].values())
    assert all(rate > 0 for rate in peaks["bandwidth"].values())


def test_peaks_without_a_compiler_say_so(suite, monkeypatch):
    monkeypatch.setattr(suite["machine"], "find_compiler", lambda: None)
    peaks = suite["machine"].peaks(0.01)
    assert "no C++ compiler" in peaks["method"]
    assert all(rate > 0 for rates in peaks["gflops"].values() for counts in rates.values() for rate in counts.values())


def test_a_run_records_what_it_promises(suite, ran):
    folder, path, status = ran
    record = json.loads(path.read_text())
    assert status == 0
    assert record["complete"] and not record["failed"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d-\w+(-dirty)?\.json", path.name)
    assert {"cpu", "cores", "caches", "instruction_sets", "peaks"} <= set(record["machine"])
    assert {"version", "build", "isas"} <= set(record["fastdl"])
    assert {"python", "numpy", "blas", "torch", "scikit-learn"} <= set(record["versions"])
    assert {"commit", "dirty", "date", "load"} <= set(record)
    families = {group["family"] for group in record["timings"]}
    assert families == ({"gram", "engine", "conv", "fft"} if suite["machine"].levels() else {"gram", "conv"})
    for group in record["timings"]:
        assert "fastdl" in group["contenders"]
        assert group["function"] not in ("gram.linear", "engine") or "numpy" in group["contenders"]
        assert group["flops"] > 0 or group["entries"] > 0
        for timing in group["contenders"].values():
            assert 0 < timing["best"] <= timing["median"]
            assert timing["rounds"] >= 5
    plotted = {group["family"] for group in record["timings"] if group["series"]}
    assert plotted == families - {"conv"}
    for name in ("report.md", *(f"{family}.png" for family in plotted)):
        assert (folder / name).stat().st_size > 500
    assert (folder / "gram.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_written_names_this_machine(ran):
    folder, path, _ = ran
    for text in (path.read_text(), (folder / "report.md").read_text()):
        for private in (str(ROOT), str(Path.home()), sys.prefix, str(folder)):
            # A home of "/" or "/root" would be found in anything or is long enough to mean it.
            assert len(private) < 5 or private not in text
        assert os.uname().nodename not in text


def test_a_report_comes_from_the_record_alone(ran, tmp_path):
    folder, path, _ = ran
    copy = tmp_path / "copy.json"
    copy.write_text(path.read_text())
    done = subprocess.run(
        [sys.executable, str(BENCH / "report.py"), str(copy)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "gram.linear" in done.stdout
    assert (tmp_path / "report.md").read_text() == (folder / "report.md").read_text()
    assert (tmp_path / "gram.png").exists()


@pytest.fixture
def group(suite, monkeypatch):
    """The smallest case, against NumPy only: other rivals take long to import and change settings as they do."""
    rivals = sys.modules["rivals"]
    monkeypatch.setattr(rivals, "installed", lambda function: {"numpy": rivals.numpy_linear})
    case = suite["bench_gram"].gram_bench.SMALLEST
    return suite["contest"].group_of(case, "float32", suite["machine"].active_level())


def spoiled(group, error):
    """The same group with one contender's results off."""

    def prepare():
        prepared = group.prepare()
        correct = prepared.calls["numpy"]
        calls = {**prepared.calls, "numpy": lambda: np.asarray(correct()) + error}
        return dataclasses.replace(prepared, calls=calls)

    return dataclasses.replace(group, prepare=prepare)


@pytest.mark.parametrize("error", [1e-3, np.nan])
def test_a_wrong_contender_is_found(suite, group, error):
    suite["measure"].measure(group, seconds=0.0)
    with pytest.raises(suite["measure"].Disagreement, match="numpy is off"):
        suite["measure"].measure(spoiled(group, np.float32(error)), seconds=0.0)


def test_a_wrong_contender_fails_its_group(suite, tmp_path):
    # The same through the processes that measure: a family with one good case and one that is wrong.
    (tmp_path / "bench_wrong.py").write_text(
        "import dataclasses\n"
        "from bench_engine import _group\n"
        "def groups(full, isa):\n"
        "    good, other = _group(16, 16, 16, 'float32', 1, isa), _group(16, 16, 16, 'float64', 1, isa)\n"
        "    def prepare():\n"
        "        prepared = other.prepare()\n"
        "        calls = {**prepared.calls, 'numpy': lambda: prepared.calls['fastdl']() * 1.01}\n"
        "        return dataclasses.replace(prepared, calls=calls)\n"
        "    return [good, dataclasses.replace(other, prepare=prepare)]\n"
        "def test_wrong(group, contender, replay):\n"
        "    replay(group, contender)\n"
    )
    run = suite["run"]
    record = {"timings": [], "skipped": [], "failed": []}
    collector = run.Collector(record, run.Progress(2))
    # Conftest is loaded by name, for the file lies elsewhere.
    arguments = [*run.command(str(tmp_path / "bench_wrong.py"), run.parse([]), None), "-p", "conftest"]
    assert run.run_process(arguments, {"PYTHONPATH": str(BENCH)}, collector) != 0
    assert [group["dtype"] for group in record["timings"]] == ["float32"]
    (failure,) = record["failed"]
    assert "float64" in failure["label"]
    assert "NumPy differ" in failure["message"]


def test_every_gram_case_has_a_formula_and_a_bound(suite):
    # The arguments of all three are the case's own; the sizes are large, so that nothing is computed here.
    cases = suite["bench_gram"].gram_bench
    further = [cases.kernel(name, *shape) for name in cases.PAIRWISE for shape in cases.SHAPES]
    everything = [*cases.GOALS, cases.SMALLEST, cases.LARGEST, *cases.LINEAR, *further, *cases.OTHERS]
    for case in everything:
        assert callable(case.formula) and callable(case.bound)
        assert case.function in sys.modules["rivals"].RIVALS
        assert case.flops or case.entries or case.terms
    names = {case.name for case in everything}
    # gram itself only looks one of them up.
    public = set(suite["bench_gram"].fastdl.gram.__all__) - {"gram"}
    assert public <= names, "there is no benchmark of them"
    for name, shapes in [(name, cases.SHAPES) for name in cases.PAIRWISE]:
        assert all(n * (m or n) * d >= 1e7 for n, m, d in shapes), name


def test_cases_are_chosen_by_alternatives(suite):
    def chosen(text):
        return [group.label for group in suite["measure"].selected(suite["bench_gram"], True, "any", text)]

    tall, flat = chosen("n=4099 "), chosen("d=17 ")
    assert tall and flat and not set(tall) & set(flat)
    assert sorted(chosen("n=4099 |d=17 ")) == sorted(tall + flat)
    assert len(chosen("")) > len(tall + flat)


def test_every_conv_case_has_a_formula_and_rivals(suite):
    cases = suite["bench_conv"].conv_bench
    everything = [*cases.GOALS, *cases.LAYERS, *cases.SIGNALS]
    for case in everything:
        assert callable(case.formula) and callable(case.bound)
        assert len(sys.modules["rivals"].RIVALS[case.function]) == 2
    # 23 layers of ResNet-50, 9 each of VGG-16 and MobileNet, 3 of LeNet, in three batches; no two of one name.
    assert len({str(case.size) for case in cases.LAYERS}) == 3 * (23 + 9 + 9 + 3)
    labels = [group.label for group in suite["bench_conv"].groups(True, "any")]
    assert len(set(labels)) == len(labels)
    assert {axis for axis, *_ in cases.SERIES} <= set(cases.SERIES[0][1](7).size)


def test_layers_of_a_network_are_summed_up(suite):
    def layer(channels, k, torch, nhwc):
        size = {"of": "ResNet-50", "n": 8, "channels": channels, "filters": 9, "side": 56, "k": k}
        times = {"fastdl": {"best": 1.0}, "torch": {"best": torch}, "torch nhwc": {"best": nhwc}}
        return {"family": "conv", "function": "conv.conv2d", "dtype": "float32", "size": size, "contenders": times}

    # Against the faster layout these are 4 and 0.25; nothing is like the third.
    record = {"timings": [layer(64, 3, 9.0, 4.0), layer(128, 3, 0.25, 7.0), layer(64, 1, 2.0, 2.0)]}
    (remark,) = suite["report"].remarks(record, "conv")
    assert "n=8, k=3" in remark and "1.00x" in remark and "of 2)" in remark
    assert "lowest 0.25x, channels=128" in remark


def small_conv_cases(cases):
    """Every kind of case of conv once, small: strides and sides that do not fit, with and without padding, groups."""
    for name in ("conv2d", "conv2d_input", "conv2d_weight"):
        yield cases.conv(name, 3, (4, 5, 9, 3, 1))
        yield cases.conv(name, 2, (3, 4, 12, 7, 2))
        yield cases.conv(name, 2, (5, 3, 8, 1, 2))
        yield cases.conv(name, 2, (1, 6, 10, 5, 1), padding=0)
    yield cases.conv("conv2d", 2, (6, 6, 11, 3, 2), depthwise=True)
    for name in ("convolve", "correlate"):
        yield from (cases.signal(name, (40,), (7,)), cases.signal(name, (9, 12), (3, 4)))


@pytest.mark.parametrize("budget", [np.inf, 200.0])
def test_convolutions_are_checked(suite, monkeypatch, dtype, budget):
    contest, measure = suite["contest"], suite["measure"]
    monkeypatch.setattr(contest, "CHECK_BUDGET", budget)
    for case in small_conv_cases(suite["bench_conv"].conv_bench):
        inputs = case.make(np.random.default_rng(7), dtype)
        check = contest.check_against(case, inputs)
        result = contest.ours(case, inputs)()
        check("first", result)
        check("second", case.formula(**inputs))
        # In the last element, of which a part of the result may know nothing.
        wrong = result.copy()
        wrong.flat[-1] += 0.05 * np.abs(result).max()
        with pytest.raises(measure.Disagreement, match="second is off"):
            check("second", wrong)


def test_a_part_of_a_convolution_is_what_the_whole_has_there(suite):
    for case in small_conv_cases(suite["bench_conv"].conv_bench):
        inputs = case.make(np.random.default_rng(7), np.dtype("float64"))
        subset, where = case.part(inputs, 200.0)
        assert where is not ...
        # Sums of at most 128 terms below 16.
        assert np.allclose(case.formula(**subset), case.formula(**inputs)[where], rtol=0, atol=128 * 2048 * 2.0**-52)


def small_cases(cases):
    """Every kind of case of gram once, small."""
    yield from (cases.kernel(name, 9, m, 5) for name in cases.PAIRWISE for m in (None, 7))
    yield cases.kernel("matern", 9, None, 5, nu=2.5)
    yield cases.kernel("geometric", 9, 7, 5, alpha=0.9)
    yield cases.kernel("sinc", 9, 7, 3, omega=1.0)
    yield cases.kernel("arc_cosine", 9, 7, 5, order=1)
    yield cases.kernel("nngp", 9, 7, 5, depth=2, w_std=1.5, b_std=0.1)
    yield cases.kernel("ntk", 9, None, 5, depth=2)
    yield from (cases.matvec(9, 5), cases.matvec_vjp(9, 7, 5), cases.gram_vjp(9, 7, 5))
    yield from (cases.softmax_matvec(9, 7, 5), cases.cntk(3, 2, 4, 2))
    yield from (cases.on_grams("hsic", 9, unbiased=True), cases.on_grams("cka", 9), cases.on_grams("center", 9))
    yield from (cases.feature_gram(2, 3, 4, True), cases.empirical_ntk(5, 99), cases.invariant(5, 4, 3))
    yield from (cases.distance(9, 7, 5), cases.diag(9, 5, "polynomial"))


def test_contenders_agree_and_wrong_ones_are_found(suite, dtype):
    # In this process only what is quick to import and changes no settings: NumPy, and ourselves.
    contest, rivals = suite["contest"], sys.modules["rivals"]
    for case in small_cases(suite["bench_gram"].gram_bench):
        inputs = case.make(np.random.default_rng(7), dtype)
        check = contest.check_against(case, inputs)
        numpy_rivals = [maker for name, _, maker in rivals.RIVALS[case.function] if name == "numpy"]
        calls = [maker(**inputs) for maker in numpy_rivals]
        if hasattr(contest.fastdl.gram, case.name):
            calls.append(contest.ours(case, inputs))
        # The formula in the type itself stands for those who have no rival here.
        calls.append(lambda case=case, inputs=inputs: case.formula(**inputs))
        for call in calls:
            with np.errstate(all="ignore"):
                result = suite["measure"].as_numpy(call())
            check("someone", result)
            wrong = result.copy()
            # cntk and what goes by an angle next to parallel have the widest bounds.
            wrong.flat[-1] += 0.05 * np.abs(result).max()
            with pytest.raises(suite["measure"].Disagreement, match="someone is off"):
                check("someone", wrong)


def test_rows_stand_for_a_large_result(suite, monkeypatch):
    contest = suite["contest"]
    monkeypatch.setattr(contest, "CHECK_BUDGET", 100)
    case = suite["bench_gram"].gram_bench.kernel("rbf", 40, None, 3)
    inputs = case.make(np.random.default_rng(7), np.dtype("float32"))
    check = contest.check_against(case, inputs)
    result = case.formula(**inputs)
    check("first", result)
    check("second", result)
    wrong = result.copy()
    wrong[17, 5] += 0.01  # in no row that is computed independently
    with pytest.raises(suite["measure"].Disagreement, match="second is off"):
        check("second", wrong)
    with pytest.raises(suite["measure"].Disagreement, match="gave"):
        check("second", result[:, :-1])


def test_foreign_rivals_are_timed_where_they_run(suite, tmp_path, monkeypatch):
    # A worker of our own stands in for one that is not installed here.
    foreign = sys.modules["foreign"]
    (tmp_path / "foreign_worker.py").write_text(
        (BENCH / "foreign_worker.py")
        .read_text()
        .replace("call = neural_tangents(function,", "call = stand_in(function,")
        .replace("def main(", "def stand_in(function, X, depth):\n    return lambda: depth * X\n\n\ndef main(")
    )
    monkeypatch.setattr(foreign, "HERE", tmp_path)
    monkeypatch.setenv("FASTDL_NT_PYTHON", sys.executable)
    X = np.arange(6, dtype=np.float32).reshape(2, 3)
    call = foreign.ForeignCall("neural-tangents", "ntk", {"X": X, "depth": 2})
    try:
        assert np.array_equal(call(), 2 * X)
        durations, batch = suite["measure"].interleave({"foreign": call}, seconds=0.0, settle=False)["foreign"]
        assert len(durations) == 5 and batch > 1
        assert 0 < min(durations) < 1e-3
    finally:
        call.close()
    assert call._process.returncode == 0
    assert not Path(call._folder.name).exists()


def test_a_foreign_rival_that_is_not_there_is_left_out(suite, tmp_path, monkeypatch):
    foreign = sys.modules["foreign"]
    monkeypatch.setenv("FASTDL_NT_PYTHON", str(tmp_path / "nothing"))
    foreign.version.cache_clear()
    assert foreign.version("neural-tangents") is None
    assert "neural-tangents" not in sys.modules["rivals"].installed("gram.ntk")
    foreign.version.cache_clear()


def test_accuracy_is_measured_against_more_digits(suite, monkeypatch):
    accuracy = suite["accuracy"]
    monkeypatch.setattr(accuracy, "KERNELS", {"linear": ("linear", {}, "any"), "other": ("no_such_kernel", {}, "any")})
    worst = accuracy.worst_errors(features=(3, 17))
    assert {label for label, _, _ in worst} == {"linear"}
    for errors in worst.values():
        assert set(errors) == {*suite["machine"].levels(), "reference"}
        assert all(0 <= error <= 17 for error in errors.values())
    cost = {"float32": dict.fromkeys(accuracy.COSTED, 0.01)}
    text = accuracy.page(worst, [("offset", "float32", 1e-6, 10.0)], cost, ())
    assert "| linear | offset |" in text and "| float32 | 10.0 ms | 10.0 ms | 10.0 ms |" in text
    monkeypatch.setattr(accuracy, "compute", lambda *arguments: np.full((33, 47), np.nan))
    assert all(error == np.inf for errors in accuracy.worst_errors(features=(3,)).values() for error in errors.values())


def test_accuracy_keeps_the_columns_of_other_processors(suite):
    accuracy = suite["accuracy"]
    worst = {("rbf", "float64", "normal"): dict.fromkeys(accuracy.levels(), 2.0)}
    kept = {("rbf", "float64", "normal"): {"sve9": "1.5"}, ("gone", "float32", "normal"): {"sve9": "7"}}
    for _ in range(2):  # what was kept once is kept again
        text = accuracy.page(worst, [], {}, (), kept)
        assert "| sve9 (kept) | reference |" in text and "| 1.5 | 2 |" in text and "gone" not in text
        kept = accuracy.recorded(text)
        assert kept == {("rbf", "float64", "normal"): {"sve9": "1.5"}}
    assert "kept" not in accuracy.page(worst, [], {}, ())


def test_accuracy_of_convolutions(suite, monkeypatch):
    convolutions = sys.modules["accuracy_conv"]
    errors = convolutions.relative_errors(channels=(5, 16))
    assert set(errors) == {(dtype, channels) for dtype in convolutions.DTYPES for channels in (5, 16)}
    for (dtype, _), found in errors.items():
        # Rounding the result alone is off by eps / 2 at most: by eps / (2 sqrt 3) of the binade, in the mean.
        assert 0.1 * np.finfo(dtype).eps < found["direct"] < 16 * np.finfo(dtype).eps
        # What the specification asks of "auto".
        assert found["auto"] <= 4 * found["direct"]
    weights = convolutions.weight_errors(channels=(5, 16))
    assert set(weights) == set(errors)
    for (dtype, _), found in weights.items():
        assert 0.1 * np.finfo(dtype).eps < found["plain sum"] < 16 * np.finfo(dtype).eps
        assert found["ours"] <= 4 * found["plain sum"]
    assert convolutions.section(errors, weights).count("| float32 | 16 |") == 2
    monkeypatch.setattr(convolutions.fastdl.conv, "conv2d", lambda x, w, **options: np.zeros((1, 1), x.dtype))
    (error,) = convolutions.relative_errors(channels=(2,), dtypes=("float32",)).values()
    assert error["direct"] == 1


@pytest.mark.parametrize("name", ["arc_cosine", "nngp", "ntk"])
def test_many_digits_are_the_formulas(suite, name, rng):
    # Two computations that share nothing: 50 digits, and extended precision; angles here are far from parallel.
    pytest.importorskip("mpmath")
    accuracy = suite["accuracy"]
    parameters = {"order": 2} if name == "arc_cosine" else {"depth": 2, "w_std": 1.5, "b_std": 0.1}
    X, Y = rng.standard_normal((4, 6)), rng.standard_normal((3, 6))
    truth = accuracy.many_digits(name, X, Y, parameters)
    formula = getattr(accuracy.formulas, name)(X, Y, **parameters)
    assert np.allclose(np.asarray(truth, dtype=np.float64), formula, rtol=1e-13)


def test_long_calls_are_made_once(suite):
    calls = []
    result = suite["measure"].interleave({"long": lambda: calls.append(1)}, seconds=9.0, settle=False, fewest=1)
    assert len(calls) == 1 and len(result["long"][0]) == 1


def test_turns_are_taken(suite):
    order = []

    def contender(name):
        def call():
            if not order or order[-1] != name:
                order.append(name)
            time.sleep(1.1e-3)

        return call

    result = suite["measure"].interleave({name: contender(name) for name in "abc"}, seconds=0.0, settle=False)
    # First each finds its batch; then there and back, five times. Neighbours that are the same fall together.
    assert "".join(order) == "abc" + "abcbabcbabc"
    assert all(len(durations) == 5 for durations, _ in result.values())


def test_short_calls_are_batched(suite):
    result = suite["measure"].interleave({"short": lambda: None}, seconds=0.0, settle=False)
    durations, batch = result["short"]
    assert batch > 100
    assert max(durations) < 1e-4


def test_what_is_done_is_kept_when_interrupted(suite, peaks, tmp_path, monkeypatch, capsys):
    def interrupt(progress, label):
        raise KeyboardInterrupt

    monkeypatch.setattr(suite["machine"], "peaks", lambda seconds: peaks)
    monkeypatch.setattr(suite["run"].Progress, "advance", interrupt)
    assert suite["run"].main(["gram", "--case", SMALL, "--output", str(tmp_path)]) == suite["run"].INTERRUPTED
    assert "gram.linear" in capsys.readouterr().out
    (path,) = tmp_path.glob("*.json")
    record = json.loads(path.read_text())
    assert not record["complete"]
    assert len(record["timings"]) == 1
    assert "not completed" in (tmp_path / "report.md").read_text()


def test_unknown_families_are_refused(suite, capsys):
    with pytest.raises(SystemExit):
        suite["run"].main(["conv2"])
    assert "expected families of gram, engine, conv, group, hebbian, scattering" in capsys.readouterr().err
