"""Five breaks in each room, chosen by hand: mistakes that give other numbers, or old ones.

A room is a folder of `src/kiln`; `numpy` stands for `lax`, `scipy` and `random`, too. Those that no
test saw at first have a test of their own now.
"""

from __future__ import annotations

from tests.mutation.breaks import Break

BY_ROOM: dict[str, list[Break]] = {
    "base": [
        Break(
            "f16-sums-not-in-the-key",
            "base/options/config.py",
            "allow_f16_reductions: bool = _option(True, in_key=True)",
            "allow_f16_reductions: bool = _option(True)",
            ("tests/unit/base/options/test_config.py::test_which_options_are_in_no_key",),
        ),
        Break(
            "wide-unsigned-to-narrow-floats",
            "base/dtypes/__init__.py",
            '_WIDE = (SUPPORTED["int64"], SUPPORTED["uint64"])',
            '_WIDE = (SUPPORTED["int64"],)',
            (
                "tests/unit/base/dtypes/test_dtypes.py::test_conversions_by_kind_as_jax[to_inexact_dtype]",
            ),
        ),
        Break(
            "wrapped-at-the-largest",
            "base/dtypes/__init__.py",
            "if value > high else value)",
            "if value >= high else value)",
            ("tests/unit/base/dtypes/test_dtypes.py::test_wrapping",),
        ),
        Break(
            "strict-weak-widths",
            "base/dtypes/promotion.py",
            "widths = all_weak and not strict and not all_widths",
            "widths = all_weak and not all_widths",
            ("tests/unit/base/dtypes/test_promotion.py::test_every_pair_as_jax[strict-False]",),
        ),
        Break(
            "registered-while-cached",
            "base/tree/nodes.py",
            "    _runtime.forget_leaf_types()\n    revise()\n",
            "    _runtime.forget_leaf_types()\n",
            (
                "tests/unit/base/caches/test_revisions.py::test_everything_that_is_replaced_moves_it",
            ),
        ),
    ],
    "ir": [
        Break(
            "signed-zeros-alike",
            "ir/rewrite.py",
            '    if isinstance(value, float):\n        return ("float", value.hex())\n',
            "",
            ("tests/unit/ir/test_rewrite.py::test_zeros_have_signs_and_nan_equals_itself",),
        ),
        Break(
            "literals-of-other-types",
            "ir/rewrite.py",
            'return ("literal", np.asarray(x.val, x.aval.dtype).tobytes(), kind(x.aval))',
            'return ("literal", np.asarray(x.val, x.aval.dtype).tobytes())',
            ("tests/unit/ir/test_rewrite.py::test_literals_of_the_same_bytes_differ_by_type",),
        ),
        Break(
            "shapes-not-stored",
            "ir/analysis/digest.py",
            '{x.dtype} {x.dtype.str} {x.shape} "',
            '{x.dtype} {x.dtype.str} "',
            ("tests/unit/ir/analysis/test_digest.py::test_values_that_differ[a7-b7]",),
        ),
        Break(
            "quotients-by-anything",
            "ir/sizes/polynomial.py",
            "by = smallest if low < 0 else high_divisor",
            "by = smallest",
            ("tests/unit/ir/sizes/test_polynomial.py::test_bounds_hold[(n+5)//(m+1)-0]",),
        ),
        Break(
            "rules-of-users",
            "ir/analysis/user_code.py",
            'parts = [f.__wrapped__, *[getattr(f, rule, None) for rule in ("jvp", "fwd", "bwd")]]',
            "parts = [f.__wrapped__]",
            (
                "tests/unit/ir/analysis/test_user_code.py::test_rules_of_users_for_functions_of_kiln",
            ),
        ),
    ],
    "core": [
        Break(
            "constants-not-copied",
            "core/staging.py",
            "x = from_host(np.array(x, dtype=aval_of(x).dtype))",
            "x = from_host(np.asarray(x, dtype=aval_of(x).dtype))",
            ("tests/unit/core/test_staging.py::test_scalars_are_literals_and_arrays_constants",),
        ),
        Break(
            "one-part-of-each-sum",
            "core/arrays/shards.py",
            "key = at[number], tuple(places[number][i] for i in summed)",
            "key = at[number], ()",
            ("tests/unit/ops/test_out_sums.py::test_its_value_is_the_sum",),
        ),
        Break(
            "moved-without-a-copy",
            "core/arrays/host_memory.py",
            '        """Copy the data: all devices are the host."""\n        return buffer.copy()',
            '        """Copy the data: all devices are the host."""\n        return buffer',
            (
                "tests/unit/core/arrays/test_host_memory.py::test_put_and_moved_copy_and_adopt_does_not",
            ),
        ),
        Break(
            "names-tracked-outside",
            "core/trace.py",
            "tracked = tracked | {name} if kind is True else tracked - {name}",
            "tracked = tracked | {name} if kind is True else tracked",
            (
                "tests/unit/core/test_trace.py::"
                "test_types_track_an_axis_until_another_of_its_name_hides_it",
            ),
        ),
        Break(
            "flags-as-numbers-of-numpy",
            "core/staging.py",
            "if aval.weak_type or type(x) is bool:",
            "if aval.weak_type:",
            ("tests/unit/core/test_staging.py::test_literals_come_back_as_the_numbers_they_were",),
        ),
    ],
    "content": [
        Break(
            "which-operand-it-is",
            "content/fingerprint.py",
            'return ("array", number, x.aval)',
            'return ("array", x.aval)',
            ("tests/unit/content/test_fingerprint.py::test_arrays_are_operands",),
        ),
        Break(
            "numbers-of-numpy-without-its-state",
            "content/fingerprint.py",
            "            self.meets_numpy = True\n"
            "            return self.number(value, value.dtype.str, value.tobytes())",
            "            return self.number(value, value.dtype.str, value.tobytes())",
            ("tests/contract/test_content.py::test_changes_from_text[how NumPy takes errors]",),
        ),
        Break(
            "sizes-in-scope-not-ambient",
            "content/ambient.py",
            "last[2] == token and last[3] == names",
            "last[2] == token",
            (
                "tests/unit/content/test_ambient.py::"
                "test_sizes_with_names_count_while_their_program_is_recorded",
            ),
        ),
        Break(
            "zeros-of-defaults",
            "content/identity.py",
            "if kind in _PLAIN or (kind is float and value != 0.0):",
            "if kind in _PLAIN or kind is float:",
            ("tests/unit/content/test_identity.py::test_exchanged_parts_are_noticed",),
        ),
        Break(
            "keys-of-dicts",
            "content/by_content.py",
            "if kind is dict and len({type(k) for k in data} - {str}):",
            "if kind is dict and False:",
            (
                "tests/unit/content/test_by_content.py::"
                "test_keys_of_dicts_that_equality_does_not_tell_apart",
            ),
        ),
    ],
    "execution": [
        Break(
            "options-of-the-compiler-not-in-the-key",
            "execution/compilation.py",
            "key = ProgramKey(identity, choice.name, wanted)",
            "key = ProgramKey(identity, choice.name, (keep_unused, donated, placement))",
            ("tests/unit/execution/test_compilation.py::test_what_separates_programs",),
        ),
        Break(
            "donated-by-their-first-numbers",
            "execution/programs.py",
            "donated = tuple([n for n, i in enumerate(kept) if i in donated])",
            "donated = tuple([i for n, i in enumerate(kept) if i in donated])",
            (
                "tests/unit/execution/test_programs.py::"
                "test_donated_inputs_are_numbered_by_those_that_remain",
            ),
        ),
        Break(
            "sizes-of-nothing",
            "execution/sized_programs.py",
            '    if not all(sizes.values()):\n        return "a size is 0"\n',
            "",
            ("tests/unit/execution/test_sized_programs.py::test_reasons_to_compile_for_one_size",),
        ),
        Break(
            "stored-without-what-is-donated",
            "execution/stored_programs.py",
            "            program.donated,\n            device,",
            "            device,",
            (
                "tests/unit/execution/test_stored_programs.py::"
                "test_a_donated_operand_makes_another_program",
            ),
        ),
        Break(
            "plans-that-return-operands",
            "execution/eager_plans.py",
            "if any(id(v) in inputs and inputs[id(v)] is not x for v, x in "
            "zip(jaxpr.outvars, results)):",
            "if False:",
            (
                "tests/unit/execution/test_eager_plans.py::"
                "test_a_copy_of_an_operand_is_made_each_time",
            ),
        ),
    ],
    "ops": [
        Break(
            "narrow-starts-wrap",
            "ops/indexing/slicing.py",
            "    if dtypes.bit_width(dtype) < 32 and (type(size) is not int or "
            "size > dtypes.iinfo(dtype).max):\n"
            "        dtype = np.dtype(np.int32)\n",
            "",
            (
                "tests/unit/ops/indexing/test_slicing.py::test_narrow_starts_count_from_the_end_of_long_axes",
            ),
        ),
        Break(
            "nans-with-signs",
            "ops/reductions/sorting.py",
            "            plain = np.where(np.isnan(x), x.dtype.type(np.nan), plain)\n",
            "            pass\n",
            (
                "tests/unit/ops/reductions/test_sorting.py::"
                "test_nans_are_last_in_their_order_whatever_their_signs[float32-reference]",
            ),
        ),
        Break(
            "slopes-at-infinity",
            "ops/reductions/cumulative.py",
            "safe = select(finite, out, zeros_like(out))",
            "safe = out",
            ("tests/unit/ops/reductions/test_cumulative.py::test_sums_of_nothing_do_not_move",),
        ),
        Break(
            "subnormals-that-are-kept",
            "ops/reductions/reduction.py",
            "bits = np.where(exponent <= lowest, sign, bits)",
            "bits = np.where(exponent < lowest, sign, bits)",
            (
                "tests/unit/ops/reductions/test_reduction.py::"
                "test_reduce_precision_is_that_of_the_reference_library[bits0]",
            ),
        ),
        Break(
            "sums-of-some-copies",
            "ops/collective.py",
            "        rest = tuple(name for name in axes if name not in x.aval.varying)\n"
            "        if rest:\n"
            "            ct = self.bind(ct, axes=rest, axis_index_groups=None)\n"
            "        return [vary_p.bind(ct, axes=typed) if typed else ct]",
            "        return [vary_p.bind(ct, axes=typed) if typed else ct]",
            ("tests/unit/ops/test_collective.py::test_the_transpose_of_psum_is_psum",),
        ),
    ],
    "transforms": [
        Break(
            "stacks-that-were-asked-for",
            "transforms/batching.py",
            'key = ("batch", axis, tuple(in_axes), tuple(forced))',
            'key = ("batch", axis, tuple(in_axes))',
            ("tests/unit/transforms/test_batching.py::test_programs_over_stacks",),
        ),
        Break(
            "tangents-that-were-asked-for",
            "transforms/jvp.py",
            'key = ("jvp", tuple(moving), tuple(forced))',
            'key = ("jvp", tuple(moving))',
            ("tests/unit/transforms/test_jvp.py::test_the_program_of_primals_and_tangents",),
        ),
        Break(
            "zeros-not-pulled",
            "transforms/reverse.py",
            "asked = _pulling_zeros(jaxpr, pending) if cts else ()",
            "asked: Any = ()",
            (
                "tests/unit/control/custom_rules/test_vjp.py::"
                "test_a_rule_runs_for_cotangents_that_are_zero",
            ),
        ),
        Break(
            "unknown-on-demand",
            "transforms/partial_eval.py",
            "unknown = [trace.unknown(x) or (force is not None and force[i]) for "
            "i, x in enumerate(outs)]",
            "unknown = [trace.unknown(x) for i, x in enumerate(outs)]",
            (
                "tests/unit/transforms/test_partial_eval.py::"
                "test_outputs_may_be_forced_to_be_unknown",
            ),
        ),
        Break(
            "series-of-another-variable",
            "transforms/series.py",
            "            mine = type(x) is SeriesTracer and x.owner is self\n",
            "            mine = type(x) is SeriesTracer\n",
            ("tests/unit/transforms/test_series.py::test_tracers_do_not_survive",),
        ),
    ],
    "control": [
        Break(
            "bodies-under-other-axes",
            "control/regions/bodies.py",
            "options().key(), state.axes))\n    known = _by_content",
            "options().key()))\n    known = _by_content",
            (
                "tests/unit/control/regions/test_bodies.py::"
                "test_bodies_are_apart_where_a_named_axis_has_another_size",
            ),
        ),
        Break(
            "one-slot-for-two",
            "control/cond.py",
            "if i not in taken and _fits(a, atom.aval))",
            "if _fits(a, atom.aval))",
            ("tests/unit/control/test_cond.py::test_residuals_of_branches_share_their_slots",),
        ),
        Break(
            "printed-twice",
            "control/loops/while_loop.py",
            "quiet, fixed = without_effects(parts.known), [*u_body, *pending]",
            "quiet, fixed = parts.known, [*u_body, *pending]",
            ("tests/unit/control/loops/test_while_loop.py::test_effects_happen_once_a_step",),
        ),
        Break(
            "alive-in-one-step",
            "control/loops/while_loop.py",
            "        if carry == kept:\n            break\n        kept = carry\n    clean_cond",
            "        kept = carry\n        break\n    clean_cond",
            ("tests/unit/control/loops/test_while_loop.py::test_dead_carries_go",),
        ),
        Break(
            "written-and-read-again",
            "control/regions/selected_writes.py",
            "while isinstance(atom, Var) and uses.get(atom) == 1:",
            "while isinstance(atom, Var) and atom in uses:",
            (
                "tests/unit/control/regions/test_selected_writes.py::"
                "test_programs_that_stay_as_they_are[<lambda>0]",
            ),
        ),
    ],
    "jit": [
        Break(
            "donated-and-closed-over",
            "jit/entry.py",
            "copied(x) if isinstance(x, ConcreteArray) and x.nbytes in sizes else x\n",
            "x\n",
            ("tests/unit/jit/test_entry.py::test_constants_are_copied_where_they_may_be_donated",),
        ),
        Break(
            "values-that-were-looked-at",
            "jit/cache.py",
            "if content is None or tracker.was_read or recording.static is not None:",
            "if content is None or recording.static is not None:",
            (
                "tests/contract/test_cache.py::"
                "test_programs_that_depend_on_the_values_of_arrays[<lambda>0]",
            ),
        ),
        Break(
            "zeros-of-complex-numbers",
            "jit/signatures/static_values.py",
            "    if kind is complex:\n"
            "        return (kind, static_key(value.real), static_key(value.imag))\n",
            "    if kind is complex:\n        return (kind, value)\n",
            (
                "tests/unit/jit/signatures/test_static_values.py::test_static_key_tells_types_and_signs",
            ),
        ),
        Break(
            "stale-though-its-globals-changed",
            "jit/entry.py",
            "if origin is None or origin.function != content.without_options():",
            "if origin is None:",
            ("tests/unit/jit/test_recollection.py::test_a_recollected_function_keeps_its_trace",),
        ),
        Break(
            "sizes-assumed-of-callers",
            "jit/sized.py",
            "            if type(there) is Size:\n                yield there",
            "            if False:\n                yield there",
            ("tests/unit/jit/test_sized.py::test_a_size_that_is_compared_inside_another_program",),
        ),
    ],
    "numpy": [
        Break(
            "points-outside-one-axis",
            "numpy/histograms.py",
            "        number = choose_by(outside, np.int32(total * bins), number)\n",
            "",
            (
                "tests/unit/numpy/test_histograms.py::"
                "test_points_beside_the_grid_are_in_no_bin[2-2]",
            ),
        ),
        Break(
            "weights-of-nans",
            "numpy/reductions/quantiles.py",
            "    weights = choose_by(missing, 0, weights)\n",
            "",
            ("tests/differential/test_numpy_reductions.py::test_as_jax[nanquantile]",),
        ),
        Break(
            "groups-of-each-row",
            "lax/ragged.py",
            "    return (*batch, *kind[: kind.index(axis)])",
            "    return (*batch,)",
            ("tests/differential/test_ragged.py::test_as_jax[groups of rows]",),
        ),
        Break(
            "draws-up-to-zero",
            "random/selection.py",
            "drawn = total * (1 - uniform_floats(typed(key), shape, aval_of(p).dtype))",
            "drawn = total * uniform_floats(typed(key), shape, aval_of(p).dtype)",
            ("tests/differential/test_random.py::test_as_jax_by_meaning[choice]",),
        ),
        Break(
            "middle-of-even-kernels",
            "scipy/signal/convolution.py",
            'before = {"full": size - 1, "same": size // 2, "valid": 0}[mode]\n'
            '        after = {"full": size - 1, "same": size - 1 - size // 2, '
            '"valid": 0}[mode]',
            'before = {"full": size - 1, "same": size - 1 - size // 2, "valid": 0}[mode]\n'
            '        after = {"full": size - 1, "same": size // 2, "valid": 0}[mode]',
            ("tests/unit/scipy/test_signal.py::test_convolution[0-((7,), (4,))]",),
        ),
    ],
    "linen": [
        Break(
            "variances-below-zero",
            "linen/normalization/normalization.py",
            "return mean, jnp.maximum(0.0, square - _squared(mean))",
            "return mean, square - _squared(mean)",
            (
                "tests/unit/linen/normalization/test_normalization.py::"
                "test_a_variance_that_rounding_makes_negative_is_none",
            ),
        ),
        Break(
            "draws-of-the-last-call",
            "linen/scopes/rng.py",
            "counts.drawn[name] = counts.drawn.get(name, 0) + count",
            "counts.drawn[name] = count",
            ("tests/unit/linen/transforms/test_compilation.py::test_draws_are_counted_over_calls",),
        ),
        Break(
            "mutable-inside",
            "linen/transforms/lift.py",
            "mutable = self.mutable if written is True else "
            "intersect_filters(self.mutable, written)",
            "mutable = self.mutable if written is True else written",
            ("tests/unit/linen/transforms/test_lift.py::test_variables_that_only_go_in_or_out",),
        ),
        Break(
            "shapes-of-fields",
            "linen/transforms/content.py",
            'return ("ndarray", value.shape, value.dtype.str, _hash(value))',
            'return ("ndarray", value.dtype.str, _hash(value))',
            (
                "tests/unit/linen/transforms/test_compilation.py::"
                "test_arrays_of_the_same_bytes_are_told_by_shape_and_type[array0]",
            ),
        ),
        Break(
            "lengths-along-another-axis",
            "linen/recurrent/sequences.py",
            "places = (jnp.expand_dims(seq_lengths, axis) - 1 - places) % steps",
            "places = (jnp.expand_dims(seq_lengths, -1) - 1 - places) % steps",
            ("tests/differential/test_linen_recurrent.py::test_as_flax[sequences]",),
        ),
    ],
    "native": [
        Break(
            "recomputed-in-other-axes-after-a-write",
            "engines/native/passes/fusion.py",
            "if moved or nest.ordered or not is_in_place(index, buffer, nest):",
            "if nest.ordered or not is_in_place(index, buffer, nest):",
            (
                "tests/unit/engines/native/passes/test_fusion.py::"
                "test_what_a_nest_overwrites_is_read_where_it_is_written[i0*-1 + 7-False]",
            ),
        ),
        Break(
            "read-before-it-is-made",
            "engines/native/passes/pieces/producers.py",
            "if written & (taken | made) or read & made:",
            "if written & made or read & made:",
            (
                "tests/unit/engines/native/passes/pieces/test_producers.py::"
                "test_no_piece_is_computed_before_what_its_reader_needs",
            ),
        ),
        Break(
            "rows-that-others-read",
            "engines/native/passes/rows.py",
            "if stride is None or touches[buffer] > mine[buffer]:",
            "if stride is None:",
            (
                "tests/unit/engines/native/passes/test_passes.py::"
                "test_what_two_loops_over_rows_share_has_room_for_all_of_them",
            ),
        ),
        Break(
            "rows-after-what-they-make",
            "engines/native/passes/rows.py",
            "is_written or buffer in written",
            "buffer in written",
            (
                "tests/unit/engines/native/passes/test_passes.py::"
                "test_a_small_nest_between_rows_runs_before_them[%i0[i0*70 + i1]-%t3[i3]-False]",
            ),
        ),
        Break(
            "features-last-as-features-first",
            "engines/native/loop_ir/products.py",
            "if is_first(window.result_spec):",
            "if window.result_spec[0] == 0:",
            ("tests/unit/engines/native/loop_ir/test_products.py::test_other_layouts_have_none",),
        ),
        Break(
            "transposed-over-what-is-read",
            "engines/native/passes/layouts/transposes.py",
            "            and buffer not in read\n",
            "",
            (
                "tests/unit/engines/native/passes/layouts/test_transposes.py::"
                "test_a_result_that_is_read_is_not_overwritten_by_an_operand[o2-%t3]",
            ),
        ),
        Break(
            "epilogues-before-their-operands",
            "engines/native/passes/products/epilogues.py",
            "if not written & (read_between | written_between) and not read & written_between:",
            "if not written & (read_between | written_between):",
            (
                "tests/unit/engines/native/passes/products/test_epilogues.py::"
                "test_a_product_waits_for_what_its_epilogue_reads",
            ),
        ),
        Break(
            "strips-overwrite-their-sums",
            "engines/native/passes/products/strip_loops.py",
            "n.n, int(is_sum)]",
            "n.n, 0]",
            (
                "tests/unit/engines/native/passes/products/test_strip_loops.py::"
                "test_gradients[heads first-recomputed-256]",
            ),
        ),
        Break(
            "strips-of-what-is-read-elsewhere",
            "engines/native/passes/products/chains.py",
            "and self.touches[buffer] == mine[buffer]",
            "",
            (
                "tests/unit/engines/native/passes/products/test_strip_loops.py::"
                "test_what_needs_the_whole_matrix_has_it[read twice]",
            ),
        ),
    ],
    "raising": [
        Break(
            "descending-by-the-first-row",
            "engines/xla/raising/sorting.py",
            'is_descending = (direction == "GT") != (x > y)',
            'is_descending = direction == "GT"',
            ("tests/unit/engines/xla/raising/test_sorting.py::test_operands_in_either_direction",),
        ),
        Break(
            "branches-clamped-on-both-sides",
            "engines/xla/raising/control.py",
            "select_n_p.bind(outside, index, last)",
            "index",
            (
                "tests/unit/engines/xla/raising/test_control.py::"
                "test_numbers_out_of_range_choose_the_last_branch",
            ),
        ),
        Break(
            "sums-in-one-direction",
            "engines/xla/raising/window.py",
            "reverse=windows.padding[axis] == (0, before))",
            "reverse=False)",
            ("tests/unit/engines/xla/raising/test_window.py::test_cumulative_reductions",),
        ),
        Break(
            "positions-from-any-start",
            "engines/xla/raising/reduction.py",
            "if start == worst(start.dtype) and _is_search(found, direction):",
            "if _is_search(found, direction):",
            (
                "tests/unit/engines/xla/raising/test_reduction.py::"
                "test_what_is_not_the_first_position_stays_a_reduction",
            ),
        ),
        Break(
            "negated-only-on-the-left",
            "engines/xla/raising/indexing.py",
            "        updates = neg_p.bind(updates)\n",
            "        pass\n",
            (
                "tests/unit/engines/xla/raising/test_indexing.py::"
                "test_windows_out_of_bounds_are_dropped",
            ),
        ),
        Break(
            "constants-told-by-their-bits-alone",
            "engines/xla/raising/raiser.py",
            "return str(value.dtype), value.shape, value.tobytes()",
            'return "", (), value.tobytes()',
            ("tests/unit/engines/xla/test_raised.py::test_equal_bits_of_other_types",),
        ),
    ],
}
