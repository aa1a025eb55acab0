"""What surrounds a program: events, profiles, processes, one level of a pytree."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import distributed, monitoring, profiler, tree_util
from kiln.experimental import mesh_utils, multihost_utils
from kiln.sharding import P


def test_listeners_are_told() -> None:
    heard = []

    def listen(*args: object, **kwargs: object) -> None:
        heard.append((args, kwargs))

    monitoring.register_event_listener(listen)
    monitoring.register_event_duration_secs_listener(listen)
    monitoring.register_scalar_listener(listen)
    monitoring.register_event_time_span_listener(listen)
    monitoring.record_event("a", k=1)
    monitoring.record_event_duration_secs("b", 0.5)
    monitoring.record_scalar("c", 3)
    monitoring.record_event_time_span("d", 1.0, 2.0)
    monitoring.unregister_event_listener(listen)
    monitoring.record_event("not heard")
    monitoring.clear_event_listeners()
    monitoring.record_scalar("not heard", 3)
    assert [args for args, _ in heard] == [("a",), ("b", 0.5), ("c", 3), ("d", 1.0, 2.0)]
    with pytest.raises(AssertionError, match="is not registered"):
        monitoring.unregister_scalar_listener(listen)


def test_a_trace_has_the_annotations(tmp_path: Path) -> None:
    step = profiler.annotate_function(lambda: None, name="step")
    with profiler.trace(tmp_path):
        with profiler.StepTraceAnnotation("train", step_num=3):
            step()
        with pytest.raises(RuntimeError, match="already been started"):
            profiler.start_trace(tmp_path)
    (file,) = tmp_path.glob("plugins/profile/*/perfetto_trace.json.gz")
    spans = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    assert [span["name"] for span in spans] == ["step", "train"]
    assert spans[1]["args"] == {"step_num": "3"}
    assert spans[0]["ts"] >= spans[1]["ts"]
    with profiler.TraceAnnotation("not recorded"):
        pass
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()


@pytest.mark.parametrize(
    "refused",
    [
        profiler.device_memory_profile,
        lambda: profiler.save_device_memory_profile("x"),
        lambda: profiler.start_server(1),
        profiler.stop_server,
        lambda: profiler.start_trace("x", create_perfetto_link=True),
    ],
)
def test_what_is_not_profiled_is_refused(refused: object) -> None:
    with pytest.raises(NotImplementedError):
        refused()


def test_one_process() -> None:
    assert not distributed.is_initialized()
    distributed.initialize(num_processes=1)
    assert distributed.is_initialized()
    with pytest.raises(RuntimeError, match="only be called once"):
        distributed.initialize()
    distributed.shutdown()
    with pytest.raises(ValueError, match="coordinator_address should be defined"):
        distributed.initialize()
    with pytest.raises(ValueError, match="process_id not given"):
        distributed.initialize("localhost:1234", num_processes=2)
    kiln.devices()
    with pytest.raises(RuntimeError, match="must be called before any computation"):
        distributed.initialize("localhost:1234", num_processes=2, process_id=0)
    assert not distributed.is_initialized()


def test_processes_agree() -> None:
    x = {"a": jnp.arange(3)}
    assert multihost_utils.process_allgather(x)["a"].shape == (1, 3)
    assert multihost_utils.process_allgather(x, tiled=True)["a"].shape == (3,)
    assert multihost_utils.broadcast_one_to_all(x)["a"].tolist() == [0, 1, 2]
    multihost_utils.sync_global_devices("here")
    multihost_utils.assert_equal(x)
    with pytest.raises(AssertionError):
        multihost_utils.assert_equal(np.nan)
    mesh = kiln.make_mesh((4,), ("x",))
    placed = multihost_utils.host_local_array_to_global_array(jnp.arange(8), mesh, P("x"))
    assert placed.sharding.spec == P("x")
    assert multihost_utils.global_array_to_host_local_array(placed, mesh, P("x")) is placed
    with multihost_utils.live_devices(None) as devices:
        assert devices == kiln.devices()


def test_devices_in_a_grid() -> None:
    grid = mesh_utils.create_device_mesh((2, 4))
    assert grid.ravel().tolist() == kiln.devices()
    assert mesh_utils.create_hybrid_device_mesh((2, 4), (1, 1)).shape == (2, 4)
    with pytest.raises(ValueError, match="must equal the product"):
        mesh_utils.create_device_mesh((3,))
    with pytest.raises(ValueError, match="Number of slices 1"):
        mesh_utils.create_hybrid_device_mesh((2, 4), (2, 1))


def test_one_level_of_a_tree() -> None:
    assert tree_util.flatten_one_level({"b": [1], "a": 2}) == ([2, [1]], ("a", "b"))
    assert tree_util.flatten_one_level_with_keys([5])[0] == [(tree_util.SequenceKey(0), 5)]
    assert tree_util.is_tree_node(dict)
    assert not tree_util.is_tree_node(int)
    assert tree_util.default_registry.flatten_one_level(3) is None
    assert tree_util.default_registry.flatten([1, 2])[0] == [1, 2]
    with pytest.raises(ValueError, match="can't tree-flatten type"):
        tree_util.flatten_one_level(3)


def test_shardings_are_told() -> None:
    seen: list[object] = []
    kiln.debug.inspect_array_sharding(jnp.ones(2), callback=seen.append)
    assert len(seen) == 1
    with pytest.raises(NotImplementedError, match="inside a program"):
        kiln.jit(lambda x: kiln.debug.inspect_array_sharding(x, callback=seen.append))(1.0)


def test_gradients_are_checked() -> None:
    kiln.test_util.check_grads(jnp.sin, (jnp.arange(3.0),), 2, ("fwd", "rev", "lin"), 0.1, 0.1)
    wrong = kiln.custom_jvp(lambda x: x * 2)
    wrong.defjvp(lambda primals, tangents: (wrong(primals[0]), tangents[0]))
    with pytest.raises(AssertionError, match="JVP tangent"):
        kiln.test_util.check_grads(wrong, (1.0,), 1, ("fwd",))
    with pytest.raises(AssertionError, match="VJP cotangent"):
        kiln.test_util.check_grads(wrong, (1.0,), 1, ("rev",))
