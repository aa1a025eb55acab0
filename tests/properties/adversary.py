"""Programs drawn at random that make a function, change something, and make it again.

A program has a few *places* (where a value hides: a cell, an attribute, a slot, a registration, a
context, ...), a *shell* (how the function that reads them is made), and steps: changes of places,
and calls. What a fresh function is traced to must not depend on whether contents are compared.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

import kiln
from kiln.base.options.config import override
from kiln.content.fingerprint import content_of

VALUES = (
    *("0.0", "-0.0", "1", "1.0", "True", "2.5", "3.0", "-1", "np.float32(1)", "np.float64(2)"),
    *("np.int8(1)", "'a'", "'ab'", "(1,)", "(1.0,)", "(1, 2)", "jnp.float32(3)", "jnp.int32(3)"),
    *("jnp.float32(4)", "1j", "float('nan')", "float('inf')", "None", "b'a'", "np.float32(-0.0)"),
    *("frozenset([1])", "range(2)", "slice(1, 2)", "int", "float", "jnp.float32", "jnp.sin"),
)

HEAD = """
import abc, builtins, collections, contextvars, dataclasses, enum, functools, itertools, math
import operator, os, threading, types, typing, weakref
import numpy as np
import kiln
import kiln.numpy as jnp
import kiln.linen as nn
from kiln import lax, struct
from kiln.interpreters import ad, batching, mlir
def own(factor):
    p = kiln.extend.core.Primitive("own")
    p.def_abstract_eval(lambda a: a)
    lower(p, factor)
    return p
def lower(p, factor):
    mlir.register_lowering(p, mlir.lower_fun(lambda a: a * factor, False))
def num(v):
    if isinstance(v, (int, float, complex, kiln.Array, np.number)):
        return v
    if isinstance(v, (str, tuple, bytes, frozenset, range)):
        return len(v) + 100
    return 200 if v is None else 300 if isinstance(v, type) else 400
"""
BASE: dict[str, Any] = {"__name__": "__main__"}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a value hides. `@` is the number of the place, `$` a value, each time another."""

    define: str
    read: str
    changes: tuple[str, ...]
    undo: str = ""


def _place(define: str, read: str, *changes: str, undo: str = "") -> Place:
    return Place(define, read, changes, undo)


_FROZEN = "@dataclasses.dataclass(frozen=True)\nclass S@:\n"
_REBIND = "g@ = $"

