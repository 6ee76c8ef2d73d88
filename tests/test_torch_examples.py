"""The examples on PyTorch, in small."""

import importlib.util
from pathlib import Path

import pytest

import fastdl

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")
pytest.importorskip("matplotlib")

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
if not EXAMPLES.is_dir():
    pytest.skip("the examples are not here", allow_module_level=True)


@pytest.fixture(autouse=True)
def one_thread():
    """Small layers are quicker so, above all beside other programs."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with fastdl.threads(1):
        yield
    torch.set_num_threads(before)


def load(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_torch_p4_network(tmp_path, capsys):
    figures = load("torch_p4_network").main(tmp_path, samples=300, epochs=6)
    assert (tmp_path / "torch_p4_network.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out
    # Scores in float32, after three layers; those of a plain network are other ones.
    assert figures["p4"]["change"] < 1e-5
    assert figures["plain"]["change"] > 1e-2
    for found in figures.values():
        assert found["loss"] < 2.2  # log 10 is that of a guess
        assert 14_000 < found["parameters"] < 15_000


def test_turned_digits_are_turned():
    example = load("torch_p4_network")
    images = torch.rand(3, 1, 12, 12)
    for quarters in range(4):
        angles = torch.full((3,), quarters * torch.pi / 2)
        torch.testing.assert_close(example.turned(images, angles), images.rot90(quarters, (-2, -1)), rtol=0, atol=1e-5)


def test_torch_scattering_hybrid(tmp_path, capsys):
    figures = load("torch_scattering_hybrid").main(tmp_path, samples=1000, epochs=8)
    assert (tmp_path / "torch_scattering_hybrid.png").read_bytes().startswith(b"\x89PNG")
    assert "Look for" in capsys.readouterr().out
    assert figures["leftover"] < 0.3 * figures["leftover at the start"]
    assert figures["a learnt layer before it"] > figures["scattering of the mixtures"]
