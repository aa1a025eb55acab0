"""Ways to break the behavior of items of the contract: items drawn by chance, and all later ones.

Each replaces one text of one file of `src/kiln`. Section 15 and what follows were written after the
draw, which stays as it was; all of these items have a break. `UNSEEN` are those that no test saw
once, contract or not.
"""

from __future__ import annotations

import dataclasses
import random

from tests.contract.items import ITEMS

SEED = 0
DRAWN = 40
LAST_DRAWN = 14
"""The last section of which items were drawn."""

WRITTEN_LATER = {"13.5", "13.6", "13.7"}
"""Items of these sections that there were not at the draw."""


@dataclasses.dataclass(frozen=True)
class Break:
    """A text of a file, and what to write in its place so that an item does not hold any more.

    `tests` are to see it; those marked with the item if none are named.
    """

    item: str
    file: str
    text: str
    instead: str
    tests: tuple[str, ...] = ()


def drawn() -> list[str]:
    """Return the items of sections 1-14 drawn, in the order of the draw."""
    written = ITEMS.keys() - WRITTEN_LATER
    order = sorted(item for item in written if int(item.partition(".")[0]) <= LAST_DRAWN)
    random.Random(SEED).shuffle(order)
    return order[:DRAWN]


def order() -> list[str]:
    """Return the items that have breaks: those drawn, then those written later."""
    later = [item for item in ITEMS if int(item.partition(".")[0]) > LAST_DRAWN]
    return drawn() + sorted(WRITTEN_LATER) + later


