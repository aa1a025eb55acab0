// The numbering of element types in kernels that compiled code calls, and rows along an axis.
//
// All of it is private to each file that includes it, as is loops/elements.h.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "machine/scratch.h"

namespace kiln {
namespace {

// engines/native/building/kernel_calls.py has the same numbers.
enum Element : int64_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUint8,
  kUint16,
  kUint32,
  kUint64,
  kFloat16,
  kBfloat16,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
};

// The status of a kernel: the numbers of native_call.h, and these.
enum KernelStatus : int32_t {
  kUnsupported = 2,  // an element type or a number that the kernel does not accept
};

[[maybe_unused]] constexpr int64_t size_of(int64_t type) {
  switch (type) {
    case kBool:
    case kInt8:
    case kUint8: return 1;
    case kInt16:
    case kUint16:
    case kFloat16:
    case kBfloat16: return 2;
    case kInt32:
    case kUint32:
    case kFloat32: return 4;
    case kInt64:
    case kUint64:
    case kFloat64:
    case kComplex64: return 8;
    case kComplex128: return 16;
    default: return 0;
  }
}

// Memory for one call of a kernel, with room for a vector after the last element.
class FreshMemory {
 public:
  explicit FreshMemory(int64_t bytes) : scratch_(static_cast<size_t>(bytes) + kSlack) {}
  explicit operator bool() const { return static_cast<bool>(scratch_); }
  char* data() const { return scratch_.bytes(); }

 private:
  static constexpr size_t kSlack = 64;
  Scratch scratch_;
};

// The storage types of narrow floats; arithmetic on them is in float.
struct Half {
  uint16_t bits;
};
struct Brain {
  uint16_t bits;
};

[[maybe_unused]] inline float widen(Brain x) {
  uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

[[maybe_unused]] inline float widen(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16;
  const uint32_t rest = x.bits & 0x7fff;
  // The exponent is shifted into place, then corrected by a multiplication, which normalizes
  // denormals.
  uint32_t bits = rest << 13;
  float out;
  std::memcpy(&out, &bits, sizeof out);
  out *= 0x1p112f;
  std::memcpy(&bits, &out, sizeof bits);
  if (rest >= 0x7c00) bits = 0x7f800000 | (rest & 0x3ff) << 13;
  bits |= sign;
  std::memcpy(&out, &bits, sizeof out);
  return out;
}

[[maybe_unused]] inline void narrow(float x, Brain& out) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
  out.bits = static_cast<uint16_t>((x != x ? bits | 0x400000 : rounded) >> 16);
}

[[maybe_unused]] inline void narrow(float x, Half& out) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const uint32_t sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  uint32_t found;
  if (bits > 0x7f800000) {
    found = 0x7e00 | (bits >> 13 & 0x3ff);
  } else if (bits >= 0x477ff000) {  // rounds to 2^16 or more
    found = 0x7c00;
  } else if (bits < 0x38800000) {  // a denormal: adding a half aligns and rounds its bits
    float wide;
    std::memcpy(&wide, &bits, sizeof wide);
    wide += 0.5f;
    std::memcpy(&bits, &wide, sizeof bits);
    found = bits - 0x3f000000;
  } else {
    found = (bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13;
  }
  out.bits = static_cast<uint16_t>(sign | found);
}

// A view of an array as rows along one axis: (outer, size, inner), row r being [r / inner, :, r %
// inner].
struct Rows {
  int64_t size, inner;

  // The first element's offset, in elements.
  int64_t start(int64_t row) const { return row / inner * size * inner + row % inner; }
};

template <typename T>
[[maybe_unused]] void gather_rows(const char* from, char* to, int64_t count, Rows rows) {
  for (int64_t i = 0; i < rows.size; ++i) {
    const char* line = from + i * rows.inner * static_cast<int64_t>(sizeof(T));
    for (int64_t b = 0; b < count; ++b) {
      std::memcpy(to + (b * rows.size + i) * static_cast<int64_t>(sizeof(T)),
                  line + b * static_cast<int64_t>(sizeof(T)), sizeof(T));
    }
  }
}

template <typename T>
[[maybe_unused]] void scatter_rows(const char* from, char* to, int64_t count, Rows rows) {
  for (int64_t i = 0; i < rows.size; ++i) {
    char* line = to + i * rows.inner * static_cast<int64_t>(sizeof(T));
    for (int64_t b = 0; b < count; ++b) {
      std::memcpy(line + b * static_cast<int64_t>(sizeof(T)),
                  from + (b * rows.size + i) * static_cast<int64_t>(sizeof(T)), sizeof(T));
    }
  }
}

struct Sixteen {
  char bytes[16];
};

// Copies adjacent rows to dense ones, and back. They are in one block of `inner`.
[[maybe_unused]] inline void gather_rows(const char* from, char* to, int64_t count, Rows rows,
                                         int64_t item) {
  switch (item) {
    case 1: return gather_rows<char>(from, to, count, rows);
    case 2: return gather_rows<uint16_t>(from, to, count, rows);
    case 4: return gather_rows<uint32_t>(from, to, count, rows);
    case 8: return gather_rows<uint64_t>(from, to, count, rows);
    default: return gather_rows<Sixteen>(from, to, count, rows);
  }
}
[[maybe_unused]] inline void scatter_rows(const char* from, char* to, int64_t count, Rows rows,
                                          int64_t item) {
  switch (item) {
    case 1: return scatter_rows<char>(from, to, count, rows);
    case 2: return scatter_rows<uint16_t>(from, to, count, rows);
    case 4: return scatter_rows<uint32_t>(from, to, count, rows);
    case 8: return scatter_rows<uint64_t>(from, to, count, rows);
    default: return scatter_rows<Sixteen>(from, to, count, rows);
  }
}

}  // namespace
}  // namespace kiln
