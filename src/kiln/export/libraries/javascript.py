"""The JavaScript of a WebAssembly module: typed arrays in and out, in browsers and in Node."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.base.lazy import json
from kiln.export.libraries.c_types import polynomial
from kiln.export.libraries.signature import Array, Signature, Struct
from kiln.ir.sizes.polynomial import Atom
from kiln.ir.sizes.size import Dim

_TEXT = """\
// Written by kiln {version}. Functions of {p}.wasm:
//
//   import {{ load }} from "./{p}.mjs";
//   const library = await load();
//
{uses}
//
// Arrays are dense and row-major, in typed arrays; complex numbers are two floats, f16 and bf16
// their bits. Sizes come first, by name. Results are fresh arrays, one or an array of several;
// arguments that are in-out are overwritten.
// prepare() returns a call whose arrays are in the module's memory, so that no call copies:
// `call.arrays.NAME = values` writes one, `call.run()` computes, `call.arrays.NAME` is a view of
// one until another call is prepared, and `call.free()` ends it.

const FUNCTIONS = {{
{functions}
}};

const TYPES = {{
  bool: Uint8Array, int8: Int8Array, int16: Int16Array, int32: Int32Array, int64: BigInt64Array,
  uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, uint64: BigUint64Array,
  float16: Uint16Array, bfloat16: Uint16Array, float32: Float32Array, float64: Float64Array,
  complex64: Float32Array, complex128: Float64Array,
}};

/** Compiles the module: from bytes, a WebAssembly.Module, or an address. */
export async function load(source = new URL("./{p}.wasm", import.meta.url)) {{
  let module = source;
  if (typeof source === "string" || source instanceof URL) module = await read(source);
  if (!(module instanceof WebAssembly.Module)) module = await WebAssembly.compile(module);
  const {{ exports }} = await WebAssembly.instantiate(module);
  exports._initialize();
  const library = {{ exports }};
  for (const [name, about] of Object.entries(FUNCTIONS)) library[name] = callable(exports, about);
  return library;
}}

