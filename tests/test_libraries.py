"""Arrays of NumPy, torch, JAX and array-api-strict, in and out of every public function, as docs/libraries.md has it.

What a kernel computes is the same to the bit in every library, because it works on the memory of the caller. What has
no kernel is computed by the caller's library itself, which rounds as it will.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import fastdl
from cases.libraries import CASES, LARGE, LIBRARIES, WITH_OUT, WITHOUT_ARRAYS, WITHOUT_KERNEL, Giver, Library, leaves
from fastdl import _dispatch, conv, gram, group, hebbian, scattering

NUMPY = Library()
FOREIGN = ("torch", "array_api_strict", "jax")


def of(name):
    """The library of a name, or a skip."""
    if name in FOREIGN:
        pytest.importorskip(name)
    return LIBRARIES[name]()


@pytest.fixture(params=FOREIGN)
def foreign(request):
    """Run in every library but NumPy."""
    return of(request.param)


@pytest.fixture
def jax():
    return of("jax")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_every_function_has_a_case():
    covered = {called.split(" ")[0] for name in CASES for called in name.split(", ")}
    covered |= {name.rpartition(".")[0] for name in covered}  # methods cover their class
    families = {"gram": gram, "conv": conv, "group": group, "scattering": scattering, "hebbian": hebbian}
    public = {f"{family}.{name}" for family, module in families.items() for name in module.__all__}
    assert public - covered == WITHOUT_ARRAYS


def compare(library, name, dtype, exact):
    """Make a call in NumPy and in another library; the results must be alike and the arguments as they were."""
    case = CASES[name]
    expected = list(leaves(case(Giver(NUMPY, dtype))))
    with library.precision(dtype):
        giver = Giver(library, dtype)
        found = list(leaves(case(giver)))
    assert len(found) == len(expected) > 0
    for result, wanted in zip(found, expected, strict=True):
        assert library.owns(result), f"{name} gave a {type(result)}"
        values = library.read(result)
        assert values.shape == wanted.shape
        if not np.issubdtype(wanted.dtype, np.floating):
            assert np.issubdtype(values.dtype, np.integer)
            np.testing.assert_array_equal(values, wanted)
            continue
        assert values.dtype == wanted.dtype == dtype
        if exact:
            np.testing.assert_array_equal(values, wanted)
        else:
            # Sums of some hundred terms in another order, and functions of them.
            slack = 100 * np.finfo(dtype).eps
            np.testing.assert_allclose(values, wanted, rtol=100 * slack, atol=slack * np.abs(wanted).max(initial=1))
    for array, values in giver.given:
        np.testing.assert_array_equal(library.read(array), values, err_msg="an input was written")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("library", ["read-only numpy", *FOREIGN])
def test_in_and_out(library, name, dtype, monkeypatch):
    """The result is of the library, the dtype and the device of the arguments, and has the values that NumPy gets."""
    through_reference = []
    run = _dispatch.Call._run_reference
    spy = lambda call, parameters: through_reference.append(call) or run(call, parameters)  # noqa: E731
    monkeypatch.setattr(_dispatch.Call, "_run_reference", spy)
    native = fastdl.get_backend() == "native"
    compare(of(library), name, dtype, exact=native and name not in WITHOUT_KERNEL)
    if native:
        assert bool(through_reference) == (name in WITHOUT_KERNEL)


@pytest.mark.parametrize("name", CASES)
def test_in_and_out_of_the_reference(foreign, name):
    with fastdl.backend("reference"):
        compare(foreign, name, np.dtype(np.float32), exact=False)


@pytest.mark.parametrize("name", LARGE)
def test_no_copy_is_made(native, foreign, name, monkeypatch):
    """Kernels read the memory of the caller, and the caller gets the memory they wrote."""
    read, written = [], []
    finish = _dispatch.Call.finish
    make = _dispatch.new_array

    def spy(call, *arguments):
        read.extend(array.ctypes.data for array in call.arrays if array is not None)
        return finish(call, *arguments)

    def room(*arguments):
        written.append(make(*arguments))
        return written[-1]

    monkeypatch.setattr(_dispatch.Call, "finish", spy)
    monkeypatch.setattr(_dispatch, "new_array", room)
    if foreign.name == "array_api_strict":
        foreign.device = foreign.module.Device("CPU_DEVICE")  # to its others, even results of its own are copied
    giver = Giver(foreign, "float32")
    result = LARGE[name](giver)
    assert read == [foreign.address(array) for array, _ in giver.given]
    assert [foreign.address(result)] == [array.ctypes.data for array in written]


@pytest.mark.parametrize("name", WITH_OUT)
@pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_out_is_written_and_returned(library, name, dtype, backend):
    library, (case, shape) = of(library), WITH_OUT[name]
    with fastdl.backend(backend):
        expected = library.read(case(Giver(library, dtype)))
        out = library.give(np.full(shape, np.nan, dtype))
        assert case(Giver(library, dtype), out=out) is out
    np.testing.assert_array_equal(library.read(out), expected)


@pytest.mark.parametrize("name", WITH_OUT)
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_out_of_jax_is_refused(jax, name, backend):
    """A JAX array may be shared with computations under way: nobody may write it."""
    case, shape = WITH_OUT[name]
    out = jax.give(np.zeros(shape, np.float32))
    message = r"^\[.*\] expected out to be an array that can be written, got jax\w*\.ArrayImpl"
    with fastdl.backend(backend), pytest.raises(TypeError, match=message):
        case(Giver(jax, "float32"), out=out)
    np.testing.assert_array_equal(jax.read(out), 0)


@pytest.mark.parametrize("library", ["torch", "array_api_strict"])
@pytest.mark.parametrize("rule", [hebbian.hebb, hebbian.oja, hebbian.sanger, hebbian.subspace, hebbian.krotov])
def test_weights_are_updated_in_place(library, rule, dtype):
    library = of(library)
    giver = Giver(library, dtype)
    W, X = giver(3, 5), giver(20, 5)
    expected = library.read(rule(W, X, 0.01)).copy()
    assert rule(W, X, 0.01, out=W) is W
    np.testing.assert_array_equal(library.read(W), expected)


def test_weights_of_jax_are_not(jax):
    giver = Giver(jax, "float32")
    W, X = giver(3, 5), giver(20, 5)
    with pytest.raises(TypeError, match=r"\[hebbian\.oja\] expected out to be an array that can be written"):
        hebbian.oja(W, X, 0.01, out=W)
    np.testing.assert_array_equal(jax.read(W), giver.given[0][1])


# Two arrays of one dtype, of which the first decides where the result goes.
PAIRS = {
    "gram.rbf": (gram.rbf, (7, 5), (4, 5)),
    "gram.matvec": (gram.matvec, (7, 5), (7, 2)),
    "conv.conv2d": (conv.conv2d, (2, 3, 6, 5), (4, 3, 3, 3)),
    "conv.convolve": (conv.convolve, (9,), (3,)),
    "conv.graph_filter": (lambda L, X: conv.graph_filter(L, X, [1.0, 0.5]), (4, 4), (4, 3)),
    "group.lift_conv2d": (group.lift_conv2d, (2, 3, 5, 5), (4, 3, 3, 3)),
    "hebbian.oja": (lambda W, X: hebbian.oja(W, X, 0.01), (3, 5), (9, 5)),
    "hebbian.modern_hopfield": (lambda P, q: hebbian.modern_hopfield(P, q, 1.0), (3, 5), (2, 5)),
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("first", ["numpy", *FOREIGN])
@pytest.mark.parametrize("second", ["numpy", *FOREIGN])
def test_the_first_array_decides(name, first, second):
    function, *shapes = PAIRS[name]
    first, second = of(first), of(second)
    giver = Giver(NUMPY, "float32")
    x, y = (giver(*shape) for shape in shapes)
    result = function(first.give(x), second.give(y))
    assert first.owns(result)
    np.testing.assert_allclose(first.read(result), function(x, y), rtol=1e-5, atol=1e-5)


def test_a_gradient_goes_where_its_first_array_is(foreign):
    giver = Giver(NUMPY, "float32")
    w, grad = giver(4, 3, 3, 3), giver(2, 4, 4, 4)
    assert foreign.owns(conv.conv2d_input((2, 3, 6, 6), foreign.give(w), grad))
    assert type(conv.conv2d_input((2, 3, 6, 6), w, foreign.give(grad))) is np.ndarray


REFUSED = {
    "gram.rbf": lambda x: gram.rbf(x((3, 2))),
    "gram.matvec": lambda x: gram.matvec(x((3, 2)), x((3,))),
    "conv.conv2d": lambda x: conv.conv2d(x((1, 1, 4, 4)), x((1, 1, 3, 3))),
    "conv.max_pool2d": lambda x: conv.max_pool2d(x((1, 1, 4, 4)), 2),
    "group.conv2d": lambda x: group.conv2d(x((1, 1, 4, 4, 4)), x((1, 1, 4, 3, 3))),
    "scattering.Scattering2D": lambda x: scattering.Scattering2D(1, (8, 8), L=2)(x((8, 8))),
    "hebbian.oja": lambda x: hebbian.oja(x((2, 3)), x((4, 3)), 0.1),
    "hebbian.HebbianPCA": lambda x: hebbian.HebbianPCA(1).fit(x((4, 3))),
}
NARROW = [("torch", "float16"), ("torch", "bfloat16"), ("torch", "complex64"), ("torch", "float8_e4m3fn")]
NARROW += [("jax", "float16"), ("jax", "bfloat16"), ("jax", "complex64"), ("jax", "float8_e4m3fn"), ("jax", "int4")]
NARROW += [("numpy", "float16"), ("numpy", "complex128"), ("array_api_strict", "complex64")]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("library, dtype", NARROW)
def test_other_dtypes_are_refused(library, dtype, name):
    xp = of(library).module
    with pytest.raises(
        TypeError, match=rf"^\[.*\] expected \w+ of dtype float32, float64, integer or bool, got {dtype}"
    ):
        REFUSED[name](lambda shape: xp.zeros(shape, dtype=getattr(xp, dtype)))


class Holder:
    """What has an array and nothing else."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


