"""Programs that make a function, and change something that it reaches or that is in force."""

from __future__ import annotations

HEAD = """
import abc, builtins, collections, contextvars, dataclasses, enum, functools, itertools, math
import operator, os, threading, types, typing, weakref
import numpy as np
import kiln
import kiln.numpy as jnp
import kiln.linen as nn
k = 2.0
class Plain: pass
def undo(): pass
"""

# What is defined, and what is run to change it. `make()` makes the function.
CHANGES: dict[str, tuple[str, str]] = {}


def change(name: str, text: str, then: str = "global k; k = 3.0") -> None:
    CHANGES[name] = (text, then)


# Attributes of functions and wrappers.
for wrapper in (
    *("kiln.jit", "kiln.custom_jvp", "kiln.custom_vjp", "functools.partial", "kiln.checkpoint"),
    *("functools.lru_cache", "functools.wraps(len)", "kiln.grad", "kiln.named_call"),
):
    change(
        f"an attribute of {wrapper}",
        f"""
def make():
    h = ({wrapper})(lambda x: x)
    h.scale = k
    return lambda x: x * h.scale
""",
    )
change(
    "an attribute of a function of kiln",
    "def make():\n  jnp.sin.scale = k\n  return lambda x: x * jnp.sin.scale\n"
    "def undo(): del jnp.sin.scale\n",
)
change(
    "another attribute of a function of kiln",
    "def make():\n  g = kiln.vmap; g.scale = k\n  return lambda x: x * g.scale\n"
    "def undo(): del kiln.vmap.scale\n",
)
change(
    "an attribute of a class of kiln",
    "kiln.Array.scale = 2.0\ndef make(): return lambda x: x * kiln.Array.scale\n"
    "def undo(): del kiln.Array.scale\n",
    "kiln.Array.scale = 3.0",
)
change(
    "an attribute of a scalar type",
    "jnp.float32.scale = 2.0\ndef make(): return lambda x: x * jnp.float32.scale\n"
    "def undo(): del jnp.float32.scale\n",
    "jnp.float32.scale = 3.0",
)
change(
    "a format names an attribute",
    "def make():\n  h = lambda x: x\n  h.scale = k\n"
    "  return lambda x: x * float('{0.scale}'.format(h))\n",
)
change(
    "a format names a hidden attribute",
    "def h(x): 'docstring'\ndef make(): return lambda x: x * len('{0.__doc__}'.format(h))\n",
    "h.__doc__ = 'other docstring'",
)
change(
    "a pattern names a hidden attribute",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  '12'\ns = S()\ndef make():\n  def f(x):\n"
    "    match s:\n      case S(__doc__=d): return x * float(d)\n  return f\n",
    "S.__doc__ = '13'",
)
change(
    "the code of a rule",
    """
@kiln.custom_jvp
def f(x): return x * 1.0
f.defjvp(lambda p, t: (p[0], t[0] * 2.0))
def make(): return lambda x: kiln.jvp(f, (x,), (x,))[1]
""",
    "f.defjvp(lambda p, t: (p[0], t[0] * 3.0))",
)
change(
    "whether a rule takes symbolic zeros",
    """
def fwd(x, y): return (x if kiln.Array is None else getattr_(x)) * 1.0, None
def getattr_(x): return x.value if hasattr_(x) else x
def hasattr_(x): return not isinstance(x, kiln.Array)
def bwd(r, g): return g, g
def make():
    @kiln.custom_vjp
    def f(x, y): return x * 1.0
    f.defvjp(fwd, bwd, symbolic_zeros=k == 3.0)
    return lambda x: kiln.vjp(f, x, x)[0] * k
""",
)
change(
    "the keywords of a partial",
    "p = functools.partial(lambda x, s: x * s, s=2.0)\ndef make(): return lambda x: p(x)\n",
    "p.keywords['s'] = 3.0",
)
# What is in force.
change(
    "intercepted methods",
    "def make(): return lambda x: nn.Dense(1).init_with_output(kiln.random.key(0), x[None])[0]\n",
    "stack.enter_context(nn.intercept_methods(lambda f, a, w, c: f(*a, **w) * 2))",
)
change(
    "intercepted methods of a class derived here",
    "class M(nn.Module):\n  @nn.compact\n  def __call__(self, x): return x * 2\n"
    "def make(): return lambda x: M().apply({}, x)\n",
    "stack.enter_context(nn.intercept_methods(lambda f, a, w, c: f(*a, **w) * 2))",
)
change(
    "a method of a layer",
    "before = nn.Dense.__call__\n"
    "def make(): return lambda x: nn.Dense(1).init_with_output(kiln.random.key(0), x[None])[0]\n"
    "def undo(): nn.Dense.__call__ = before\n",
    "nn.Dense.__call__ = nn.compact(lambda self, x: x * 7)",
)
for name, then in {
    "x64": "kiln.enable_x64(True)",
    "promotion": "kiln.numpy_dtype_promotion('strict')",
    "the precision of products": "kiln.default_matmul_precision('highest')",
    "no jit": "kiln.disable_jit()",
}.items():
    change(
        f"an option: {name}",
        "def make(): return lambda x: kiln.jit(lambda y: y * np.float32(2))(x) * 2 + "
        "kiln.random.uniform(kiln.random.key(0))\n",
        f"stack.enter_context({then}) if hasattr(kiln, '{then.partition('(')[0][5:]}') else None",
    )