PLACES = [
    # Variables.
    _place("g@ = $", "num(g@)", _REBIND, "del g@\ng@ = $"),
    _place("g@ = $\ndef h@(): return num(g@)", "h@()", _REBIND),
    _place("def o@():\n  c = $\n  def put(v):\n    nonlocal c\n    c = v\n"
           "  return (lambda: num(c)), put\nh@, p@ = o@()", "h@()", "p@($)",
           "h@.__closure__[0].cell_contents = $"),
    _place("s@ = {'num': num, 'g': $}\nexec('def h(): return num(g)', s@)\nh@ = s@['h']",
           "h@()", "s@['g'] = $", "s@['num'] = lambda v: $"),
    _place("g@ = [$]", "num(g@[0])", "g@[0] = $", "g@ = [$]"),
    _place("g@ = {'a': $}", "num(g@['a'])", "g@['a'] = $"),
    _place("g@ = {1}", "len(g@)", "g@.add(len(g@) + 1)"),
    _place("g@ = collections.deque([$])", "num(g@[0])", "g@[0] = $"),
    _place("g@ = types.SimpleNamespace(a=$)", "num(g@.a)", "g@.a = $"),
    _place("d@ = {'a': $}\ng@ = types.MappingProxyType(d@)", "num(g@['a'])", "d@['a'] = $"),
    _place("g@ = np.ones(2, 'f4')", "g@[0]", "g@[0] += 1"),
    _place("g@ = bytearray(b'a')", "g@[0]", "g@[0] += 1"),
    _place("g@ = ($, [$])", "num(g@[1][0])", "g@[1][0] = $"),
    # Functions.
    _place("def h@(d=$): return num(d)", "h@()", "h@.__defaults__ = ($,)"),
    _place("def h@(*, d=$): return num(d)", "h@()", "h@.__kwdefaults__ = {'d': $}",
           "h@.__kwdefaults__['d'] = $"),
    _place("def h@(d=[$]): return num(d[0])", "h@()", "h@.__defaults__[0][0] = $"),
    _place("def h@(): return 1\nh@.a = $", "num(h@.a)", "h@.a = $", "del h@.a\nh@.a = $"),
    _place("def h@(): return num($)", "h@()", "h@.__code__ = (lambda: num($)).__code__",
           "def h@(): return num($)"),
    _place("def h@(): return 1", "len(f'{h@.__name__}')", "h@.__name__ += 'a'"),
    _place("def h@(): 'a'", "len(h@.__doc__)", "h@.__doc__ += 'a'"),
    _place("h@ = kiln.jit(lambda x: x)\nh@.a = $", "num(h@.a)", "h@.a = $"),
    _place("h@ = kiln.custom_jvp(lambda x: x)\nh@.a = $", "num(h@.a)", "h@.a = $"),
    _place("h@ = kiln.custom_vjp(lambda x: x)\nh@.a = $", "num(h@.a)", "h@.a = $"),
    _place("h@ = functools.lru_cache(lambda: 1)\nh@.a = $", "num(h@.a)", "h@.a = $"),
    _place("h@ = functools.partial(num, $)", "h@()", "h@ = functools.partial(num, $)",
           "h@.__setstate__((num, ($,), {}, None))"),
    _place("h@ = functools.partial(num, v=$)", "h@()", "h@.keywords['v'] = $"),
    _place("h@ = functools.partial(num)\nh@.a = $", "num(h@.a)", "h@.a = $"),
    _place("@functools.singledispatch\ndef h@(v): return 1.5", "h@(2)",
           "h@.register(int, lambda v: num($))"),
    _place("g@ = $\n@functools.cache\ndef h@(): return num(g@)", "h@()",
           "g@ = $\nh@.cache_clear()"),
    _place("@kiln.custom_jvp\ndef h@(x): return x * 1.0\n"
           "h@.defjvp(lambda p, t: (p[0], t[0] * num($)))", "kiln.jvp(h@, (x,), (x,))[1]",
           "h@.defjvp(lambda p, t: (p[0], t[0] * num($)))"),
    _place("@kiln.custom_vjp\ndef h@(x): return x * 1.0\n"
           "h@.defvjp(lambda x: (x, None), lambda r, g: (g * num($),))", "kiln.grad(h@)(x)",
           "h@.defvjp(lambda x: (x, None), lambda r, g: (g * num($),))"),
    _place("g@ = $\nh@ = kiln.jit(lambda: num(g@))", "h@()", _REBIND),
    # Rules of primitives.
    _place("p@ = own(num($))", "p@.bind(x * 1.0)", "lower(p@, num($))"),
    _place("p@ = own(num($))\nh@ = kiln.jit(p@.bind)", "h@(x * 1.0)", "lower(p@, num($))"),
    _place("p@ = own(2.0)\nad.primitive_jvps[p@] = lambda p, t: (p[0], t[0] * num($))",
           "kiln.jvp(p@.bind, (x * 1.0,), (x * 1.0,))[1]",
           "ad.primitive_jvps[p@] = lambda p, t: (p[0], t[0] * num($))",
           "p@.jvp = lambda p, t: (p[0], t[0] * num($))"),
    _place("p@ = own(2.0)\nbatching.primitive_batchers[p@] = lambda a, d: (a[0] * num($), d[0])",
           "kiln.vmap(p@.bind)(jnp.stack([x * 1.0]))[0]",
           "batching.primitive_batchers[p@] = lambda a, d: (a[0] * num($), d[0])"),
    _place("p@ = own(2.0)", "len(kiln.eval_shape(p@.bind, jnp.ones(3)).shape)",
           "p@.def_abstract_eval(lambda a: a.update(shape=(3,) * (1 + len(a.shape))))"),
    # Classes.
    _place("class S@: a = $", "num(S@.a)", "S@.a = $", "type.__setattr__(S@, 'a', $)"),
    _place("class B@: a = $\nclass S@(B@): pass", "num(S@.a)", "B@.a = $", "S@.a = $"),
    _place("class B@: a = $\nclass C@: a = $\nclass S@(B@): pass", "num(S@.a)",
           "S@.__bases__ = (C@,)", "S@.__bases__ = (B@,)"),
    _place("class M@(type): a = $\nclass S@(metaclass=M@): pass", "num(S@.a)", "M@.a = $"),
    _place("class M@(type):\n  def __call__(cls): return num(cls.a)\n"
           "class S@(metaclass=M@): a = $", "S@()", "S@.a = $"),
    _place("class S@:\n  @staticmethod\n  def f(): return num($)", "S@.f()",
           "S@.f = staticmethod(lambda: num($))", "S@.f = lambda: num($)"),
    _place("class S@:\n  a = $\n  @classmethod\n  def f(cls): return num(cls.a)", "S@.f()",
           "S@.a = $"),
    _place("class D@:\n  v = $\n  def __get__(self, i, c): return num(self.v)\n"
           "class S@: a = D@()", "S@.a", "D@.v = $", "vars(S@)['a'].v = $"),
    _place("class B@:\n  def f(self): return num($)\nclass S@(B@):\n"
           "  def f(self): return super().f()", "S@().f()", "B@.f = lambda self: num($)"),
    _place("class S@:\n  def __init__(self): self.a = $", "num(S@().a)",
           "S@.__init__ = lambda self: setattr(self, 'a', $)"),
    _place("class S@:\n  def __getattr__(self, n): return num($)", "S@().a",
           "S@.__getattr__ = lambda self, n: num($)"),
    _place("class S@: pass", "len(f'{S@}')", "S@.__qualname__ += 'a'", "S@.__module__ += 'a'",
           "S@.__name__ += 'a'"),
    _place("class S@: __slots__ = ('a',)\ng@ = S@()\ng@.a = $", "num(g@.a)", "g@.a = $"),
    _place("class S@: pass\ng@ = S@()\ng@.a = $", "num(g@.a)", "g@.a = $", "S@.a = $\ndel g@.a\ng@.a = $"),
    # Instances that look as if they did not change.
    _place(_FROZEN + "  a: object\ng@ = S@($)", "num(g@.a)", "object.__setattr__(g@, 'a', $)",
           "g@ = S@($)", "vars(g@)['a'] = $", "S@.a = property(lambda self: $)"),
    _place(_FROZEN + "  a: object = 1\nS@.__init__.__defaults__ = ($,)\ng@ = S@()", "num(S@().a)",
           "S@.__init__.__defaults__ = ($,)", "S@.__init__ = lambda self: None\nS@.a = $"),
    _place("g@ = $\n" + _FROZEN + "  a: object = dataclasses.field(default_factory=lambda: g@)",
           "num(S@().a)", _REBIND),
    _place("g@ = $\n" + _FROZEN + "  def __call__(self): return num(g@)\ns@ = S@()", "s@()",
           _REBIND, "S@.__call__ = lambda self: num($)"),
    _place("g@ = $\n" + _FROZEN + "  @property\n  def a(self): return num(g@)\ns@ = S@()",
           "s@.a", _REBIND, "S@.a = property(lambda self: num($))"),
    _place(_FROZEN + "  a: object = 1\n  def __post_init__(self):\n"
           "    object.__setattr__(self, 'b', g@)\ng@ = $", "num(S@().b)", _REBIND),
    _place("@dataclasses.dataclass(frozen=True, slots=True)\nclass S@:\n  __a: object\n"
           "  def f(self): return num(self.__a)\ng@ = S@($)", "g@.f()",
           "object.__setattr__(g@, '_S@__a', $)", "g@ = S@($)"),
    _place(_FROZEN + "  __slots__ = ('__a',)\n  def f(self): return num(self.__a)\ng@ = S@()\n"
           "object.__setattr__(g@, '_S@__a', $)", "g@.f()",
           "object.__setattr__(g@, '_S@__a', $)"),
    _place(_FROZEN + "  @functools.cached_property\n  def a(self): return num(g@)\ng@ = $\ns@ = S@()",
           "s@.a", "g@ = $\ns@ = S@()"),
    _place("@dataclasses.dataclass(frozen=True, eq=False)\nclass S@(dict): pass\n"
           "g@ = S@()\ndict.__setitem__(g@, 'a', $)", "num(g@['a'])",
           "dict.__setitem__(g@, 'a', $)"),
    _place("@dataclasses.dataclass(frozen=True, eq=False)\nclass S@(list): pass\n"
           "g@ = S@()\ng@.append($)", "num(g@[0])", "g@[0] = $"),
    _place(_FROZEN + "  a: int = 1\n@dataclasses.dataclass(frozen=True)\nclass T@:\n  a: int = 2\n"
           "g@ = S@()", "g@.a + isinstance(g@, T@)", "object.__setattr__(g@, '__class__', T@)",
           "object.__setattr__(g@, '__class__', S@)"),
    _place("@dataclasses.dataclass(frozen=True, eq=False)\nclass S@:\n  a: object = 1\n"
           "  def __eq__(self, o): return g@ == 1\n  def __hash__(self): return 0\ng@ = $\n"
           "s@, t@ = S@(), S@(2)", "(2 if s@ == t@ else 3)", _REBIND),
    _place("class B@:\n  pass\n@dataclasses.dataclass(frozen=True)\nclass S@(B@):\n  a: object = 1\n"
           "s@ = S@()\ns@.__dict__['b'] = $", "num(s@.b)", "s@.__dict__['b'] = $", "B@.b = 1"),
    _place("class S@(typing.NamedTuple):\n  a: object = $\ng@ = S@()", "num(g@.a)",
           "g@ = S@($)", "S@.__new__.__defaults__ = ($,)\ng@ = S@()", "S@.a = property(lambda s: $)"),
    _place("class S@(typing.NamedTuple):\n  a: object = $", "num(S@().a)",
           "S@.__new__.__defaults__ = ($,)"),
    _place("class S@(collections.namedtuple('S', 'a')): pass\ng@ = S@(1)\ng@.b = $",
           "num(g@.b)", "g@.b = $"),
    _place("class S@(tuple): _fields = ()\ng@ = S@()\ng@.b = $", "num(g@.b)", "g@.b = $"),
    _place("S@ = collections.namedtuple('S', 'a b')\ng@ = S@($, $)", "num(g@._replace(b=1).a)",
           "g@ = S@($, $)", "S@._replace = lambda s, b: s", "S@.a = S@.b"),
    _place("class S@(struct.PyTreeNode):\n  a: object = struct.field(pytree_node=False)\n"
           "g@ = S@($)", "num(g@.a)", "g@ = S@($)"),
    _place("@struct.dataclass\nclass S@:\n  a: object\ng@ = S@($)", "num(g@.a)", "g@ = S@($)",
           "object.__setattr__(g@, 'a', $)"),
    # Enumerations.
    _place("class E@(enum.Enum): A = $", "num(E@.A.value)", "E@.A._value_ = $"),
    _place("class E@(enum.Enum): A = 1\nE@.A.b = $", "num(E@.A.b)", "E@.A.b = $"),
    _place("class E@(enum.Enum):\n  A = 1\n  def f(self): return num(self._value_b)\n"
           "E@._value_b = $", "E@.A.f()", "E@._value_b = $"),
    _place("class E@(enum.Enum):\n  A = 1\n  B = 2", "E@(1).value", "E@._value2member_map_[1] = E@.B",
           "E@._value2member_map_[1] = E@.A"),
    _place("class E@(enum.Enum):\n  A = 1\n  B = 2", "E@['A'].value", "E@._member_map_['A'] = E@.B",
           "E@._member_map_['A'] = E@.A"),
    _place("class E@(enum.Enum):\n  A = 1\n  B = 2", "len([e for e in E@])",
           "E@._member_names_.append('A')", "E@._member_names_.pop()"),
    _place("class E@(enum.IntEnum):\n  A = 1", "E@.A + len(E@.A.name)", "E@.A._name_ += 'a'",
           "E@.A._value_ = 7"),
    _place("g@ = $\nclass E@(enum.Enum):\n  A = 1\n  @property\n  def f(self): return num(g@)",
           "E@.A.f", _REBIND, "E@.f = 3"),
    _place("class E@(enum.Flag):\n  A = 1\n  B = 2", "(E@.A | E@.B).value", "E@.A._value_ = 2",
           "E@.A | E@.B"),
    # Modules and patches.
    _place("m@ = types.ModuleType('m')\nm@.a = $", "num(m@.a)", "m@.a = $"),
    _place("m@ = types.ModuleType('m')\nm@.n = types.ModuleType('n')\nm@.n.a = $", "num(m@.n.a)",
           "m@.n.a = $", "n@ = types.ModuleType('n')\nn@.a = $\nm@.n = n@"),
    _place("m@ = types.ModuleType('m')\ng@ = $\nm@.__getattr__ = lambda n: g@", "num(m@.a)",
           _REBIND, "m@.a = $"),
    _place("m@ = types.ModuleType('m')\nm@.num = num\nexec('def f(): return num(a)', vars(m@))\n"
           "m@.a = $", "m@.f()", "m@.a = $"),
    _place("b@ = math.pi", "num(math.pi)", "math.pi = $", undo="math.pi = b@"),
    _place("b@ = math.sin", "num(math.sin(1.0))", "math.sin = lambda v: num($)",
           "math.sin = math.cos", undo="math.sin = b@"),
    _place("b@ = abs", "num(abs(-2))", "builtins.abs = lambda v: $", undo="builtins.abs = b@"),
    _place("", "num(abs(-2))", "abs = lambda v: $", undo="globals().pop('abs', None)"),
    _place("b@ = jnp.square", "jnp.square(x)", "jnp.square = lambda v: v * num($)",
           undo="jnp.square = b@"),
    _place("jnp.sin.a@ = $", "num(jnp.sin.a@)", "jnp.sin.a@ = $", undo="del jnp.sin.a@"),
    _place("kiln.vmap.a@ = $", "num(kiln.vmap.a@)", "kiln.vmap.a@ = $", undo="del kiln.vmap.a@"),
    _place("jnp.int32.a@ = $", "num(jnp.int32.a@)", "jnp.int32.a@ = $", undo="del jnp.int32.a@"),
    _place("enum.Enum.a@ = $\nclass E@(enum.Enum): A = 1", "num(E@.A.a@)", "enum.Enum.a@ = $",
           undo="del enum.Enum.a@"),
    _place("b@ = typing.Generic.__init_subclass__\nT@ = typing.TypeVar('T')\n"
           "class S@(typing.Generic[T@]): a = $", "num(S@.a)", "S@.a = $", "typing.Generic.a@ = $",
           undo="vars(typing.Generic).get('a@') and delattr(typing.Generic, 'a@')"),
    _place("b@ = nn.Dense.__call__", "nn.Dense(1, use_bias=False).init(kiln.random.key(0), "
           "x[None])['params']['kernel'][0, 0]", "nn.Dense.use@ = $",
           undo="vars(nn.Dense).get('use@') is not None and delattr(nn.Dense, 'use@')"),
    # What is registered and what is in force.
    _place("class P@: pass", "len(kiln.tree.leaves([P@(), P@()]))",
           "kiln.tree_util.register_pytree_node(P@, lambda p: ((), None), lambda d, c: P@())"),
    _place("class A@(abc.ABC): pass\nclass P@: pass", "(2 if isinstance(P@(), A@) else 3)",
           "A@.register(P@)", "class B@(A@):\n  @classmethod\n  def __subclasshook__(cls, c): return True"),
    _place("class P@:\n  def __len__(self): return 2\n  def __getitem__(self, i): return (2., 3.)[i]\n"
           "def h@():\n  match P@():\n    case [a, b]: return b\n    case _: return 1\n", "h@()",
           "collections.abc.Sequence.register(P@)"),
    _place("os.environ['KILN_TEST_@'] = '2'", "float(os.environ['KILN_TEST_@'])",
           "os.environ['KILN_TEST_@'] += '1'", undo="del os.environ['KILN_TEST_@']"),
    _place("v@ = contextvars.ContextVar('v', default=$)", "num(v@.get())", "v@.set($)"),
    _place("v@ = threading.local()\nv@.a = $", "num(v@.a)", "v@.a = $"),
    _place("", "x * np.float64(2)", "enter(kiln.enable_x64(True))", "enter(kiln.enable_x64(False))"),
    _place("", "jnp.dot(x[None], x[None])", "enter(kiln.default_matmul_precision('highest'))",
           "enter(kiln.default_matmul_precision('default'))"),
    _place("", "(x * np.float32(2) + jnp.int32(1))", "enter(kiln.numpy_dtype_promotion('strict'))",
           "enter(kiln.numpy_dtype_promotion('standard'))"),
    _place("a@ = np.float32(1)\ndef h@():\n  try: return a@ / np.float32(0)\n"
           "  except FloatingPointError: return 5.0", "h@()", "enter(np.errstate(all='raise'))",
           "enter(np.errstate(all='ignore'))"),
    _place("def h@():\n  try: return float(np.float32(1) / np.float32(0))\n"
           "  except FloatingPointError: return 5.0", "h@()", "enter(np.errstate(all='raise'))",
           "enter(np.errstate(all='ignore'))"),
    _place("class N@(nn.Module):\n  def __call__(self, x): return x * 2", "N@().apply({}, x)",
           "enter(nn.intercept_methods(lambda f, a, w, c: f(*a, **w) * 3))"),
    _place("class N@(nn.Module):\n  a: object\n  def __call__(self, x): return x * num(self.a)\n"
           "n@ = N@($)", "n@.apply({}, x)", "n@ = N@($)", "object.__setattr__(n@, 'a', $)"),
    # Which of equal things.
    _place("a@ = b@ = functools.partial(num)", "(2 if a@ == b@ else 3)",
           "a@ = functools.partial(num)", "a@ = b@"),
    _place("a@ = b@ = (1.5, 2.5)", "(2 if operator.is_(a@, b@) else 3)",
           "a@ = tuple([1.5, 2.5])", "a@ = b@"),
    _place("a@ = b@ = float('nan')", "(2 if a@ in (b@,) else 3)", "a@ = float('nan')", "a@ = b@"),
    _place("a@ = b@ = np.float32('nan')", "(2 if a@ in (b@,) else 3)", "a@ = np.float32('nan')",
           "a@ = b@"),
    _place("a@ = b@ = (float('nan'), 1)", "(2 if a@ == b@ else 3)", "a@ = (float('nan'), 1)",
           "a@ = b@"),
    _place("class S@: pass\na@ = b@ = kiln.jit(num)", "len({a@: 1, b@: 2})",
           "a@ = kiln.jit(num)", "a@ = b@"),
    _place("@dataclasses.dataclass(frozen=True, eq=False)\nclass S@: a: object = 1\na@ = b@ = S@()",
           "len({a@: 1, b@: 2})", "a@ = S@()", "a@ = b@"),
    _place("a@ = b@ = jnp.float32(2)", "(2 if (a@,) == (b@,) else 3)", "a@ = jnp.float32(2)",
           "a@ = jnp.float32(3)", "a@ = b@"),
    # What text says.
    _place("t@ = '{8, 0}'", "1.0", "t@ = '{0, 8}'"),
    _place("def h@(): return 1\nh@.a = 2", "float('{0.a}'.format(h@))", "h@.a = 3"),
    _place("def h@(): 'a'\nF@ = types.FunctionType\ndef i@():\n  match h@:\n"
           "    case F@(__doc__=d): return len(d)", "i@()", "h@.__doc__ += 'a'"),
    _place("t@ = '{8, 0}'\ndef c@(): return eval('lambda: [i for i in %s][0]' % t@)\nh@ = c@()",
           "h@()", "t@ = '{0, 8}'\nh@ = c@()", "t@ = '{8, 0}'\nh@ = c@()"),
    _place("w@ = weakref.WeakValueDictionary()\nclass S@: pass\nk@ = S@()\nw@['a'] = k@",
           "len(w@)", "del k@", "k@ = S@()\nw@[1] = k@"),
]  # fmt: skip

