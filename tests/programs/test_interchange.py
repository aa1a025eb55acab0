"""Arrays and functions that leave kiln: pickling, copying, torch, pandas, pyarrow, joblib.

Tests of libraries that are not installed are skipped.
"""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.sharding import NamedSharding, P, make_mesh
from tests.programs import importable

DTYPES = ["bool", "int8", "uint16", "int32", "float16", "bfloat16", "float32", "complex64"]


def _again(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("send", [_again, copy.copy, copy.deepcopy])
def test_arrays_are_sent(dtype, send):
    x = jnp.array([[0, 1, 2], [3, 4, 5]], dtype)
    y = send(x)
    assert y is not x and y.dtype == x.dtype and np.array_equal(np.asarray(x), np.asarray(y))
    x.delete()
    assert int(y[0, 1].real) == 1


def test_types_of_sent_arrays():
    assert _again(jnp.asarray(3.0)).weak_type and not _again(jnp.float32(3)).weak_type
    assert _again(kiln.random.key(7)) == kiln.random.key(7)
    sharded = kiln.device_put(jnp.arange(8.0), NamedSharding(make_mesh((8,), ("x",)), P("x")))
    assert np.array_equal(_again(sharded), np.arange(8.0))


class TestJittedFunctions:
    def test_decorated(self):
        assert _again(importable.decorated) is importable.decorated

    @pytest.mark.parametrize("send", [copy.copy, copy.deepcopy])
    def test_copies_are_the_function_itself(self, send):
        assert send(importable.beside) is importable.beside

    def test_of_an_importable_function(self):
        jitted = _again(kiln.jit(importable.plain))
        assert jitted is not importable.plain and float(jitted(jnp.arange(3.0))) == 5.0
        assert jitted.lower(jnp.arange(3.0)).compile() is not None

    def test_options_are_kept(self):
        beside = _again(kiln.jit(importable.powers, static_argnums=1, donate_argnums=0))
        x = jnp.arange(3.0)
        assert list(beside(x, 2)) == [0.0, 1.0, 4.0] and x.is_deleted()

    def test_a_function_without_a_name_is_refused(self):
        with pytest.raises((pickle.PicklingError, AttributeError)):
            pickle.dumps(kiln.jit(lambda x: x))

    @pytest.mark.parametrize("step", ["trace", "lower", "compile"])
    def test_programs_are_refused(self, step):
        jitted, x = kiln.jit(importable.plain), jnp.ones(3)
        stage = jitted.lower(x).compile() if step == "compile" else getattr(jitted, step)(x)
        with pytest.raises(TypeError, match="belongs to its process"):
            pickle.dumps(stage)

    def test_partials(self):
        partial = _again(kiln.tree_util.Partial(importable.powers, n=3))
        assert float(kiln.jit(lambda f, x: f(x))(partial, 2.0)) == 8.0


class TestNumpy:
    def test_functions_of_numpy_return_its_arrays(self):
        x = jnp.arange(3.0)
        assert type(np.sin(x)) is type(np.concatenate([x, x])) is np.ndarray
        assert isinstance(np.ones(3) + x, kiln.Array)

    def test_files(self):
        file = io.BytesIO()
        np.save(file, jnp.arange(3))
        assert list(np.load(io.BytesIO(file.getvalue()))) == [0, 1, 2]


class TestTorch:
    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch", reason="torch is not installed")

    @pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "uint16"])
    def test_both_ways(self, torch, dtype):
        x = jnp.array([[0, 1, 2], [1, 0, 1]], dtype)
        tensor = torch.from_dlpack(x)
        assert str(tensor.dtype) == f"torch.{dtype}" and tuple(tensor.shape) == (2, 3)
        back = jnp.from_dlpack(tensor)
        assert back.dtype == x.dtype and np.array_equal(np.asarray(back), np.asarray(x))

    def test_strides_and_empty_arrays(self, torch):
        tensor = torch.arange(6.0).reshape(2, 3)
        assert np.array_equal(jnp.from_dlpack(tensor.T), tensor.numpy().T)
        assert torch.from_dlpack(jnp.zeros((0, 3))).shape == (0, 3)
        assert torch.from_dlpack(jnp.float32(2)).item() == 2

    def test_a_tensor_outlives_its_array(self, torch):
        tensor = torch.from_dlpack(jnp.arange(1000.0) + 1)
        assert float(tensor.sum()) == 500500.0

    def test_gradients_are_refused(self, torch):
        with pytest.raises((BufferError, RuntimeError)):
            jnp.from_dlpack(torch.ones(3, requires_grad=True))