change(
    "an environment variable",
    "os.environ['KILN_TEST_SCALE'] = '2'\n"
    "def make(): return lambda x: x * float(os.environ['KILN_TEST_SCALE'])\n"
    "def undo(): del os.environ['KILN_TEST_SCALE']\n",
    "os.environ['KILN_TEST_SCALE'] = '3'",
)
change(
    "an environment variable by a function",
    "os.environ['KILN_TEST_SCALE'] = '2'\n"
    "def make(): return lambda x: x * float(os.getenv('KILN_TEST_SCALE'))\n"
    "def undo(): del os.environ['KILN_TEST_SCALE']\n",
    "os.environ['KILN_TEST_SCALE'] = '3'",
)
change(
    "a context variable",
    "v = contextvars.ContextVar('v', default=2.0)\ndef make(): return lambda x: x * v.get()\n",
    "v.set(3.0)",
)
change(
    "a value of this thread",
    "v = threading.local(); v.k = 2.0\ndef make(): return lambda x: x * v.k\n",
    "v.k = 3.0",
)
change(
    "how NumPy takes errors",
    "a, b = np.float32(1), np.float32(0)\n"
    "def make():\n  def f(x):\n    try: return x * (a / b)\n"
    "    except FloatingPointError: return x\n  return f\n",
    "stack.enter_context(np.errstate(all='raise'))",
)
change(
    "how NumPy takes errors of numbers made inside",
    "def make():\n  def f(x):\n    try: return x * (np.float32(1) / np.float32(0))\n"
    "    except FloatingPointError: return x\n  return f\n",
    "stack.enter_context(np.errstate(all='raise'))",
)

# Registrations.
change(
    "an abstract class registers another",
    "class Base(abc.ABC): pass\nclass P:\n  pass\n"
    "def make(): return lambda x: x * (2 if isinstance(P(), Base) else 3)\n",
    "Base.register(P)",
)
change(
    "an abstract class gets a subclass that says yes",
    "class Base(abc.ABC): pass\nclass P:\n  pass\n"
    "def make(): return lambda x: x * (2 if isinstance(P(), Base) else 3)\n",
    "globals()['Sub'] = type(Base)('Sub', (Base,), "
    "{'__subclasshook__': classmethod(lambda cls, c: True)})",
)
change(
    "a sequence is registered",
    "class P:\n  def __len__(self): return 2\n  def __getitem__(self, i): return (2., 3.)[i]\n"
    "def make():\n  def f(x):\n    match P():\n      case [a, b]: return x * b\n"
    "      case _: return x\n  return f\n",
    "collections.abc.Sequence.register(P)",
)
change(
    "a pytree node is registered",
    "class P:\n  pass\ndef make(): return lambda x: x * len(kiln.tree.leaves([P(), P()]))\n",
    "kiln.tree_util.register_pytree_node(P, lambda p: ((), None), lambda d, c: P())",
)
change(
    "a function registers a pytree node",
    "P = None\n"
    "def make():\n  class P: pass\n"
    "  def f(x): kiln.tree_util.register_pytree_node(P, lambda p: ((), None), lambda d, c: P())\n"
    "  def g(x):\n    if not kiln.tree.leaves(P()): return x\n    f(x)\n    return x * 2\n"
    "  return g\n",
    "pass",
)