BREAKS = [
    Break(
        "10.2",
        "jit/cache.py",
        "found = tables[options] = Recordings(identity)",
        "found = Recordings(identity)",
    ),
    Break(
        "10.1",
        "base/options/config.py",
        "default_matmul_precision: str | None = _option(None, in_key=True)",
        "default_matmul_precision: str | None = _option(None)",
    ),
    Break(
        "12.5",
        "jit/stages/compiled.py",
        "        if wrong:\n            self._refuse_types(wrong, sizes)\n",
        "",
    ),
    Break(
        "2.9",
        "jit/signatures/argument_binding.py",
        "return tuple(moved)",
        "return tuple([name for name in keywords if name in moved])",
    ),
    Break(
        "11.5",
        "numpy/indexing/index_expressions.py",
        "raise NonConcreteBooleanIndexError(",
        "raise IndexError(",
    ),
    Break(
        "12.2",
        "jit/signatures/struct.py",
        "if not isinstance(shape, tuple) or dtype is None:",
        "if True:",
    ),
    Break(
        "8.2",
        "base/dtypes/kinds.py",
        '"bfloat16": "bf16"',
        '"bfloat16": "bfloat16"',
    ),
    Break(
        "2.6",
        "jit/tracing.py",
        "f\"component {keystr(path) or 'the result'}, which is not a valid JAX type\",",
        'f"component, which is not a valid JAX type",',
    ),
    Break(
        "5.1",
        "execution/programs.py",
        "if keep_unused or all(used):",
        "if True:",
    ),
    Break(
        "3.4",
        "jit/signatures/signature.py",
        "by_number = {i: x for i, x in self.statics if isinstance(i, int)}",
        "by_number = {i: repr(x) for i, x in self.statics if isinstance(i, int)}",
    ),
    Break(
        "7.3",
        "control/effects/callback.py",
        'return frozenset({DEBUG_ORDERED if params["ordered"] else DEBUG})',
        "return frozenset()",
    ),
    Break(
        "3.6",
        "jit/signatures/static_values.py",
        "if value is None or kind in _PLAIN:\n        return (kind, value)",
        "if value is None or kind in _PLAIN:\n        return value",
    ),
    Break(
        "8.5",
        "ir/printing/printer.py",
        "return literal(atom.val)",
        'return f"{literal(atom.val)}:{atom.aval.str_short()}"',
    ),
    Break(
        "1.2",
        "api/jit.py",
        "            static_argnames=static_argnames,\n            donate",
        "            donate",
    ),
    Break(
        "13.4",
        "ops/indexing/window_addresses.py",
        "if mode.fills else None",
        "if False else None",
    ),
    Break(
        "11.8",
        "control/branches.py",
        "if value is None or aval_of(value).shape:",
        "if value is None:",
    ),
    Break(
        "1.7",
        "jit/function.py",
        "return self if instance is None else types.MethodType(self, instance)",
        "return self",
    ),
    Break(
        "2.2",
        "base/tree/nodes.py",
        "return collections.defaultdict(factory, zip(keys, children, strict=True))",
        "return dict(zip(keys, children, strict=True))",
    ),
    Break(
        "2.8",
        "numpy/promotion.py",
        "x = from_host(np.array(x, dtypes.canonicalize_dtype(x.dtype)))",
        "x = from_host(np.asarray(x, dtypes.canonicalize_dtype(x.dtype)))",
    ),
    Break(
        "11.9",
        "api/mapping/vmap.py",
        "if len(found) > 1:\n        listed",
        "if False:\n        listed",
    ),
    Break(
        "3.3",
        "jit/signatures/parameters.py",
        "elif argnums is None:",
        "elif False:",
    ),
    Break(
        "12.0",
        "stages.py",
        "from kiln.jit.function import JitFunction as Wrapped\n",
        "class Wrapped: ...\n",
    ),
    Break(
        "8.1",
        "ir/printing/printer.py",
        'text = chr(ord("a") + index % 26) + text',
        'text = text + chr(ord("a") + index % 26)',
    ),
    Break(
        "8.6",
        "numpy/promotion.py",
        "return x, found\n",
        "return full_shapes(name, x, found)\n",
    ),
    Break(
        "9.7",
        "core/arrays/text.py",
        'return ", weak_type=True" if aval.weak_type else ""',
        'return ""',
    ),
    Break(
        "10.4",
        "jit/recorder.py",
        "return entries\n",
        "return entries + 1\n",
    ),
    Break(
        "1.3",
        "api/jit.py",
        "if is_generator_function(fun):",
        "if False:",
    ),
    Break(
        "9.1",
        "base/options/config.py",
        "enable_x64: bool = _option(False, in_key=True)",
        "enable_x64: bool = _option(True, in_key=True)",
    ),
    Break(
        "11.1",
        "base/errors.py",
        "class TracerBoolConversionError(ConcretizationTypeError):",
        "class TracerBoolConversionError(JAXTypeError):",
    ),
    Break(
        "1.5",
        "base/source.py",
        'name = getattr(fun, "__name__", None) or type(fun).__name__',
        "name = fun.__name__",
    ),
    Break(
        "11.6",
        "base/source.py",
        "leave_out(error)\n            raise\n",
        "raise type(error)(*error.args) from None\n",
    ),
    Break(
        "11.10",
        "base/options/config.py",
        "return AttributeError(\n        three_lines(",
        "return KeyError(\n        three_lines(",
    ),
    Break(
        "11.7",
        "numpy/promotion.py",
        'f"{name} got incompatible shapes for broadcasting: {_listed(found)}."',
        'f"incompatible shapes for broadcasting: {_listed(found)}."',
    ),
    Break(
        "10.5",
        "jit/signatures/argument_binding.py",
        "        if not moved:\n            return args, kwargs\n",
        "        if True:\n            return args, kwargs\n",
    ),
    Break(
        "3.8",
        "api/jit.py",
        "    check_overlap(fun, static, donated)\n",
        "",
    ),
    Break(
        "4.2",
        "execution/placement.py",
        "usable = tuple(donation.usable) if donation else ()",
        "usable = ()",
    ),
    Break(
        "4.5",
        "execution/donation.py",
        "        raise JaxRuntimeError(",
        "        return JaxRuntimeError(",
    ),
    Break(
        "4.4",
        "ir/analysis/aliasing.py",
        "                    free.remove(j)\n",
        "",
    ),
    Break(
        "6.6",
        "engines/xla/lowerings/programs/sharding.py",
        "if partition.count == 1 or partition.manual:\n        return x\n    if isinstance",
        "if True:\n        return x\n    if isinstance",
    ),
    Break(
        "6.3",
        "jit/placement_options.py",
        'outs = tuple(_spread(fun, placement.out_shardings, result, "out_shardings", "result"))',
        "outs = ()",
    ),
    Break(
        "15.1",
        "linen/transforms/compilation.py",
        "    rngs: Filter = True,\n",
        "    rngs: Filter = False,\n",
    ),
    Break(
        "15.2",
        "linen/transforms/lifted.py",
        "    @functools.wraps(fun)\n",
        "",
    ),
    Break(
        "15.3",
        "linen/transforms/compilation.py",
        "return fold_in(self.roots[name], self.number(name, path, count))",
        "return self.roots[name]",
    ),
    Break(
        "15.4",
        "linen/transforms/compilation.py",
        "elif i in self.settings.numbers and parameter_name(fun, i) not in kwargs:",
        "elif False:",
    ),
    Break(
        "15.5",
        "linen/transforms/compilation.py",
        "lift.roots(settings.rngs)",
        "lift.roots()",
    ),
    Break(
        "15.6",
        "linen/transforms/compilation.py",
        "reading.module(lift.module),",
        "type(lift.module),",
    ),
    Break(
        "15.7",
        "linen/transforms/compilation.py",
        'lift_target(target, make, "Jit", methods)',
        'lift_target(target, make, "Jit")',
    ),
    Break(
        "15.8",
        "linen/transforms/compilation.py",
        "PlacementOptions(Chosen(tuple(moved)), where)",
        "PlacementOptions(Chosen((0, *moved)), where)",
    ),
    Break(
        "15.9",
        "linen/transforms/lift.py",
        "        for inner in modules_in(value, _stands):\n",
        "        for inner in ():\n",
    ),
    Break(
        "13.5",
        "engines/xla/launches/levels.py",
        "DEEPEST = 16",
        "DEEPEST = 1",
    ),
    Break(
        "13.6",
        "engines/xla/stablehlo/builder.py",
        'kind = "_partitioned" if partitioned and not ordered else ""',
        'kind = ""',
    ),
    Break(
        "13.7",
        "api/debugging/debugger.py",
        "text = form(eval(expression, {**frame.globals, **frame.locals}))",
        "text = form(eval(expression, {**frame.globals}))",
    ),
    Break(
        "16.1",
        "execution/own_folder.py",
        "os.replace(beside, name, src_dir_fd=held, dst_dir_fd=held)",
        "os.unlink(beside, dir_fd=held)",
    ),
    Break(
        "16.2",
        "execution/stored_programs.py",
        "            affecting,\n",
        "",
    ),
    Break(
        "16.3",
        "execution/disk_cache.py",
        "if data[len(_MAGIC) : start] != _checksum(rest):",
        "if not rest:",
    ),
    Break(
        "16.4",
        "execution/own_folder.py",
        '    if about.st_mode & 0o077:\n        return f"others may enter',
        '    if about.st_mode & 0o007:\n        return f"others may enter',
    ),
    Break(
        "16.5",
        "execution/disk_cache.py",
        "            if total <= limit:\n",
        "            if total > 0:\n",
    ),
    Break(
        "16.6",
        "execution/own_folder.py",
        "if not _is_locked(opened, is_old=now - each.used > _OLD_S):",
        "if False:",
    ),
    Break(
        "17.1",
        "api/clusters.py",
        '_int(env, "SLURM_NTASKS")',
        '_int(env, "SLURM_LOCALID")',
    ),
    Break(
        "17.2",
        "api/sharding/process_arrays.py",
        "mine = [sorted({at[i][axis] for i in sharding.addressable_order})",
        "mine = [sorted({at[i][axis] for i in range(len(at))})",
    ),
    Break(
        "17.3",
        "experimental/multihost_utils.py",
        "if tiled and found.ndim > 1 else found",
        "if found.ndim > 1 else found",
    ),
    Break(
        "17.4",
        "core/processes/peers.py",
        'self.report_failure(f"{_named([rank])} ended")',
        "self._gone.add(rank)",
    ),
    Break(
        "17.5",
        "core/processes/peers.py",
        "if len(said) > 1:",
        "if not said:",
    ),
    Break(
        "17.6",
        "tools/launch.py",
        'target.write(f"[{rank}] {text}\\n")',
        'target.write(f"{text}\\n")',
    ),
    Break(
        "18.1",
        "checkpoints/leaves.py",
        'kind = "scalar" if isinstance(leaf, np.generic) else "numpy"',
        'kind = "numpy"',
    ),
    Break(
        "18.2",
        "checkpoints/matching.py",
        "if tuple(shape) != shape_of(entry):",
        "if len(shape) != len(shape_of(entry)):",
    ),
    Break(
        "18.3",
        "checkpoints/plan.py",
        "range(start // size, (stop - 1) // size + 1)",
        "range(start // size, start // size + 1)",
    ),
    Break(
        "18.4",
        "checkpoints/folders.py",
        "            beside.rename(final)\n        except BaseException:\n"
        "            shutil.rmtree(beside, ignore_errors=True)\n",
        "            beside.rename(final)\n        except BaseException:\n"
        "            shutil.rmtree(final, ignore_errors=True)\n",
    ),
    Break(
        "18.5",
        "checkpoints/steps.py",
        "others[: max(0, len(others) + 1 - self.keep)]",
        "others[: max(0, len(others) - self.keep)]",
    ),
    Break(
        "18.6",
        "checkpoints/saving.py",
        "save_file(final, state, metadata=metadata)",
        "save_file(final, state)",
    ),
    Break(
        "19.1",
        "export/exported.py",
        "if tree != self.in_tree:",
        "if len(leaves) != len(self.in_avals):",
    ),
    Break(
        "19.2",
        "export/exported.py",
        "if not least <= version <= most:",
        "if not least < version < most:",
    ),
    Break(
        "19.3",
        "export/exported.py",
        "return tuple([None if _is_nothing(x) else x for x in pulled])",
        "return tuple([None if _is_nothing(x) else 2 * x for x in pulled])",
    ),
    Break(
        "19.4",
        "export/exported.py",
        "in_avals=tuple(map(raw_type, exported.in_avals)),",
        "in_avals=tuple(map(raw_type, exported.in_avals))[::-1],",
    ),
    Break(
        "19.5",
        "export/exported.py",
        "platforms=exported.platforms,\n        any_platform=DisabledSafetyCheck.platform() in "
        "exported.disabled_safety_checks,",
        "platforms=exported.platforms,\n        any_platform=True,",
    ),
    Break(
        "19.6",
        "experimental/serialize_executable.py",
        "return to_bytes(stored_form(compiled)), compiled.in_tree, compiled.out_tree",
        "return to_bytes(stored_form(compiled)), compiled.out_tree, compiled.in_tree",
    ),
]

