"""Ways to break the reading of contents, each with the tests that are to see it.

`python -m tests.mutation content` makes them one by one.
"""

from __future__ import annotations

from tests.mutation.breaks import Break

CLASSES, CODE, FUNCTIONS = (
    "content/class_content.py",
    "content/bytecode.py",
    "content/fingerprint.py",
)
FIXED, FORCE, MADE = "content/fixed_values.py", "content/ambient.py", "content/made_methods.py"


def _row(file: str, text: str, instead: str, *tests: str) -> Break:
    """Return a break seen by tests, or by rows of `content_changes.py` if named without a file."""
    changes = "tests/contract/test_content.py::test_changes_from_text"
    names = [test if "::" in test else f"{changes}[{test}]" for test in tests]
    return Break("10.6", file, text, instead, tuple(names))


_UNIT = "tests/unit/content/test_"
_CACHE = "tests/contract/test_cache.py::test_"

_EVIDENCE, _RECOLLECTION = "content/evidence.py", "jit/recollection.py"
_CHANGED = f"{_UNIT}evidence.py::test_"
_AGAIN = "tests/unit/jit/test_recollection.py::test_"

CONTENT_BREAKS = [
    _row(
        _EVIDENCE,
        "type(value) is types.FunctionType and value is not self._root",
        "type(value) is types.FunctionType",
        f"{_CHANGED}a_function_that_reaches_itself_leaves_no_evidence",
    ),
    _row(
        _EVIDENCE,
        "return all(map(is_fixed, self._fixed.values()))",
        "return True",
        f"{_CHANGED}functions_of_kiln_are_compared_with_their_attributes",
    ),
    _row(
        _EVIDENCE,
        "not (value.args or value.keywords or value.__dict__)",
        "True",
        f"{_CHANGED}partials_with_arguments_or_attributes_have_none",
    ),
    _row(
        _EVIDENCE,
        "self._parts[0].function() is not root.func",
        "False",
        f"{_CHANGED}partials_with_arguments_or_attributes_have_none",
    ),
    _row(
        "_runtime/caches/evidence.cc",
        "return value != Py_None && PyWeakref_CheckRefExact(held) && refers_to(held, value);",
        "return PyWeakref_CheckRefExact(held);",
        f"{_CHANGED}it_does_not_hold_after_a_change[make-a function, and the first lives]",
    ),
    _row(
        _RECOLLECTION,
        "each.ambient != here or each.kind != kind",
        "each.ambient != here",
        f"{_AGAIN}another_kind_of_call_is_another_recording",
    ),
    _row(
        _RECOLLECTION,
        "each.kind[0] is not tree and not is_plain(tree, Named)",
        "False",
        f"{_AGAIN}trees_that_equality_does_not_tell_apart",
    ),
    _row(CLASSES, "if _shape(base) != shape:", "if False:", "what the base of enumerations says"),
    _row(
        CLASSES,
        "if type(cls) is not type and type(cls) is not enum.EnumType:",
        "if False:",
        "an attribute of a metaclass",
    ),
    _row(
        CLASSES,
        "if issubclass(cls, BaseException):",
        "if False:",
        "the arguments of a frozen exception",
    ),
    _row(
        CLASSES,
        "tuple.__iter__(value) if issubclass(cls, tuple)",
        "value if issubclass(cls, tuple)",
        "how a named tuple is iterated",
    ),
    _row(
        CLASSES,
        'if any("__dict__" in vars(base) for base in bases):',
        "if False:",
        "attributes of a class below a named tuple",
    ),
    _row(
        CLASSES,
        "[token_of(base), base.__name__, base.__qualname__]",
        "[token_of(base), base.__name__]",
        "how a written method prints",
    ),
    _row(
        CLASSES,
        'if n != "__objclass__"',
        'if n == "_value_"',
        "an attribute of a member met in its class",
    ),
    _row(
        MADE,
        "codes.get(id(code)) is code and any(function.__globals__ is s for s in _SPACES)",
        "codes.get(id(code)) is code",
        f"{_UNIT}made_methods.py::test_code_of_the_library_over_other_globals_is_not_known",
    ),
    _row(
        MADE,
        "(code, _is_generated(cls, _plain(code)))",
        "(code, True)",
        f"{_UNIT}made_methods.py::test_code_that_looks_alike_is_not_known",
    ),
    _row(CODE, "_orders(code.co_consts), inner)", "inner)", "the order of a constant set"),
    _row(
        CODE,
        "return ins.opname in _KNOWN",
        "return True",
        "a pattern names a hidden attribute",
    ),
    _row(
        CODE,
        '*("format", "format_map", "register"),',
        '"register",',
        "a format names a hidden attribute",
    ),
    _row(
        CODE,
        "if not all(_is_constant(x) for x in code.co_consts):",
        "if False:",
        "a constant exchanged in code",
    ),
    _row(
        FUNCTIONS,
        "return (kind, *bits) if value == value else (kind, *bits, self.again(value))",
        "return (kind, *bits)",
        "identity of NaN",
    ),
    _row(
        FUNCTIONS,
        "    met = reading.again(f)\n    if met is not None:\n        return met\n    named = ",
        "    named = ",
        "identity of partials",
    ),
    _row(
        FUNCTIONS,
        "and is_pure_space(f.__globals__)",
        "and True",
        "globals of a function that claims to be kiln's",
    ),
    _row(
        FUNCTIONS,
        "reading.read_attributes(f, _NO_NAMES) if attributes else None",
        "None",
        f"{_UNIT}fingerprint.py::test_a_changed_function_is_another_content",
    ),
    _row(
        FIXED,
        "and (found[1] is None or found[1] == _shape(value))",
        "",
        "another attribute of a function of kiln",
    ),
    _row(
        FIXED,
        '"methodcaller", "is_", "is_not")',
        '"methodcaller")',
        "identity by operator.is_",
    ),
    _row(FORCE, "options(), revision(), ", "options(), 0, ", "a pytree node is registered"),
    _row(FORCE, "abc.get_cache_token(), names", "0, names", "a sequence is registered"),
    _row(FORCE, "tuple(np.geterr().values()), ", "", "how NumPy takes errors"),
    _row(FORCE, "if last[0] is opts and", "if", f"{_UNIT}ambient.py::test_every_option_counts"),
    _row(
        "jit/function.py",
        "if reading.with_jitted and f.is_stale():",
        "if False:",
        f"{_CACHE}a_function_keeps_its_trace_and_a_fresh_one_does_not_get_it",
        f"{_CACHE}a_program_recorded_with_an_old_trace_is_for_one_function",
        f"{_CACHE}a_jitted_function_that_is_out_of_date_does_not_spread",
    ),
    _row(
        "jit/function.py",
        "reading.read_attributes(f, _OWN)",
        "reading.read(f._fun)",
        "an attribute of kiln.jit",
    ),
    _row(
        "jit/entry.py",
        "return all(a is b for a, b in zip(again, self.consts, strict=True))",
        "return True",
        f"{_CACHE}a_jitted_function_that_is_out_of_date_does_not_spread",
    ),
    _row(
        "control/custom_rules/jvp.py",
        "reading.read_attributes(f, DESCRIPTION)",
        "reading.read_all((f.fun, f.jvp))",
        "an attribute of kiln.custom_jvp",
    ),
    _row(
        "linen/transforms/content.py",
        "if kind is np.ndarray and",
        "if isinstance(value, np.ndarray) and",
        "tests/unit/linen/transforms/test_compilation.py::test_the_mask_of_a_field_is_seen",
    ),
]