# Classes written by the user that look as if the library had written them.
change(
    "a global of a method",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  rate: float\n"
    "  def __call__(self, x): return x * self.rate * k\n"
    "def make(): return S(2.0)\n",
)
change(
    "a global of a special method",
    "@dataclasses.dataclass(frozen=True, eq=False)\nclass S:\n  rate: float\n"
    "  def __eq__(self, other): return k == 3.0\n  def __hash__(self): return 0\n"
    "s, t = S(1.0), S(2.0)\ndef make(): return lambda x: x * (2 if s == t else 3)\n",
)
change(
    "a global of a property",
    "class S(typing.NamedTuple):\n  rate: float\n  @property\n"
    "  def scaled(self): return self.rate * k\n"
    "def make():\n  s = S(2.0)\n  return lambda x: x * s.scaled\n",
)
change(
    "a global of a method of an enumeration",
    "class E(enum.Enum):\n  A = 1\n  def scaled(self): return self.value * k\n"
    "def make(): return lambda x: x * E.A.scaled()\n",
)
change(
    "a default of a written method",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  rate: float = 2.0\n"
    "def make(): return lambda x: x * S().rate\n",
    "S.__init__.__defaults__ = (3.0,)",
)
change(
    "a factory of a written method",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n"
    "  rate: float = dataclasses.field(default_factory=lambda: k)\n"
    "def make(): return lambda x: x * S().rate\n",
)
change(
    "a written method exchanged",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  rate: float = 2.0\n"
    "s, t = S(), S()\ndef make(): return lambda x: x * (2 if s == t else 3)\n",
    "S.__eq__ = lambda self, other: False",
)
change(
    "what follows a written method",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  rate: float = 2.0\n"
    "  def __post_init__(self): object.__setattr__(self, 'rate', self.rate * k)\n"
    "def make(): return lambda x: x * S().rate\n",
)
change(
    "the default of a named tuple",
    "class S(typing.NamedTuple):\n  rate: float = 2.0\ndef make(): return lambda x: x * S().rate\n",
    "S.__new__.__defaults__ = (3.0,)",
)
change(
    "an item of a named tuple exchanged",
    "class S(typing.NamedTuple):\n  a: float\n  b: float\ns = S(2.0, 3.0)\n"
    "def make(): return lambda x: x * s.a\n",
    "S.a = S.b",
)
change(
    "how a written method prints",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  rate: float = 2.0\ns = S()\n"
    "def make(): return lambda x: x * len(repr(s))\n",
    "S.__qualname__ = 'Longer'",
)
change("how a class prints", "def make(): return lambda x: x * len(f'{Plain}')\n",
       "Plain.__module__ = 'another'")  # fmt: skip

# State of instances.
for base in ("dict", "list", "set", "collections.OrderedDict", "collections.Counter", "tuple"):
    filled = "{'a': k}" if base not in ("list", "set", "tuple") else "[k]"
    change(
        f"the items of a dataclass derived from {base}",
        f"@dataclasses.dataclass(frozen=True, eq=False)\nclass S({base}):\n  pass\n"
        f"def make():\n  s = {base}.__new__(S, {filled})\n"
        + ("" if base == "tuple" else f"  s.__class__.__mro__[1].__init__(s, {filled})\n")
        + "  return lambda x: x * sum(s.values() if hasattr_ else s)\n"
        + f"hasattr_ = {base not in ('list', 'set', 'tuple')}\n",
    )