SHELLS = [
    "def make(): return lambda x: @",
    "def make():\n  def f(x):\n    return @\n  return f",
    "def make():\n  def f(x): return @\n  return lambda x: f(x)",
    "def make(): return functools.partial(lambda n, x: @, 1)",
    "def make(): return functools.partial(lambda x, n: @, n=2.0)",
    "@dataclasses.dataclass(frozen=True)\nclass Model:\n  rate: float\n"
    "  def __call__(self, x): return @\ndef make(): return Model(2.0)",
    "class Model(typing.NamedTuple):\n  rate: float\n"
    "  def run(self, x): return @\ndef make(): return Model(2.0).run",
    "def make():\n  f = kiln.jit(lambda x: @)\n  return lambda x: f(x)",
    "def kept(x): return @\nkept_too = kiln.jit(kept)\ndef make(): return lambda x: kept_too(x)",
    "def make(): return lambda x: kiln.vmap(lambda x: @)(x[None])",
    "def make(): return kiln.vmap(lambda x: @, in_axes=None, axis_size=2)",
    "def make(): return kiln.checkpoint(lambda x: @)",
    "def make(): return lambda x: kiln.lax.scan(lambda c, _: (c, (@)), 0, None, length=2)[1]",
    "def make(): return lambda x: (kiln.lax.cond(x > 0, lambda x: (@), lambda x: (@), x))",
    "def make(): return lambda x: [@ for _ in range(2)]",
    "def make(): return lambda x: (lambda y=1: (@))()",
    "@kiln.custom_jvp\ndef rule(x): return x\n"
    "rule.defjvp(lambda p, t: (p[0], t[0]))\ndef make(): return lambda x: (rule(x), @)",
    "def make():\n  @kiln.jit\n  def f(x):\n    return (kiln.jit(lambda x: (@)))(x)\n"
    "  return lambda x: f(x)",
]
STEPS = 6
_REFUSALS = (AttributeError, TypeError, ValueError, LookupError, NameError)


