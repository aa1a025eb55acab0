"""Breaks made by hand in all folders, which no test saw when they were made first.

They are made together with those of `breaks.UNSEEN`, and logged with them.
"""

from __future__ import annotations

from tests.mutation.breaks import Break

_UNIT = "tests/unit"
_CACHES = f"{_UNIT}/jit/signatures/test_signature.py", f"{_UNIT}/jit/test_cache.py"
_CALLBACKS = (
    f"{_UNIT}/control/effects/test_callback.py::test_ordered_calls_wait_for_those_of_running_programs",
)
_SCOPES = (f"{_UNIT}/linen/scopes/test_scope.py",)
_CRASHES = (f"{_UNIT}/checkpoints/test_crashes.py",)
_NATIVE = "engines/native"
_NARROW = f"{_UNIT}/_runtime/linear/test_narrow_products.py"
_PASSES = f"{_UNIT}/{_NATIVE}/passes/test"
_SEQUENTIAL = f"{_UNIT}/{_NATIVE}/passes/sequential/test"
_WINDOWS = f"{_UNIT}/{_NATIVE}/lowerings/reductions/test_window"

BY_HAND = [
    Break(
        "thin-products-in-another-order",
        "_runtime/linear/products/narrow.cc",
        "const bool has_order = !p.in_order || scheme.step == 1;",
        "const bool has_order = true;",
        (f"{_NARROW}::test_an_element_has_the_same_bits_in_every_product",),
    ),
    Break(
        "sums-of-unshifted-rows",
        "_runtime/linear/products/bytes_vnni.cc",
        "for (const uint32_t sum : each) of_row += 128 * sum;",
        "for (const uint32_t sum : each) of_row += 127 * sum;",
        (f"{_NARROW}::test_every_pair_of_dtypes",),
    ),
    Break(
        "scales-along-contracted-axes",
        "quantize.py",
        "rhs.scale is not None and rhs.scale.shape[axis] != 1 for axis in contracted",
        "rhs.scale is not None and rhs.scale.shape[axis] == 0 for axis in contracted",
        (f"{_UNIT}/test_quantize.py::test_a_scale_along_a_contracted_axis_is_applied_first",),
    ),
    Break(
        "channels-of-attention",
        "quantize.py",
        'path[-2:-1] == ("out",) else (0,)',
        'path[-2:-1] == ("out",) else (0, 1)',
        (f"{_UNIT}/test_quantize.py::test_error_of_int8",),
    ),
    Break(
        "axes-of-calls",
        "jit/signatures/signature.py",
        "avals = self.check()\n        return Signature(self.tree, avals, self.key, options, axes)",
        "avals = self.check()\n        return Signature(self.tree, avals, self.key, options, ())",
        _CACHES,
    ),
    Break(
        "axes-of-types",
        "jit/signatures/signature.py",
        "strict=True)])\n        return Signature(self.tree, avals, self.key, options, axes)",
        "strict=True)])\n        return Signature(self.tree, avals, self.key, options, ())",
        _CACHES,
    ),
    Break(
        "axes-of-contents",
        "jit/signatures/signature.py",
        "return (tree, avals, options, axes, self.options)",
        "return (tree, avals, options, self.options)",
        _CACHES,
    ),
    Break(
        "user-code-shared",
        "jit/cache.py",
        " or holds_user_code(recording.jaxpr)",
        "",
        _CACHES,
    ),
    Break(
        "powers-whose-exponent-is-nothing",
        "ops/elements/elementwise.py",
        "less = select(bitwise_and(eq(y, constant(0, y)), unbounded), y, less)",
        "pass",
        ("tests/derivatives/test_extremes.py::test_edges[pow, its exponent 0, at 0]",),
    ),
    Break(
        "remainders-rounded-down",
        "ops/elements/elementwise.py",
        "mul(sign(div(x, y)), floor(abs(div(x, y))))",
        "floor(div(x, y))",
        (
            f"{_UNIT}/ops/elements/test_elementwise.py::test_remainders_fall_by_the_quotient_rounded_to_zero",
        ),
    ),
    Break(
        "effects-computed-again",
        "control/checkpoint.py",
        "    if must_keep(eqn.effects):\n        return True\n",
        "",
        (f"{_UNIT}/control/test_checkpoint.py",),
    ),
    Break(
        "residuals-that-move",
        "control/custom_rules/vjp.py",
        "if not all(map(is_zero, tangents[:num_res])):",
        "if False:",
        (
            f"{_UNIT}/control/custom_rules/test_vjp.py"
            "::test_forward_mode_is_an_error_where_only_its_derivative_is_asked",
        ),
    ),
    Break(
        "ordered-calls-that-do-not-wait",
        "control/effects/callback.py",
        'if params.get("ordered"):\n            engine.barrier()',
        'if params.get("ordered"):\n            pass',
        _CALLBACKS,
    ),
    Break(
        "ordered-prints-that-do-not-wait",
        "control/effects/callback.py",
        "        if ordered:\n            engine.barrier()",
        "        if ordered:\n            pass",
        _CALLBACKS,
    ),
    Break(
        "last-failure-kept",
        "engines/xla/stablehlo/callbacks.py",
        "run.failure = run.failure or failure",
        "run.failure = failure",
        (f"{_UNIT}/engines/xla/stablehlo/test_callbacks.py",),
    ),
    Break(
        "clock-that-stood-still",
        "core/processes/peers.py",
        "self._heard = dict.fromkeys(self._heard, now)",
        "pass",
        (f"{_UNIT}/core/processes/test_peers.py::test_after_standing_still_a_process_waits_again",),
    ),
    Break(
        "boxes-that-are-asked-for",
        "linen/scopes/scope.py",
        "unboxed(value) if self.unbox and not",
        "unboxed(value) if not",
        _SCOPES,
    ),
    Break(
        "boxes-in-boxes",
        "linen/scopes/scope.py",
        "if _holds_boxes(before) and not _holds_boxes(value):",
        "if _holds_boxes(before):",
        _SCOPES,
    ),
    Break(
        "boxes-of-given-parameters",
        "linen/scopes/scope.py",
        "            if unbox and not is_array:\n                value = unboxed(value)\n",
        "",
        _SCOPES,
    ),
    Break(
        "names-not-synced",
        "checkpoints/saving.py",
        "        sync_folder(folder)\n",
        "",
        _CRASHES,
    ),
    Break(
        "data-not-synced",
        "checkpoints/blocks.py",
        "        os.fsync(file.fileno())\n",
        "",
        _CRASHES,
    ),
    Break(
        "folders-around-not-synced",
        "checkpoints/folders.py",
        "for folder in (final, *missing):",
        "for folder in (final,):",
        _CRASHES,
    ),
    Break(
        "ordered-updates-computed-apart",
        f"{_NATIVE}/passes/carries.py",
        "    if nest.ordered and not set(reads(nest)).isdisjoint(writes(nest)):\n"
        "        return False\n",
        "",
        (f"{_PASSES}_carries.py",),
    ),
    Break(
        "donated-under-what-was-written",
        f"{_NATIVE}/passes/donation.py",
        "                if begun:\n                    return False\n",
        "",
        (f"{_PASSES}_donation.py",),
    ),
    Break(
        "read-in-the-next-turn",
        f"{_NATIVE}/passes/liveness.py",
        "self._note(statement.body, live | top)",
        "self._note(statement.body, live)",
        (f"{_PASSES}_liveness.py",),
    ),
    Break(
        "read-after-the-next-condition",
        f"{_NATIVE}/passes/liveness.py",
        "                    after |= iteration.before(condition.before(after))\n",
        "",
        (f"{_PASSES}_liveness.py",),
    ),
    Break(
        "spans-that-touch",
        f"{_NATIVE}/passes/workspace.py",
        "(placed[0, :i] <= last) & (placed[1, :i] >= first)",
        "(placed[0, :i] < last) & (placed[1, :i] > first)",
        (f"{_PASSES}_workspace.py",),
    ),
    Break(
        "spans-of-named-sizes-that-touch",
        f"{_NATIVE}/passes/workspace.py",
        "span[1] < first or last < span[0]",
        "span[1] <= first or last <= span[0]",
        (f"{_PASSES}_workspace.py",),
    ),
    Break(
        "positions-along-joined-axes",
        f"{_NATIVE}/passes/collapse.py",
        "            and axis not in along\n",
        "",
        (f"{_PASSES}_collapse.py",),
    ),
    Break(
        "positions-along-axes-joined-before",
        f"{_NATIVE}/passes/collapse.py",
        "            and last not in along\n",
        "",
        (f"{_PASSES}_collapse.py",),
    ),
    Break(
        "positions-written-out",
        f"{_NATIVE}/passes/unrolled.py",
        " and effect.along is None",
        "",
        (f"{_PASSES}_unrolled.py",),
    ),
    Break(
        "values-of-blocks-known-after-them",
        f"{_NATIVE}/passes/numbering.py",
        "for whole, before in reversed(undone):",
        "for whole, before in undone[:0]:",
        (f"{_PASSES}_numbering.py",),
    ),
    Break(
        "values-that-a-later-iteration-changes",
        f"{_NATIVE}/passes/numbering.py",
        "self._loop_ends[depth] if len(self._loop_ends) > depth else now",
        "now",
        (f"{_PASSES}_numbering.py",),
    ),
    Break(
        "values-kept-without-bounds",
        f"{_NATIVE}/passes/numbering.py",
        "            if longer > self._most_kept:\n                return False\n",
        "",
        (f"{_PASSES}_numbering.py",),
    ),
    Break(
        "cheap-values-shared",
        f"{_NATIVE}/passes/numbering.py",
        "statement = _redirected(given, self._dear)",
        "pass",
        (f"{_PASSES}_numbering.py",),
    ),
    Break(
        "checkpoints-merged",
        f"{_NATIVE}/passes/numbering.py",
        "region = recomputed.get(statement, 0)",
        "region = 0",
        (f"{_PASSES}_numbering.py",),
    ),
    Break(
        "side-effects-merged",
        f"{_NATIVE}/passes/numbering.py",
        "case Kernel() if statement.symbol not in EFFECTS:",
        "case Kernel():",
        (f"{_PASSES}_numbering.py",),
    ),
    Break(
        "parts-read-before-all-are-written",
        f"{_NATIVE}/passes/invariants.py",
        "if len(parts) == writers[b] and _is_unread(b, body, parts):",
        "if len(parts) == writers[b]:",
        (f"{_PASSES}_hoisting.py",),
    ),
    Break(
        "kernels-before-loops-that-may-not-run",
        f"{_NATIVE}/passes/invariants.py",
        "found += _once(statement, taken, writers, scope) if _is_costly(taken) else taken",
        "found += taken",
        (f"{_PASSES}_hoisting.py",),
    ),
    Break(
        "offsets-computed-from-an-axis",
        f"{_NATIVE}/passes/invariants.py",
        'if x.op in ("load", "index"):',
        'if x.op == "load":',
        (f"{_PASSES}_hoisting.py",),
    ),
    Break(
        "sunk-after-what-they-read-changes",
        f"{_NATIVE}/passes/dead.py",
        "                or not all(read.isdisjoint(everything(each)[1]) for each in between)\n",
        "",
        (f"{_PASSES}_dead.py",),
    ),
    Break(
        "sunk-though-others-read-them",
        f"{_NATIVE}/passes/dead.py",
        "(arm,) = found if len(found) == 1 else (None,)",
        "arm = next(iter(found - {None}), None)",
        (f"{_PASSES}_dead.py",),
    ),
    Break(
        "kernels-dropped-with-one-dead-result",
        f"{_NATIVE}/passes/dead.py",
        "elif is_pure(statement) and needed.isdisjoint(writes(statement)):",
        "elif is_pure(statement) and not needed.issuperset(writes(statement)):",
        (f"{_PASSES}_dead.py",),
    ),
    Break(
        "stored-elsewhere-and-read",
        f"{_NATIVE}/passes/sequential/straight_line.py",
        "            if frozenset(at.terms) != self.terms[buffer]:\n                return None\n",
        "",
        (f"{_SEQUENTIAL}_straight_line.py",),
    ),
    Break(
        "masks-of-straight-stores",
        f"{_NATIVE}/passes/sequential/straight_line.py",
        "            if effect.mask is not None:\n                return False\n",
        "            pass\n",
        (f"{_SEQUENTIAL}_straight_line.py",),
    ),
    Break(
        "straight-after-the-old-value",
        f"{_NATIVE}/passes/sequential/straight_line.py",
        "            if value is not None:\n                return value\n",
        "",
        (f"{_SEQUENTIAL}_straight_line.py",),
    ),
    Break(
        "blocks-that-read-neighbors",
        f"{_NATIVE}/passes/sequential/interchange.py",
        "                if own is None or own[0] != self.parts[buffer]:\n"
        "                    return False\n",
        "                if own is None:\n                    continue\n",
        (f"{_SEQUENTIAL}_interchange.py",),
    ),
    Break(
        "blocks-that-stop-early",
        f"{_NATIVE}/passes/sequential/interchange.py",
        " or value.operands[0] is not goes_on:\n",
        ":\n",
        (f"{_SEQUENTIAL}_interchange.py",),
    ),
    Break(
        "blocks-of-loops-that-do-not-run",
        f"{_NATIVE}/passes/sequential/interchange.py",
        "if e[0] in plan.defined}",
        "if e in plan.carried}",
        (f"{_SEQUENTIAL}_interchange.py",),
    ),
    Break(
        "blocks-without-remainder",
        f"{_NATIVE}/passes/sequential/interchange.py",
        "        if rest:\n",
        "        if rest > 8:\n",
        (f"{_SEQUENTIAL}_interchange.py",),
    ),
    Break(
        "roots-of-less-than-nothing",
        f"{_NATIVE}/elementary/power.py",
        "size = abs(x) if half else x",
        "size = x",
        (f"{_UNIT}/{_NATIVE}/lowerings/elements/test_powers.py",),
    ),
    Break(
        "inverses-of-subnormal-numbers",
        f"{_NATIVE}/elementary/power.py",
        "    if halves == -1:\n",
        "    if False:\n",
        (f"{_UNIT}/{_NATIVE}/lowerings/elements/test_powers.py",),
    ),
    Break(
        "long-code-is-llvms-as-soon",
        f"{_NATIVE}/llvm/generation.py",
        "WORTH_LLVM * max(1.0, lines / LINES)",
        "WORTH_LLVM",
        (f"{_UNIT}/{_NATIVE}/llvm/test_generation.py::test_long_code_is_llvms_after_more_calls",),
    ),
    Break(
        "narrow-products",
        f"{_NATIVE}/lowerings/reductions/reduction.py",
        'op in ("add", "mul") else kind',
        'op == "add" else kind',
        (f"{_UNIT}/{_NATIVE}/lowerings/reductions/test_reduction.py",),
    ),
    Break(
        "loops-without-iterations",
        f"{_NATIVE}/llvm/functions.py",
        "            if is_positive(loop.axis.size):\n                self.iterations",
        "            if True:\n                self.iterations",
        (
            f"{_UNIT}/{_NATIVE}/executables/test_sized.py"
            "::test_loops_over_what_may_be_empty_though_no_axis_is",
        ),
    ),
    Break(
        "windows-that-sum-from-an-element",
        f"{_NATIVE}/lowerings/reductions/window.py",
        'is_sum = self.op == "add" and is_float(self.wide)',
        "is_sum = False",
        (f"{_WINDOWS}.py::test_sums_are_never_minus_zero",),
    ),
    Break(
        "windows-beyond-the-end",
        f"{_NATIVE}/lowerings/reductions/window_boxes.py",
        "end = min(max(begin, -((place - size) // step)), total)",
        "end = total",
        (f"{_WINDOWS}_boxes.py",),
    ),
    Break(
        "winners-counted-from-the-end",
        f"{_NATIVE}/lowerings/reductions/window_winners.py",
        "[n - k for n, k in zip(last, at, strict=True)]",
        "at",
        (f"{_WINDOWS}_winners.py::test_winners",),
    ),
    Break(
        "columns-from-the-end",
        f"{_NATIVE}/lowerings/reductions/cumulative.py",
        "offset, along = offset + (sizes[1] - 1) * along, -along",
        "offset, along = offset, along",
        (f"{_UNIT}/{_NATIVE}/lowerings/reductions/test_cumulative.py::test_columns",),
    ),
]