change(
    "attributes of a tuple with fields",
    "class S(tuple):\n  _fields = ()\n"
    "def make():\n  s = S()\n  s.k = k\n  return lambda x: x * s.k\n",
)
change(
    "attributes of a class below a named tuple",
    "class S(collections.namedtuple('S', 'a')):\n  pass\n"
    "def make():\n  s = S(1)\n  s.k = k\n  return lambda x: x * s.k\n",
)
change(
    "how a named tuple is iterated",
    "class S(collections.namedtuple('S', 'a')):\n  def __iter__(self): return iter((1,))\n"
    "def make():\n  s = S(k)\n  return lambda x: x * s.a\n",
)
change(
    "a private slot",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  __slots__ = ('__k',)\n"
    "  def scaled(self, x): return x * self.__k\n"
    "def make():\n  s = S()\n  object.__setattr__(s, '_S__k', k)\n  return s.scaled\n",
)
change(
    "a field set past the class",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  rate: float\ns = S(2.0)\n"
    "def make(): return lambda x: x * s.rate\n",
    "object.__setattr__(s, 'rate', 3.0)",
)
change(
    "the arguments of a frozen exception",
    "@dataclasses.dataclass(frozen=True)\nclass S(Exception):\n  rate: float\n"
    "def make():\n  s = S(1.0)\n  BaseException.__init__(s, k)\n"
    "  return lambda x: x * s.args[0]\n",
)
change(
    "the class of an instance",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  def f(self): return 2.0\n"
    "@dataclasses.dataclass(frozen=True)\nclass T:\n  def f(self): return 3.0\n"
    "s = S()\ndef make(): return lambda x: x * s.f()\n",
    "object.__setattr__(s, '__class__', T)",
)

# State of classes.
change("an attribute of a class", "class S: k = 2.0\ndef make(): return lambda x: x * S.k\n",
       "S.k = 3.0")  # fmt: skip
change("an attribute of a base", "class B: k = 2.0\nclass S(B): pass\n"
       "def make(): return lambda x: x * S.k\n", "B.k = 3.0")  # fmt: skip
change("the bases", "class B: k = 2.0\nclass C: k = 3.0\nclass S(B): pass\n"
       "def make(): return lambda x: x * S.k\n", "S.__bases__ = (C,)")  # fmt: skip
change("an attribute of a metaclass", "class M(type): k = 2.0\nclass S(metaclass=M): pass\n"
       "def make(): return lambda x: x * S.k\n", "M.k = 3.0")  # fmt: skip
change("a descriptor", "class D:\n  def __get__(self, i, c): return k\nclass S: a = D()\n"
       "def make(): return lambda x: x * S.a\n")  # fmt: skip
change("a cached property",
       "@dataclasses.dataclass(frozen=True)\nclass S:\n  @functools.cached_property\n"
       "  def a(self): return k\ndef make(): s = S(); return lambda x: x * s.a\n")  # fmt: skip
change("a static method", "class S:\n  @staticmethod\n  def f(x): return x * k\n"
       "def make(): return lambda x: S.f(x)\n")  # fmt: skip
change("a class method", "class S:\n  k = 2.0\n  @classmethod\n  def f(cls, x): return x * cls.k\n"
       "def make(): return lambda x: S.f(x)\n", "S.k = 3.0")  # fmt: skip

# Enumerations.
change(
    "an attribute of a member met in its class",
    "class E(enum.Enum):\n  A = 1\nE.A.extra = 2.0\ndef make(): return lambda x: x * E.A.extra\n",
    "E.A.extra = 3.0",
)
for name in ("_value_scale", "_values", "_use", "_member_scale", "_hash_me", "_generate", "_new"):
    change(
        f"an attribute {name} of an enumeration",
        f"class E(enum.Enum):\n  A = 1\n  def f(self): return self.{name}\n"
        f"type.__setattr__(E, '{name}', 2.0)\ndef make(): return lambda x: x * E.A.f()\n",
        f"type.__setattr__(E, '{name}', 3.0)",
    )