async function read(address) {{
  const url = new URL(address, import.meta.url);
  if (url.protocol === "file:") return (await import("node:fs/promises")).readFile(url);
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${{url}}: status ${{response.status}}`);
  return response.arrayBuffer();
}}

function callable(exports, about) {{
  const counted = about.sizes.length > 0;
  let latest = null; // the call for the sizes of the latest one: its memory is used again
  const found = (...given) => {{
    const sizes = counted ? given.shift() : {{}};
    const names = about.sizes.map((name) => sizes?.[name]);
    if (latest === null || names.some((size, i) => size !== latest.sizes[i])) {{
      latest?.free();
      latest = null;
      latest = new Call(exports, about, names);
    }}
    return latest.of(given);
  }};
  found.prepare = (sizes = {{}}) =>
    new Call(exports, about, about.sizes.map((name) => sizes[name]));
  return found;
}}

class Call {{
  constructor(exports, about, sizes) {{
    this.exports = exports;
    this.about = about;
    this.sizes = sizes;
    this.held = [];
    this.context = 0;
    about.sizes.forEach((name, i) => {{
      if (Number.isInteger(sizes[i]) && sizes[i] >= 1 && sizes[i] < 2 ** 31) return;
      const remedy = `pass {{ ${{name}}: an integer from 1 }} first`;
      this.fail(`the size ${{name}} is ${{sizes[i]}}`, remedy);
    }});
    const named = Object.fromEntries(about.sizes.map((name, i) => [name, sizes[i]]));
    const numbers = sizes.map(BigInt);
    try {{
      this.context = exports.{p}_create(exports[`${{about.symbol}}_workspace_size`](...numbers));
      if (this.context === 0) this.outOfMemory();
      this.places = about.arguments.map((argument) => this.place(argument, named));
    }} catch (error) {{
      this.free();
      throw error;
    }}
    this.given = [this.context, ...numbers, ...this.places.map((place) => place.pointer)];
    this.arrays = grouped(this.places, this);
  }}

  /** Computes the results from the arrays. */
  run() {{
    if (this.context === 0) this.fail("its call was freed", "prepare another call");
    const status = this.exports[this.about.symbol](...this.given);
    if (status === 0) return;
    this.fail(this.text(status), "pass other sizes, or free other calls", status);
  }}

  /** Returns memory to the module; views of the arrays are not valid any more. */
  free() {{
    for (const pointer of this.held) this.exports.{p}_free(pointer);
    if (this.context !== 0) this.exports.{p}_destroy(this.context);
    this.held = [];
    this.context = 0;
  }}

  of(given) {{
    const needed = this.places.filter((place) => !place.is("out"));
    if (given.length !== needed.length) {{
      const names = needed.map((place) => place.name).join(", ") || "none";
      const wrong = `it has ${{needed.length}} arguments, and ${{given.length}} were given`;
      this.fail(wrong, `pass ${{names}}`);
    }}
    needed.forEach((place, i) => place.write(given[i], this));
    this.run();
    needed.forEach((place, i) => place.writeBack(given[i]));
    const results = this.places.filter((place) => place.is("out")).map((place) => place.read());
    return results.length > 1 ? results : results[0];
  }}

  place(value, sizes) {{
    if (value.fields === undefined) {{
      const elements = value.elements(sizes);
      const count = value.dtype.startsWith("complex") ? 2 * elements : elements;
      const pointer = this.allocate(count * TYPES[value.dtype].BYTES_PER_ELEMENT);
      return new Place(this.exports, value, count, pointer);
    }}
    const fields = value.fields.map((field) => this.place(field, sizes));
    const group = new Group(value.name, fields, this);
    if (!value.nested) {{
      const leaves = group.leaves();
      group.pointer = this.allocate(4 * leaves.length);
      const table = new Uint32Array(this.exports.memory.buffer, group.pointer, leaves.length);
      table.set(leaves.map((leaf) => leaf.pointer));
    }}
    return group;
  }}

  allocate(bytes) {{
    if (!(bytes <= 2 ** 31)) this.outOfMemory();
    const pointer = this.exports.{p}_allocate(BigInt(bytes));
    if (pointer === 0) this.outOfMemory();
    this.held.push(pointer);
    return pointer;
  }}

  outOfMemory() {{
    this.fail(this.text(1), "free other calls, or pass smaller sizes", 1);
  }}

  text(status) {{
    const start = this.exports.{p}_error(status);
    const bytes = new Uint8Array(this.exports.memory.buffer, start);
    return new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0)));
  }}

  fail(wrong, remedy, status = -1) {{
    const sizes = this.about.sizes.map((name, i) => `${{name}} = ${{this.sizes[i]}}`).join(", ");
    const error = new Error(`${{this.about.symbol}}(${{sizes}})\\n${{wrong}}\\n${{remedy}}`);
    throw Object.assign(error, {{ status }});
  }}
}}

/** An array in the module's memory. */
class Place {{
  constructor(exports, about, count, pointer) {{
    Object.assign(this, about, {{ exports, count, pointer, view: null }});
  }}

  is(direction) {{
    return this.direction === direction;
  }}

  leaves() {{
    return [this];
  }}

  get value() {{
    // Memory that has grown is another buffer.
    const {{ buffer }} = this.exports.memory;
    if (this.view === null || this.view.buffer !== buffer) {{
      this.view = new TYPES[this.dtype](buffer, this.pointer, this.count);
    }}
    return this.view;
  }}

  read() {{
    return this.value.slice();
  }}

  write(given, call) {{
    const Type = TYPES[this.dtype];
    const isTyped = given instanceof Type;
    const wanted = `pass a ${{Type.name}} of ${{this.count}} elements`;
    const numbers = Array.isArray(given) ? given.flat(Infinity) : [given];
    const isBits = this.dtype === "float16" || this.dtype === "bfloat16";
    if (!isTyped && (ArrayBuffer.isView(given) || isBits || this.is("inout"))) {{
      const kind = given?.constructor?.name ?? given;
      call.fail(`${{this.path}} is ${{this.type}}, and ${{kind}} was given`, wanted);
    }}
    const values = isTyped ? given : numbers;
    if (values.length !== this.count) {{
      const wrong = `${{this.path}} is ${{this.type}}, and ${{values.length}} elements were given`;
      call.fail(wrong, wanted);
    }}
    if (!isTyped && !numbers.every((value) => fits(value, Type))) {{
      call.fail(`${{this.path}} is ${{this.type}}, which does not hold all elements`, wanted);
    }}
    this.value.set(values);
  }}

  writeBack(given) {{
    if (this.is("inout")) given.set(this.value);
  }}
}}

/** Arrays by name. */
class Group {{
  constructor(name, fields, call) {{
    Object.assign(this, {{ name, fields, value: grouped(fields, call) }});
  }}

  is(direction) {{
    return this.fields.every((field) => field.is(direction));
  }}

  leaves() {{
    return this.fields.flatMap((field) => field.leaves());
  }}

  read() {{
    return Object.fromEntries(this.fields.map((field) => [field.name, field.read()]));
  }}

  write(given, call) {{
    for (const field of this.fields) field.write(given?.[field.name], call);
  }}

  writeBack(given) {{
    for (const field of this.fields) field.writeBack(given[field.name]);
  }}
}}

function grouped(places, call) {{
  const found = {{}};
  for (const place of places) {{
    const [get, set] = [() => place.value, (given) => place.write(given, call)];
    Object.defineProperty(found, place.name, {{ get, set, enumerable: true }});
  }}
  return found;
}}

function fits(value, Type) {{
  if (Type === Float32Array || Type === Float64Array) return typeof value === "number";
  if (!["number", "bigint", "boolean"].includes(typeof value)) return false;
  const isWide = Type === BigInt64Array || Type === BigUint64Array;
  if (isWide !== (typeof value === "bigint")) return false;
  return new Type([value])[0] === (isWide ? value : Number(value));
}}
"""


def javascript_text(prefix: str, signatures: Sequence[Signature], version: str) -> str:
    """Return the ES module that loads a WebAssembly module and calls its functions.

    `prefix` begins the names of the module's files and exports; `version` is that of kiln.
    """
    rows = [
        f"  {signature.symbol}: {{\n    symbol: {json.dumps(signature.symbol)},\n"
        f"    sizes: {json.dumps(signature.sizes)},\n    arguments: [\n"
        + "".join(f"      {_value(a.value, is_nested=False)},\n" for a in signature.arguments)
        + "    ],\n  },"
        for signature in signatures
    ]
    uses = "\n".join([f"//   {_use(signature)}" for signature in signatures])
    return _TEXT.format(p=prefix, version=version, functions="\n".join(rows), uses=uses)


def _use(signature: Signature) -> str:
    sizes = [f"{{ {', '.join(signature.sizes)} }}"] * bool(signature.sizes)
    given = [a.name for a in signature.arguments if not _is_result(a.value)]
    made = [a.name for a in signature.arguments if _is_result(a.value)]
    call = f"library.{signature.symbol}({', '.join([*sizes, *given])});"
    if not made:
        return call
    results = ", ".join(made)
    return f"const {results if len(made) == 1 else f'[{results}]'} = {call}"


def _is_result(value: Array | Struct) -> bool:
    if isinstance(value, Struct):
        return all(map(_is_result, value.fields))
    return _direction(value) == "out"


def _direction(value: Array) -> str:
    if not value.is_written:
        return "in"
    return "out" if value.leaf.operand is None else "inout"


def _value(value: Array | Struct, *, is_nested: bool = True) -> str:
    name = json.dumps(value.name)
    if isinstance(value, Struct):
        fields = ", ".join([_value(field) for field in value.fields])
        nested = ", nested: true" if is_nested else ""
        return f"{{ name: {name}{nested}, fields: [{fields}] }}"
    shape = ",".join(map(str, value.shape))
    elements = _size(value.elements)
    return (
        f"{{ name: {name}, path: {json.dumps(value.path)}, dtype: {json.dumps(value.dtype)}, "
        f'direction: "{_direction(value)}", type: {json.dumps(f"{value.dtype}[{shape}]")}, '
        f"elements: (n) => {elements} }}"
    )


def _size(dim: Dim) -> str:
    """Return a dimension as an expression of the named sizes, the properties of `n`."""
    return polynomial(dim, _atom)


def _atom(atom: Atom) -> str:
    kind, *parts = atom
    match kind:
        case "name":
            return f"n.{parts[0]}"
        case "floordiv":
            return f"Math.floor(({_size(parts[0])}) / ({_size(parts[1])}))"
    return f"Math.max({', '.join(_size(dim) for dim in parts[0])})"