class TestPandas:
    @pytest.fixture
    def pandas(self):
        return pytest.importorskip("pandas", reason="pandas is not installed")

    def test_frames_of_arrays(self, pandas):
        x = jnp.arange(6.0).reshape(2, 3)
        assert pandas.DataFrame(x).to_numpy().tolist() == x.tolist()
        frame = pandas.DataFrame({"a": x[0], "b": jnp.arange(3)})
        assert frame.dtypes.astype(str).tolist() == ["float32", "int32"]
        assert frame.assign(c=x[1])["c"].tolist() == [3.0, 4.0, 5.0]

    def test_arrays_of_frames(self, pandas):
        frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})
        assert jnp.array(frame).tolist() == [[1.0, 3.0], [2.0, 4.0]]
        assert jnp.asarray(frame["b"]).dtype == jnp.int32
        assert (frame["a"] + jnp.ones(2)).tolist() == [2.0, 3.0]

    def test_text_is_refused(self, pandas):
        with pytest.raises(TypeError):
            jnp.asarray(pandas.Series(["a", "b"]))


class TestPyarrow:
    @pytest.fixture
    def pyarrow(self):
        return pytest.importorskip("pyarrow", reason="pyarrow is not installed")

    def test_both_ways(self, pyarrow):
        x = jnp.arange(3.0)
        column = pyarrow.array(x)
        assert column.type == pyarrow.float32() and column.to_pylist() == [0.0, 1.0, 2.0]
        assert pyarrow.table({"a": x, "b": jnp.arange(3)}).num_rows == 3
        assert jnp.asarray(column).tolist() == jnp.from_dlpack(column).tolist() == x.tolist()
        assert jnp.asarray(pyarrow.chunked_array([[1.0], [2.0]])).tolist() == [1.0, 2.0]


class TestJoblib:
    @pytest.fixture
    def joblib(self):
        return pytest.importorskip("joblib", reason="joblib is not installed")

    def test_hashes_are_those_of_values(self, joblib):
        x = jnp.arange(3.0)
        before = joblib.hash({"x": x})
        kiln.jit(importable.plain)(x)
        assert before == joblib.hash({"x": x}) == joblib.hash({"x": jnp.arange(3.0)})
        assert before != joblib.hash({"x": x + 1})
        assert joblib.hash(x) != joblib.hash(x.astype(jnp.bfloat16))

    def test_dumps(self, joblib, tmp_path):
        joblib.dump({"x": jnp.arange(3.0)}, tmp_path / "x")
        assert joblib.load(tmp_path / "x")["x"].tolist() == [0.0, 1.0, 2.0]

    def test_memory(self, joblib, tmp_path):
        calls = []

        def slow(x):
            calls.append(x)
            return x + 1

        cached = joblib.Memory(tmp_path, verbose=0).cache(slow)
        assert float(cached(jnp.float32(1))) == float(cached(jnp.float32(1))) == 2.0
        assert len(calls) == 1

    def test_processes(self, joblib):
        x = jnp.arange(3.0)
        jobs = [joblib.delayed(f)(x) for f in (importable.decorated, kiln.jit(importable.plain))]
        assert [float(y) for y in joblib.Parallel(n_jobs=2)(jobs)] == [6.0, 5.0]