# Each was made once, and all tests passed. (Staleness is among the breaks of contents.)
UNSEEN = [
    Break(
        "effects-hoisted",
        "control/loops/scan_split.py",
        "if not eqn.effects and all(v.is_literal or v in self.invariant for v in eqn.invars):",
        "if all(v.is_literal or v in self.invariant for v in eqn.invars):",
        ("tests/unit/control/loops/test_scan_split.py",),
    ),
    Break(
        "averages-dtype",
        "linen/normalization/normalization.py",
        "dtype = np.float32 if self.force_float32_reductions else self.param_dtype",
        "dtype = self.param_dtype",
        ("tests/unit/linen/normalization/test_normalization.py",),
    ),
    Break(
        "laplace-bound",
        "random/inversion.py",
        "least = dtype.type(-1 + float(dtypes.finfo(dtype).epsneg))",
        "least = dtype.type(-1)",
        ("tests/unit/random/test_variates.py",),
    ),
    Break(
        "donation-warnings",
        "_runtime/programs/placed.cc",
        "if (!is_twice && placed->has_warned) return true;",
        "if (!is_twice && placed->donated->empty()) return true;",
        ("tests/contract/test_donation.py",),
    ),
    Break(
        "evicted-results",
        "_runtime/programs/program.cc",
        "if (Py_TYPE(run.get()) != &unloaded_type) return run;",
        "return run;",
        ("tests/properties/test_eviction.py",),
    ),
    Break(
        "constant-index-read",
        "numpy/indexing/index_expressions.py",
        "    if not _is_inside(index, size, wrap):\n",
        "    if index >= 0 and not _is_inside(index, size, wrap):\n",
        ("tests/properties/test_index_checks.py",),
    ),
    Break(
        "constant-index-compiled",
        "engines/native/building/checking.py",
        "return not is_negative and at_least(last, start.attr)",
        "return True",
        ("tests/properties/test_index_checks.py",),
    ),
    Break(
        "clipped-on-purpose",
        "numpy/indexing/subscripts.py",
        "return clipped(found, size) if clips else found",
        "return found",
        ("tests/properties/test_index_checks.py",),
    ),
    Break(
        "operands-of-checks",
        "control/effects/functional_checks.py",
        '    if not name.startswith(("dynamic_", "gather", "scatter")):\n        return []\n',
        "",
        ("tests/properties/test_index_checks.py",),
    ),
    Break(
        "rules-uncounted",
        "core/primitive.py",
        "        self.revision = revise()\n",
        "        self.revision = 1\n",
        ("tests/contract/test_content.py", "tests/unit/base/caches/test_revisions.py"),
    ),
    Break(
        "lowerings-in-programs",
        "ir/rewrite.py",
        "            eqn.primitive.revision,\n",
        "",
        ("tests/unit/interpreters/test_mlir.py",),
    ),
    Break(
        "remembered-programs",
        "ir/rewrite.py",
        "if found is None or found[0] != now:",
        "if found is None:",
        ("tests/unit/interpreters/test_mlir.py",),
    ),
    Break(
        "order-of-products",
        "engines/native/lowerings/linear/contraction.py",
        "IN_ORDER if b.is_batch_invariant else 0,",
        "0,",
        ("tests/properties/test_batch_invariance.py",),
    ),
    Break(
        "order-of-sums",
        "engines/native/lowerings/reductions/reduction.py",
        "if b.is_batch_invariant and op in _FOLDED",
        "if False and op in _FOLDED",
        ("tests/properties/test_batch_invariance.py",),
    ),
    Break(
        "holes-read-as-elements",
        "engines/native/lowerings/linear/depthwise.py",
        "(k for k in range(skip) if (start + k * dilation) % holes == 0)",
        "(k for k in range(skip))",
        (
            "tests/unit/engines/native/lowerings/linear/test_depthwise.py::"
            "test_readings_of_an_axis_with_holes",
        ),
    ),
    Break(
        "windows-that-begin-at-the-operand",
        "engines/native/lowerings/linear/depthwise.py",
        "place * p.stride + tap * p.dilation + (-p.low - start)",
        "place * p.stride + tap * p.dilation + (-p.low - min(start, 0))",
        (
            "tests/unit/engines/native/lowerings/linear/test_depthwise.py::"
            "test_random_convolutions_and_their_derivatives[float32]",
        ),
    ),
    Break(
        "elsewhere-unrefused",
        "execution/engine_choice.py",
        "if program.is_batch_invariant and choice.name != HOST_COMPILER:",
        "if program.is_batch_invariant and not choice.name:",
        ("tests/properties/test_batch_invariance.py",),
    ),
    Break(
        "sizes-compared",
        "ir/sizes/size.py",
        "    if by_user and not _cannot_be_zero(difference):\n",
        "    if False and not _cannot_be_zero(difference):\n",
        ("tests/contract/test_dynamic_sizes.py",),
    ),
    Break(
        "sizes-of-later-calls",
        "jit/function.py",
        "    if not recording.conditions:\n        return program.for_other_sizes\n",
        "    if recording.sizes:\n        return program.for_other_sizes\n",
        ("tests/contract/test_dynamic_sizes.py",),
    ),
    Break(
        "sizes-compiled-ahead",
        "jit/stages/compiled_sizes.py",
        "if not recording.holds_for(sizes):",
        "if not recording:",
        ("tests/contract/test_dynamic_sizes.py",),
    ),
    Break(
        "checksums-of-programs",
        "base/files/checksums.py",
        "if _digest(data) != found:",
        "if len(found) != _DIGEST:",
        ("tests/properties/test_damaged_programs.py", "tests/unit/base/files/test_checksums.py"),
    ),
    Break(
        "checksums-cut-off",
        "export/container.py",
        "has_identifier(stored, _WITH_CHECKSUM) or is_marked(stored)",
        "is_marked(stored)",
        ("tests/properties/test_damaged_programs.py", "tests/unit/export/test_exported.py"),
    ),
    Break(
        "artifacts-unread",
        "export/exported.py",
        "    if not is_checked:\n",
        "    if not contents.module:\n",
        ("tests/unit/export/test_exported.py",),
    ),
    Break(
        "replayed-messages-accepted",
        "core/processes/handshake.py",
        "message = json.dumps([kind, nonce_of_0, nonce_of_other, rank, count]).encode()",
        "message = json.dumps([kind, rank, count]).encode()",
        (
            "tests/unit/core/processes/test_handshake.py",
            "tests/unit/core/processes/test_unauthenticated.py",
        ),
    ),
    Break(
        "silent-connections-kept",
        "core/processes/lifelines.py",
        "if now - s.since > LONGEST_S",
        "if now < s.since",
        ("tests/unit/core/processes/test_unauthenticated.py",),
    ),
    Break(
        "silent-processes-awaited",
        "core/processes/peers.py",
        "            if time.monotonic() > end:\n                missing = (\n",
        "            if time.monotonic() < 0:\n                missing = (\n",
        ("tests/unit/core/processes/test_unauthenticated.py",),
    ),
    Break(
        "entries-of-others",
        "execution/own_folder.py",
        '    if about.st_uid != os.geteuid():\n        return f"it {_belongs(about)}"\n'
        '    if about.st_mode & 0o077:\n        return f"others may open it',
        '    if about.st_mode & 0o077:\n        return f"others may open it',
        ("tests/contract/test_security.py",),
    ),
    Break(
        "folders-on-the-way",
        "execution/own_folder.py",
        "            _require_closed(at)\n",
        "",
        ("tests/unit/execution/test_own_folder.py", "tests/contract/test_security.py"),
    ),
    Break(
        "room-for-the-next",
        "checkpoints/saving.py",
        "        _remove_unused(folder)\n        try:\n",
        "        try:\n",
        ("tests/properties/test_full_disk.py", "tests/contract/test_security.py"),
    ),
    Break(
        "names-in-the-folder",
        "checkpoints/first_version.py",
        "require(bool(FILE.fullmatch(name)), ",
        "require(bool(FILE.search(name)) or True, ",
        ("tests/unit/checkpoints/test_first_version.py",),
    ),
    Break(
        "blocks-that-tile",
        "checkpoints/first_version.py",
        "    return count == len(blocks) == len(",
        "    return True or count == len(blocks) == len(",
        ("tests/unit/checkpoints/test_first_version.py",),
    ),
    Break(
        "remainders-by-zero",
        "control/effects/functional_checks.py",
        'return name in ("div", "rem") or',
        'return name == "div" or',
        ("tests/properties/test_nan_checks.py",),
    ),
    Break(
        "nans-of-transforms",
        "control/effects/functional_checks.py",
        '"reshard", "round"',
        '"reshard", "round", "fft"',
        ("tests/rules/test_finite.py",),
    ),
    Break(
        "nans-of-complex-numbers",
        "engines/native/building/checking.py",
        "or buffer.role is Role.CONST:",
        'or buffer.role is Role.CONST or x.dtype.kind == "c":',
        ("tests/properties/test_nan_checks.py",),
    ),
    Break(
        "nans-that-a-selection-hides",
        "engines/native/passes/watching.py",
        '("add", "sub", "mul", "div",',
        '("select", "add", "sub", "mul", "div",',
        ("tests/properties/test_nan_checks.py",),
    ),
    Break(
        "left-out-on-purpose",
        "engines/native/lowerings/arrays/indexing.py",
        "if mode is not LEAVE_OUT:",
        "if mode is not None:",
        ("tests/properties/test_index_checks.py",),
    ),
    Break(
        "checked-references",
        "control/references/discharge.py",
        "        replace_content(ref, new)\n    return list(",
        "        content_of(ref)\n    return list(",
        ("tests/unit/control/effects/test_functional_checks.py",),
    ),
    Break(
        "narrowed-in-silence",
        "base/dtypes/__init__.py",
        "any(wanted is python for python in (bool, int, float, complex))",
        "wanted in (bool, int, float, complex)",
        ("tests/contract/test_narrowed_dtypes.py",),
    ),
    Break(
        "padding-wins",
        "ops/reductions/window.py",
        "wins = inside[(..., *place)] & ~(won & keeps(best, element))",
        "wins = ~(won & keeps(best, element))",
        ("tests/unit/ops/reductions/test_window.py",),
    ),
    Break(
        "start-wins",
        "engines/xla/lowerings/reductions/window.py",
        'b.apply("or", b.apply("and", keep, found), b.apply("not", inside))',
        'b.apply("or", keep, b.apply("not", inside))',
        ("tests/unit/ops/reductions/test_window.py",),
    ),
    Break(
        "devices-of-constants",
        "execution/placement.py",
        "if not constraints and len({c.sharding.device_set for c in given}) == 1:",
        "if not constraints:",
        ("tests/contract/test_users_expectations.py",),
    ),
    Break(
        "exits-unwound",
        "_runtime/waiting/ending.cc",
        "  if (is_left_behind()) stay();\n  pthread_exit(value);\n",
        "  pthread_exit(value);\n",
        ("tests/contract/test_dying.py::test_it_ends_within_callbacks",),
    ),
    Break(
        "contexts-left-late",
        "_runtime/state/contexts.cc",
        "  if (own == nullptr) return true;\n",
        "  if (own == nullptr || own->outer != nullptr) return true;\n",
        (
            "tests/contract/test_interrupted_contexts.py",
            "tests/unit/_runtime/state/test_contexts.py",
        ),
    ),
    Break(
        "dicts-of-two-moments",
        "_runtime/trees/nodes.cc",
        "bool is_copy = !has_plain_keys(dict);",
        "bool is_copy = has_plain_keys(dict) && false;",
        ("tests/unit/_runtime/trees/test_tree.py",),
    ),
    Break(
        "sizes-beyond-their-type",
        "ops/size_value.py",
        "    if type(size) is Size:\n        limits",
        "    if size is None:\n        limits",
        ("tests/contract/test_size_uses.py",),
    ),
    Break(
        "sizes-that-become-empty",
        "numpy/reductions/reductions.py",
        "empty = [d for d in axes if is_surely(a.shape[d], 0)]",
        "empty = [d for d in axes if type(a.shape[d]) is int and a.shape[d] == 0]",
        ("tests/contract/test_size_uses.py",),
    ),
    Break(
        "sizes-for-which-it-raised",
        "jit/sized.py",
        "                    if not wrong:\n                        raise\n",
        "                    if not wrong or called:\n                        raise\n",
        ("tests/contract/test_size_uses.py",),
    ),
    Break(
        "sizes-beside-floats",
        "ir/sizes/numbers.py",
        "return found if found == value else None",
        "return found if found is value else None",
        ("tests/contract/test_size_uses.py",),
    ),
    Break(
        "sizes-divided-by",
        "ir/sizes/size.py",
        "        if not _note_difference(b) and is_collecting():\n",
        "        if _note_difference(b) and is_collecting():\n",
        ("tests/contract/test_size_uses.py",),
    ),
    Break(
        "sizes-with-one-form",
        "ir/sizes/size.py",
        "return Size(tuple(kept)) if moved is None else moved",
        "return Size(tuple(kept))",
        ("tests/unit/ir/sizes/test_size.py",),
    ),
    Break(
        "quotients-squared",
        "ops/elements/elementwise.py",
        "lambda t, o, x, y: mul(neg(t), div(o, y)),",
        "lambda t, o, x, y: mul(mul(neg(t), x), div(constant(1, y), mul(y, y))),",
        ("tests/derivatives/test_extremes.py",),
    ),
    Break(
        "full-nests-computed-again",
        "engines/native/passes/fusion.py",
        "if isinstance(cluster, Cluster) and len(cluster.nodes) + size > MOST_NODES:",
        "if isinstance(cluster, Cluster) and size > MOST_NODES:",
        ("tests/properties/test_compile_work.py",),
    ),
    Break(
        "deep-functions-read-whole",
        "content/fingerprint.py",
        "limit = LIMITS_WITHIN[depth]",
        "limit = LIMIT",
        ("tests/properties/test_compile_work.py",),
    ),
    Break(
        "searches-step-by-step",
        "numpy/search.py",
        '@functools.partial(jit, static_argnames=("side", "with_all"), inline=True)\n',
        "",
        ("tests/unit/numpy/test_search.py",),
    ),
    Break(
        "distinct-nothing-padded",
        "numpy/sets/distinct.py",
        "total = count if size is None or fill_value is None else size",
        "total = count if size is None else size",
        ("tests/contract/test_users_expectations.py",),
    ),
    Break(
        "closed-over-arrays-apart",
        "jit/running.py",
        "consts = entry.consts if is_recorded else together(entry.consts)",
        "consts = entry.consts",
        ("tests/contract/test_users_expectations.py",),
    ),
    Break(
        "deep-nests-optimized-by-llvm",
        "engines/native/llvm/generation.py",
        "return LEAST_EFFORT",
        "return USUAL_EFFORT",
        ("tests/unit/engines/native/llvm/test_generation.py",),
    ),
    Break(
        "depth-counts-loops-in-turn",
        "engines/native/llvm/generation.py",
        "waiting += [(block, depth + is_loop) for block in each.blocks]",
        "waiting += [(block, (depth := depth + is_loop)) for block in each.blocks]",
        ("tests/unit/engines/native/llvm/test_generation.py",),
    ),
    Break(
        "segments-of-nests-not-joined",
        "engines/native/passes/liveness.py",
        "if len(segments) > 1 and is_covered(segments, size):",
        "if len(segments) > 99 and is_covered(segments, size):",
        ("tests/unit/engines/native/passes/test_passes.py",),
    ),
    Break(
        "checked-examples-mixed",
        "transforms/batching.py",
        "return self.is_checked and (",
        "return not self.is_checked and (",
        ("tests/properties/test_checked_examples.py",),
    ),
    Break(
        "checked-examples-of-jit",
        "jit/lookup.py",
        "with override(checks_operations=True):",
        "with override(checks_operations=False):",
        ("tests/properties/test_checked_examples.py",),
    ),
    Break(
        "checked-branch-nobody-takes",
        "control/cond.py",
        "    index = convert_element_type(reduce_or(mine, (0,)), np.int32)\n",
        "    index = np.int32(1)\n",
        ("tests/properties/test_checked_examples.py",),
    ),
    Break(
        "write-reads-what-was-there",
        "control/references/discharge.py",
        "elif primitive is swap_p and eqn.outvars[0] not in used:",
        "elif primitive is swap_p and not used:",
        ("tests/unit/control/references/test_discharge.py",),
    ),
    Break(
        "plans-of-enumerations",
        "_runtime/eager/eager.cc",
        " || Py_TYPE(type) == enumerations) {",
        ") {",
        ("tests/unit/_runtime/eager/test_eager.py",),
    ),
    Break(
        "arctan2-in-one-direction",
        "ops/elements/elementwise.py",
        "mul(neg(t), _share_of_square(x, y))",
        "mul(t, _share_of_square(x, y))",
        ("tests/derivatives/test_extremes.py",),
    ),
    Break(
        "arsinh-squared",
        "ops/elements/inverse_functions.py",
        "is_long = ge(abs(x), one)",
        "is_long = ge(one, abs(x))",
        ("tests/derivatives/test_extremes.py",),
    ),
    Break(
        "bessel-functions-subtracted",
        "ops/elements/special.py",
        "select(is_far, sub(far, div(out, select(is_far, x, full_like(x, 8)))), near)",
        "near",
        ("tests/derivatives/test_extremes.py",),
    ),
    Break(
        "bessel-function-times-its-slope",
        "numpy/elements/elementary.py",
        "special.bessel_i1e(x))",
        "special.bessel_i0e(x))",
        ("tests/derivatives/test_extremes.py",),
    ),
    Break(
        "log-gammas-moved-as-gammas",
        "random/gamma.py",
        "mul(tangents[1], div(random_gamma_grad(alpha, variate), variate))",
        "mul(tangents[1], random_gamma_grad(alpha, variate))",
        ("tests/derivatives/test_rows.py::test_samples_move_with_their_quantiles",),
    ),
    Break(
        "cholesky-of-the-whole-diagonal",
        "ops/linear/linalg.py",
        "mul(inside, constant(0.5, x)), inside)",
        "inside, inside)",
        ("tests/derivatives/test_rows.py",),
    ),
    Break(
        "betaln-by-one-alone",
        "scipy/special/gamma_functions.py",
        "(ops.digamma(b) - both)\n    return _betaln",
        "ops.digamma(b)\n    return _betaln",
        ("tests/derivatives/test_rows.py",),
    ),
    Break(
        "loops-without-iterations-end-lives",
        "engines/native/passes/liveness.py",
        "runs = is_positive(statement.axis.size)",
        "runs = True",
        ("tests/unit/engines/native/executables/test_sized.py",),
    ),
    Break(
        "checks-hoisted-out-of-loops-without-iterations",
        "engines/native/passes/invariants.py",
        "runs = is_positive(statement.axis.size)",
        "runs = True",
        ("tests/unit/engines/native/executables/test_sized_checks.py",),
    ),
    Break(
        "files-unlocked-before-they-have-their-name",
        "base/files/writing.py",
        "open(os.dup(opened), ",
        "open(opened, ",
        ("tests/unit/base/files/test_writing.py",),
    ),
    Break(
        "interceptors-of-where-they-were-made",
        "linen/scopes/context.py",
        "lambda outer: ((*outer, interceptor), None)",
        "lambda outer: ((interceptor,), None)",
        ("tests/unit/linen/scopes/test_context.py",),
    ),
    Break(
        "each-nan-of-a-set",
        "numpy/sets/combinations.py",
        "unique_rows(name, reshape(x, (n, 1)), True, n)",
        "unique_rows(name, reshape(x, (n, 1)), False, n)",
        ("tests/unit/numpy/test_sets.py",),
    ),
    Break(
        "fft-on-the-host",
        "ops/linear/fft.py",
        "    on_host = False\n",
        "    on_host = True\n",
        ("tests/unit/ops/linear/test_fft.py",),
    ),
    Break(
        "guards-of-remembered-calls",
        "base/options/config.py",
        "plain = self.default_device is None and not guards and not guarded",
        "plain = self.default_device is None and not guarded",
        ("tests/unit/core/arrays/test_transfers.py",),
    ),
    Break(
        "declarations-of-arrays-unread",
        "core/arrays/transfers.py",
        'names = tuple([n for n in declared if n != "return"]) or None',
        "names = None",
        ("tests/differential/test_transfers.py",),
    ),
    Break(
        "moves-by-programs-unguarded",
        "execution/placement.py",
        "moved(x, sharding, by_program=True)",
        "pass",
        ("tests/differential/test_transfers.py",),
    ),
    Break(
        "explicit-transfers-by-the-way",
        "core/arrays/transfers.py",
        '(is_explicit and not level.endswith("_explicit"))',
        "is_explicit",
        ("tests/unit/core/arrays/test_transfers.py",),
    ),
    Break(
        "one-transfer-logged-at-each-step",
        "core/arrays/transfers.py",
        "        frame.f_trace_lines = False\n",
        "        pass\n",
        ("tests/unit/core/arrays/test_transfers.py",),
    ),
    Break(
        "raw-keys-pass",
        "random/keys.py",
        'if level == "allow":',
        'if level != "warn":',
        ("tests/unit/api/contexts/test_guards.py",),
    ),
    Break(
        "changing-values-forgotten-after-a-call",
        "jit/high.py",
        "        store(changing, states)\n",
        "",
        ("tests/unit/jit/test_high.py",),
    ),
    Break(
        "out-sharding-over-axes-of-the-compiler",
        "ops/out_sharding.py",
        "            if kinds[axis] is not AxisType.Explicit:",
        "            if kinds[axis] is None:",
        ("tests/unit/ops/test_out_sharding.py::test_what_is_refused",),
    ),
]