@dataclasses.dataclass
class Program:
    """One program: its text, then steps, each a text to run, or None for a call."""

    text: str
    steps: list[str | None]
    undo: str
    file: str


def drawn(seed: int) -> Program:
    """Return the program of a seed."""
    rng = random.Random(seed)

    def filled(text: str, number: int) -> str:
        parts = text.replace("@dataclass", "\0").replace("@func", "\1").replace("@kiln", "\2")
        parts = parts.replace("@struct", "\3").replace("@static", "\4").replace("@class", "\5")
        parts = parts.replace("@property", "\6").replace("@", str(number))
        for mark, word in enumerate(_DECORATORS):
            parts = parts.replace(chr(mark), word)
        while "$" in parts:
            parts = parts.replace("$", rng.choice(VALUES), 1)
        return parts

    places = [(n, rng.choice(PLACES)) for n in range(rng.choice((1, 1, 1, 2, 2, 3)))]
    reads = ", ".join(filled(place.read, n) for n, place in places)
    shell = rng.choice(SHELLS)
    marked = shell.replace("@dataclass", "\0").replace("@kiln", "\2").replace("@", f"(x, {reads})")
    shell = marked.replace("\0", "@dataclass").replace("\2", "@kiln")
    text = "\n".join([*[filled(place.define, n) for n, place in places], shell])
    steps: list[str | None] = [None, None]
    for _ in range(rng.randrange(2, STEPS)):
        n, place = rng.choice(places)
        steps += [filled(rng.choice(place.changes), n), None]
    steps.append(None)
    undo = "\n".join(filled(place.undo, n) for n, place in places)
    return Program(text, steps, undo, rng.choice(("<string>", "written.py")))