change(
    "the value of a member",
    "class E(enum.Enum):\n  A = 2.0\ndef make(): return lambda x: x * E.A.value\n",
    "E.A._value_ = 3.0",
)
change(
    "the name of a member",
    "class E(enum.Enum):\n  A = 2.0\ndef make(): return lambda x: x * len(E.A.name)\n",
    "E.A._name_ = 'AA'",
)
change(
    "which member a value means",
    "class E(enum.Enum):\n  A = 2.0\n  B = 3.0\ndef make(): return lambda x: x * E(2.0).value\n",
    "E._value2member_map_[2.0] = E.B",
)
change(
    "which member a name means",
    "class E(enum.Enum):\n  A = 2.0\n  B = 3.0\ndef make(): return lambda x: x * E['A'].value\n",
    "E._member_map_['A'] = E.B",
)
change(
    "what the base of enumerations says",
    "class E(enum.Enum):\n  A = 2.0\ndef make(): return lambda x: x * getattr_(E.A)\n"
    "def getattr_(e): return e.extra if isinstance(e, enum.Enum) else 0\n"
    "enum.Enum.extra = 2.0\ndef undo(): del enum.Enum.extra\n",
    "enum.Enum.extra = 3.0",
)

# Which of equal things.
change(
    "identity by operator.is_",
    "a, b = (), (1.5,)\na = b\ndef make(): return lambda x: x * (2 if operator.is_(a, b) else 3)\n",
    "global a; a = tuple([1.5])",
)
change(
    "identity of partials",
    "a = b = functools.partial(abs)\ndef make(): return lambda x: x * (2 if a == b else 3)\n",
    "global a; a = functools.partial(abs)",
)
change(
    "identity of functions in a dict",
    "f = g = lambda x: x\ndef make(): return lambda x: x * len({f: 1, g: 2})\n",
    "global f; f = types.FunctionType(g.__code__, globals(), g.__name__)",
)
change(
    "identity of NaN",
    "a = b = float('nan')\ndef make(): return lambda x: x * (2 if a in (b,) else 3)\n",
    "global a; a = float('nan')",
)
change(
    "identity of instances",
    "@dataclasses.dataclass(frozen=True, eq=False)\nclass S:\n  rate: float\n"
    "a = b = S(1.0)\ndef make(): return lambda x: x * (2 if a == b else 3)\n",
    "global a; a = S(1.0)",
)
change(
    "identity of jitted functions",
    "f = lambda x: x\na = b = kiln.jit(f)\ndef make(): return lambda x: x * (2 if a == b else 3)\n",
    "global a; a = kiln.jit(f)",
)
change(
    "identity of methods",
    "@dataclasses.dataclass(frozen=True)\nclass S:\n  rate: float\n  def f(self): pass\n"
    "a = b = S(1.0)\ndef make(): return lambda x: x * (2 if a.f == b.f else 3)\n",
    "global a; a = S(1.0)",
)
change(
    "the order of a constant set",
    "text = '{8, 0}'\ndef make():\n  return eval(f'lambda x: x * [i for i in {text}][0]')\n",
    "global text; text = '{0, 8}'",
)

# Modules, builtins, patches.
change("a module's attribute",
       "m = types.ModuleType('m'); m.k = 2.0\ndef make(): return lambda x: x * m.k\n",
       "m.k = 3.0")  # fmt: skip
change("a module below a module",
       "m = types.ModuleType('m'); m.n = types.ModuleType('n'); m.n.k = 2.0\n"
       "def make(): return lambda x: x * m.n.k\n", "m.n.k = 3.0")  # fmt: skip
change("a module that answers itself",
       "m = types.ModuleType('m'); m.__getattr__ = lambda name: k\n"
       "def make(): return lambda x: x * m.anything\n")  # fmt: skip
change("a constant of the standard library",
       "before = math.pi\ndef make(): return lambda x: x * math.pi\n"
       "def undo(): math.pi = before\n", "math.pi = 3.0")  # fmt: skip
change("a function of the standard library",
       "before = math.sin\ndef make(): return lambda x: x * math.sin(1.0)\n"
       "def undo(): math.sin = before\n", "math.sin = math.cos")  # fmt: skip