@pytest.mark.parametrize("name", PAIRS)
def test_what_numpy_can_read_gives_numpy_arrays(name):
    function, *shapes = PAIRS[name]
    giver = Giver(NUMPY, "float64")
    x, y = (giver(*shape) for shape in shapes)
    expected = function(x, y)
    for convert in (np.ndarray.tolist, Holder, memoryview, lambda array: array.astype(">f8")):
        result = function(convert(x), convert(y))
        assert type(result) is np.ndarray and result.dtype == np.float64
        np.testing.assert_array_equal(result, expected)


def test_pandas(rng):
    pandas = pytest.importorskip("pandas")
    X = rng.standard_normal((12, 3))
    frame = pandas.DataFrame(X, columns=list("abc"))
    for function in (gram.rbf, lambda X: hebbian.HebbianPCA(2).fit_transform(X)):
        result = function(frame)
        assert type(result) is np.ndarray
        np.testing.assert_array_equal(result, function(X))
    with pytest.raises(TypeError, match=r"\[gram\.rbf\] expected X of dtype .*, got object"):
        gram.rbf(frame.assign(name="text"))


class TestJax:
    def test_numbers_of_64_bits_only_on_request(self, jax, rng):
        """What is computed in float64 comes back as JAX's own rule has it: rounded to float32 unless x64 is enabled."""
        whole = rng.integers(-9, 9, (7, 3)).astype(np.int32)
        single, double = rng.standard_normal((4, 3)).astype(np.float32), rng.standard_normal((4, 3))
        for wide in (np.dtype(np.float64), np.dtype(np.float32)):
            with jax.precision(wide):
                assert gram.rbf(jax.give(single)).dtype == np.float32
                for arguments in [(jax.give(whole),), (jax.give(single), double)]:
                    expected = gram.rbf(*(np.asarray(array) for array in arguments))
                    assert expected.dtype == np.float64
                    result = gram.rbf(*arguments)
                    assert jax.owns(result) and result.dtype == wide
                    np.testing.assert_array_equal(result, expected.astype(wide))
                _, places = conv.max_pool1d(jax.give(single[None]), 3, return_indices=True)
                assert places.dtype == (np.int64 if wide == np.float64 else np.int32)

    @pytest.mark.parametrize("name", PAIRS)
    def test_tracers_are_refused(self, jax, name):
        function, *shapes = PAIRS[name]
        giver = Giver(jax, "float32")
        x, y = (giver(*shape) for shape in shapes)
        message = r"^\[.*\] expected \w+ to have values, got jax\.\w*Tracer: .*jax\.pure_callback"
        for traced in (jax.jax.jit, jax.jax.vmap, lambda f: jax.jax.grad(lambda x: jax.module.sum(f(x)))):
            with pytest.raises(TypeError, match=message):
                traced(lambda x: function(x, y))(x)
            with pytest.raises(TypeError, match=message):
                traced(lambda y: function(x, y))(y)

    def test_keys_are_refused(self, jax):
        with pytest.raises(TypeError, match=r"\[gram\.rbf\] expected X of dtype .*, got key"):
            gram.rbf(jax.jax.random.split(jax.jax.random.key(0), (2, 3)))

    def test_inside_of_jit_by_a_callback(self, jax):
        """The example of docs/libraries.md: a kernel matrix in a function that JAX compiles and takes gradients of."""
        jnp = jax.module

        def matvec(X, v):
            return jax.jax.pure_callback(gram.matvec, jax.jax.ShapeDtypeStruct(v.shape, v.dtype), X, v)

        def forward(X, v):
            return matvec(X, v), (X, v)

        def backward(saved, grad):
            X, v = saved
            shapes = tuple(jax.jax.ShapeDtypeStruct(array.shape, array.dtype) for array in saved)
            gradients = lambda X, v, grad: (lambda g: (g.X, g.v))(gram.matvec_vjp(X, v, grad))  # noqa: E731
            return jax.jax.pure_callback(gradients, shapes, X, v, grad)

        product = jax.jax.custom_vjp(matvec)
        product.defvjp(forward, backward)
        with jax.precision(np.dtype(np.float64)):
            giver = Giver(jax, "float64")
            X, v = giver(9, 3), giver(9)

            def plain(X, v):
                apart = jnp.sum((X[:, None] - X[None]) ** 2, axis=2)
                return jnp.sum(jnp.sin(jnp.exp(-apart / 3) @ v))

            def ours(X, v):
                return jnp.sum(jnp.sin(product(X, v)))

            assert abs(float(jax.jax.jit(ours)(X, v) - plain(X, v))) < 1e-12
            for found, expected in zip(
                jax.jax.jit(jax.jax.grad(ours, (0, 1)))(X, v), jax.jax.grad(plain, (0, 1))(X, v), strict=True
            ):
                np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)

    def test_what_is_still_being_computed_is_waited_for(self, jax):
        x = jax.give(np.eye(600, dtype=np.float32))
        for _ in range(20):
            x = x @ x
        np.testing.assert_array_equal(gram.linear(x), np.eye(600))

    def test_results_are_never_written_again(self, native, jax):
        """Large results lie in memory that is used again, but not while JAX holds it."""
        X = jax.give(np.random.default_rng(0).standard_normal((600, 4)).astype(np.float32))
        first = gram.rbf(X)
        copy = np.array(first)
        for gamma in (1.0, 2.0, 3.0):
            gram.rbf(X, gamma=gamma)
        np.testing.assert_array_equal(first, copy)

    def test_the_device_is_kept(self, jax):
        """On a machine that JAX is told has two processors; an array may also lie on both."""
        code = """
import numpy as np, jax, fastdl
X = np.arange(12, dtype=np.float32).reshape(4, 3)
one, other = jax.devices()
for backend in ("auto", "reference"):
    with fastdl.backend(backend):
        for device in (one, other):
            K = fastdl.gram.linear(jax.device_put(X, device))
            assert K.devices() == {device}, K.devices()
            np.testing.assert_array_equal(K, X @ X.T)
        spread = jax.sharding.NamedSharding(jax.make_mesh((2,), ("rows",)), jax.sharding.PartitionSpec("rows"))
        np.testing.assert_array_equal(fastdl.gram.linear(jax.device_put(X, spread)), X @ X.T)
"""
        environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=environment, check=True, timeout=240)
