"""The examples: that they run as scripts, and that what they print is so."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("the examples are not here", allow_module_level=True)

SCRIPTS = sorted(path.stem for path in EXAMPLES.glob("*.py"))


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_kernel_ridge_digits(tmp_path, capsys):
    accuracies = load("kernel_ridge_digits").main(tmp_path)
    assert accuracies["rbf"] > 0.98
    assert accuracies["ntk"] > 0.98
    assert 0.9 < accuracies["linear"] < 0.97
    assert (tmp_path / "kernel_ridge_digits.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


def test_kernel_ridge_is_that_of_sklearn():
    # A small problem, so that the two are compared before the largest of ten values hides what differs.
    from sklearn.kernel_ridge import KernelRidge

    from fastdl import gram

    rng = np.random.default_rng(0)
    train, test = rng.standard_normal((60, 5)), rng.standard_normal((20, 5))
    labels = rng.integers(0, 10, 60)
    theirs = KernelRidge(alpha=1e-1, kernel="rbf", gamma=0.3).fit(train, np.eye(10)[labels] - 0.1).predict(test)
    ours = load("kernel_ridge_digits").classify(
        lambda X, Y=None: gram.rbf(X, Y, gamma=0.3), train, labels, test, ridge=1e-1
    )
    assert np.array_equal(ours, np.argmax(theirs, axis=1))


def test_kernel_pca_digits(tmp_path, capsys):
    accuracies = load("kernel_pca_digits").main(tmp_path)
    assert accuracies["rbf"] > 0.9
    assert accuracies["linear"] > 0.9
    assert (tmp_path / "kernel_pca_digits.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


def test_kernel_pca_is_that_of_sklearn():
    from sklearn.decomposition import KernelPCA

    from fastdl import gram

    X = np.random.default_rng(0).standard_normal((40, 6))
    ours = load("kernel_pca_digits").kernel_pca(gram.rbf(X, gamma=0.2), 4)
    theirs = KernelPCA(4, kernel="rbf", gamma=0.2, eigen_solver="dense").fit_transform(X)
    signs = np.sign(np.sum(ours * theirs, axis=0))
    # Eigenvectors are off by eps over the gaps between the eigenvalues, which are above 1e-2 here.
    assert np.max(np.abs(ours * signs - theirs)) < 1e-12


def test_svc_precomputed(tmp_path, capsys):
    result = load("svc_precomputed").main(tmp_path)
    assert result["svc_accuracy"] > 0.95
    assert result["svc_agreement"] > 0.998  # one digit of 540 may lie on a border
    assert result["ridge_accuracy"] > 0.98
    # Rounding of the kernel, 1e-15, times the condition number of K + alpha: n / alpha = 1e5 at most.
    assert result["ridge_difference"] < 1e-9
    assert result["pca_difference"] < 1e-10
    assert (tmp_path / "svc_precomputed.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


def test_gaussian_process(tmp_path, capsys):
    result = load("gaussian_process").main(tmp_path)
    assert result["error"] < 0.1  # below the noise
    assert result["covered"] > 0.9
    assert result["deviation_in_gap"] > 3 * result["deviation_elsewhere"]
    assert (tmp_path / "gaussian_process.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


def test_gaussian_process_is_that_of_sklearn():
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern

    example = load("gaussian_process")
    rng = np.random.default_rng(0)
    X, points = rng.uniform(-3, 3, (30, 2)), rng.uniform(-3, 3, (20, 2))
    y = np.sin(X[:, 0])
    mean, deviation, likelihood = example.posterior(X, y, points)
    kernel = Matern(example.LENGTH_SCALE, nu=2.5)
    theirs = GaussianProcessRegressor(kernel, alpha=example.NOISE**2, optimizer=None).fit(X, y)
    their_mean, their_deviation = theirs.predict(points, return_std=True)
    # The condition number of K + noise² is below 30 / 0.01; standard deviations stay above 1e-2.
    assert np.allclose(mean, their_mean, rtol=0, atol=1e-11)
    assert np.allclose(deviation, their_deviation, rtol=0, atol=1e-10)
    assert likelihood == pytest.approx(theirs.log_marginal_likelihood_value_, rel=1e-11)


def test_lenet_digits(tmp_path, capsys):
    result = load("lenet_digits").main(tmp_path)
    assert result["accuracies"][-1] > 0.97
    assert np.mean(result["losses"][-10:]) < 1e-2 * result["losses"][0]
    assert (tmp_path / "lenet_digits.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


def test_lenet_gradients_are_differences():
    example = load("lenet_digits")
    rng = np.random.default_rng(0)
    parameters = example.initial(rng, (1, 2, 3, 4, 5), np.float64)
    images, labels = rng.standard_normal((3, 1, 8, 8)), np.array([4, 0, 2])
    _, gradients = example.loss_and_gradients(parameters, images, labels)
    step = 1e-6
    for layer, gradient in zip(parameters, gradients, strict=True):
        for array, slopes in zip(layer, gradient, strict=True):
            assert slopes.shape == array.shape
            for place in np.ndindex(array.shape):
                kept, losses = array[place], []
                for moved in (kept + step, kept - step):
                    array[place] = moved
                    losses.append(example.loss_and_gradients(parameters, images, labels)[0])
                array[place] = kept
                # A loss of about 2 is known to some 1e-15, so a difference over 2e-6 to some 1e-9; the third derivative
                # adds step². No maximum or ReLU turns over within the step.
                assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(slopes[place], abs=1e-8)


def test_rotated_digits(tmp_path, capsys):
    result = load("rotated_digits").main(tmp_path)
    group, plain = result["p4"], result["plain"]
    # The scores are the same at all quarter turns, to rounding: at most a tie may be broken otherwise.
    assert max(abs(group[angle] - group[0]) for angle in (90, 180, 270)) <= 1 / 360 + 1e-12
    assert group[0] > 0.85 and plain[0] > 0.9
    assert all(plain[angle] < group[angle] - 0.3 for angle in (90, 180, 270))
    assert (tmp_path / "rotated_digits.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


def test_rotated_digits_gradients_are_differences():
    example = load("rotated_digits")
    rng = np.random.default_rng(0)
    images, labels = rng.standard_normal((3, 1, 5, 5)), np.array([2, 0, 1])
    for kind in ("p4", "plain"):
        network = example.Network(kind, rng, (1, 2, 2, 3), np.float64)
        for _, bias in network.parameters:
            bias += rng.uniform(0.1, 0.2, bias.shape)  # without it, what sees only zeros is at the bend of the ReLU
        _, gradients = network.loss_and_gradients(images, labels)
        step = 1e-6
        for layer, gradient in zip(network.parameters, gradients, strict=True):
            for array, slopes in zip(layer, gradient, strict=True):
                assert slopes.shape == array.shape
                for place in list(np.ndindex(array.shape))[::3]:
                    kept, losses = array[place], []
                    for moved in (kept + step, kept - step):
                        array[place] = moved
                        losses.append(network.loss_and_gradients(images, labels)[0])
                    array[place] = kept
                    # As for the network above: differences are known to some 1e-9.
                    assert (losses[0] - losses[1]) / (2 * step) == pytest.approx(slopes[place], abs=1e-8)


def test_hebbian_convergence(tmp_path, capsys):
    result = load("hebbian_convergence").main(tmp_path)
    assert result["oja"] < 5 and result["subspace"] < 10 and result["sanger"] < 15  # degrees
    assert result["commutator"] < 1e-14
    for units in (2, 4):
        assert result[f"orbit {units}"] < 6 and result[f"moved {units}"] < 0.05
    assert (tmp_path / "hebbian_convergence.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


def test_hopfield_digits(tmp_path, capsys):
    result = load("hopfield_digits").main(tmp_path)
    assert result["one unit after the other"] > 0.9 and result["all units at once"] > 0.9
    assert result["dense, degree 6"] > 0.99 and result["modern, one step"] > 0.99
    assert result["rises"] <= 0  # 64 units: all energies are exact
    assert (tmp_path / "hopfield_digits.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


def test_scattering_filters(tmp_path, capsys):
    result = load("scattering_filters").main(tmp_path)
    assert 0.9 < result["signals"] < 1.6 and 0.9 < result["images"] < 1.6
    assert result["turn"] in (2, 6)  # of eight angles of half a turn
    assert (tmp_path / "scattering_filters.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


def test_scattering_digits(tmp_path, capsys):
    result = load("scattering_digits").main(tmp_path)
    assert result["scattering"] > result["pixels"] + 0.04 and result["scattering"] > 0.87
    assert result["fall"] < 1e-2
    assert (tmp_path / "scattering_digits.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out


@pytest.mark.parametrize("name", SCRIPTS)
def test_examples_are_scripts(name, tmp_path):
    # One is run as a reader would; of the others, that they would be, and that a test here or of a family runs them.
    text = (EXAMPLES / f"{name}.py").read_text(encoding="utf-8")
    assert 'if __name__ == "__main__":' in text
    assert f"python examples/{name}.py" in text
    tests = Path(__file__).parent.glob("test_*.py")
    assert any(re.search(rf"\b{name}\b", path.read_text(encoding="utf-8").replace("test_", "")) for path in tests)
    if name == "gaussian_process":
        command = [sys.executable, str(EXAMPLES / f"{name}.py"), str(tmp_path)]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        assert "Look for" in done.stdout
        assert (tmp_path / f"{name}.png").exists()