_DECORATORS = ("@dataclass", "@func", "@kiln", "@struct", "@static", "@class", "@property")


def outcome(fun: Any) -> Any:
    """Return what a fresh function is traced to: the program and its constants, or the error."""
    try:
        traced = kiln.jit(fun).trace(np.float32(5))
    except Exception as error:  # noqa: BLE001 - the same error is the same result
        return type(error), str(error).partition("\n")[0][:40]
    closed = traced.jaxpr
    consts = [(np.asarray(c).dtype, np.asarray(c).tobytes()) for c in closed.consts]
    return str(closed.jaxpr), consts, str(traced.out_info)


def differences(program: Program) -> Iterator[tuple[int, Any, Any]]:
    """Run a program; yield the steps at which contents make a difference."""
    if len(BASE) == 1:
        exec(HEAD, BASE)
    space = dict(BASE)
    with contextlib.ExitStack() as stack:
        space["enter"] = stack.enter_context
        exec(compile(program.text, program.file, "exec"), space)
        try:
            for number, step in enumerate(program.steps):
                if step is not None:
                    # A change that cannot be made is none.
                    with contextlib.suppress(*_REFUSALS):
                        exec(compile(step, program.file, "exec"), space)
                    continue
                found = outcome(space["make"]())
                with override(content=False):
                    expected = outcome(space["make"]())
                if found != expected:
                    yield number, found, expected
        finally:
            exec(program.undo, space)


def is_read(program: Program) -> bool:
    """Tell whether the function of a program has a content at the start."""
    space = dict(BASE)
    exec(compile(program.text, program.file, "exec"), space)
    try:
        return content_of(space["make"]()) is not None
    finally:
        exec(program.undo, space)