change("a builtin", "before = abs\ndef make(): return lambda x: x * abs(-2)\n"
       "def undo(): builtins.abs = before\n", "builtins.abs = lambda x: 3")  # fmt: skip
change("a global before a builtin", "def make(): return lambda x: x * abs(-2)\n",
       "globals()['abs'] = lambda x: 3")  # fmt: skip
change("a function of kiln", "before = jnp.sin\ndef make(): return lambda x: jnp.sin(x)\n"
       "def undo(): jnp.sin = before\n", "jnp.sin = lambda x: x * 3")  # fmt: skip
change("a mutable default", "d = [2.0]\ndef make():\n  def f(x, d=d): return x * d[0]\n"
       "  return f\n",
       "d[0] = 3.0")  # fmt: skip
change("a cell", "def outer():\n  c = 2.0\n  def put(v): nonlocal c; c = v\n"
       "  def make(): return lambda x: x * c\n  return make, put\nmake, put = outer()\n",
       "put(3.0)")  # fmt: skip
change(
    "a constant exchanged in code",
    "box = Plain(); box.k = 2.0\n"
    "def make():\n  h = lambda b: 7777777\n"
    "  h.__code__ = h.__code__.replace(co_consts=tuple(\n"
    "    box if v == 7777777 else v for v in h.__code__.co_consts))\n"
    "  return lambda x: x * h(x).k\n",
    "box.k = 3.0",
)
change(
    "a list among the constants of code",
    "box = [2.0]\n"
    "def make():\n  h = lambda b: 7777777\n"
    "  h.__code__ = h.__code__.replace(co_consts=tuple(\n"
    "    box if v == 7777777 else v for v in h.__code__.co_consts))\n"
    "  return lambda x: x * h(x)[0]\n",
    "box[0] = 3.0",
)
change("globals of a function that claims to be kiln's",
       "text = 'def outer():\\n  def f(x): return x * k\\n  return f\\n'\n"
       "def make():\n  space = {'k': k}\n"
       "  exec(compile(text, kiln.__file__, 'exec'), space)\n"
       "  return space['outer']()\n")  # fmt: skip
_OWN = """
from kiln.interpreters import ad, batching, mlir
p = kiln.extend.core.Primitive("p")
p.def_abstract_eval(lambda a: a)
def lower(f): mlir.register_lowering(p, mlir.lower_fun(f, multiple_results=False))
lower(lambda a: a * 2)
"""
change("a lowering", _OWN + "def make(): return lambda x: p.bind(x)\n", "lower(lambda a: a * 3)")
change(
    "a lowering of a primitive in a jitted function",
    _OWN + "h = kiln.jit(p.bind)\ndef make(): return lambda x: h(x)\n",
    "lower(lambda a: a * 3)",
)
change(
    "a rule of derivatives",
    _OWN + "ad.primitive_jvps[p] = lambda v, t: (v[0], t[0] * 2)\n"
    "def make(): return lambda x: kiln.jvp(p.bind, (x,), (x,))[1]\n",
    "ad.primitive_jvps[p] = lambda v, t: (v[0], t[0] * 3)",
)
change(
    "a rule of derivatives of a primitive of kiln",
    "from kiln import lax\nfrom kiln.interpreters import ad\n"
    "def make(): return lambda x: kiln.jvp(jnp.sin, (x,), (x,))[1]\n"
    "def undo(): ad.primitive_jvps.pop(lax.sin_p)\n",
    "ad.primitive_jvps[lax.sin_p] = lambda v, t: (v[0], t[0] * 7)",
)
change(
    "a rule of batches of a primitive of kiln",
    "from kiln import lax\nfrom kiln.interpreters import batching\n"
    "def make(): return lambda x: kiln.vmap(jnp.sin)(jnp.stack([x, x]))[0]\n"
    "def undo(): batching.primitive_batchers.pop(lax.sin_p)\n",
    "batching.primitive_batchers[lax.sin_p] = lambda a, d: (a[0] * 7, d[0])",
)
