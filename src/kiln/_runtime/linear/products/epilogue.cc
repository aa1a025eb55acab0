#include "linear/products/epilogue.h"

#include <algorithm>

#include "abi/split.h"
#include "abi/symbols.h"
#include "linear/products/blocked.h"
#include "machine/scratch.h"

namespace kiln {

int32_t Epilogue::run(void* block, int64_t row, int64_t last_row, int64_t column,
                      int64_t last_column) const {
  void* own[kMostSlots];
  std::copy_n(slots, count - kHead, own + kHead);
  own[1] = reinterpret_cast<void*>(column);
  own[2] = reinterpret_cast<void*>(last_column);
  // The address at which the whole product would start: compiled code numbers its elements from
  // there.
  own[place] = reinterpret_cast<void*>(reinterpret_cast<intptr_t>(block) -
                                       (row * columns + column) * element);
  while (row < last_row) {
    const int64_t item = row / item_rows, first = item * item_rows;
    const int64_t until = std::min(last_row, first + item_rows);
    own[0] = reinterpret_cast<void*>(item);
    const int32_t status = body(call, own, row - first, until - first);
    if (status != kDone) return status;
    row = until;
  }
  return kDone;
}

namespace {

// Elements per task if the whole product is computed before its epilogue.
constexpr int64_t kTaskPoints = int64_t{1} << 14;

// kiln_gemm_epilogue_T: a batched matrix product (`kiln_gemm_T`) with a fused epilogue.
//
// Buffers: A, B, C, the epilogue, then its slots after the head. C may be null: then it is not
// materialized, and the epilogue reads one block of it.
// Numbers: those of `kiln_gemm_T`; the slots of the epilogue, which of them has C, the rows of an
// item, and whether the epilogue needs whole rows.
template <typename T>
int32_t gemm_epilogue(Call* call, void* const* buffers, const int64_t* numbers) {
  const Product p = Product::of(numbers);
  if (p.batch == 0 || p.m == 0 || p.n == 0) return kDone;
  const T *a = static_cast<const T*>(buffers[0]), *b = static_cast<const T*>(buffers[1]);
  T* c = static_cast<T*>(buffers[2]);
  const Epilogue after{call,
                       reinterpret_cast<ParallelBody>(buffers[3]),
                       buffers + 4,
                       numbers[10],
                       numbers[11],
                       numbers[12],
                       p.n,
                       sizeof(T),
                       numbers[13] != 0};
  if (p.packed_b || fits_blocks<T>(p)) return multiply_in_blocks(call, folded(p), a, b, c, &after);
  const int64_t rows = p.batch * p.m;
  const Scratch scratch(c == nullptr ? static_cast<size_t>(rows * p.n) * sizeof(T) : 0);
  if (!scratch) return kOutOfMemory;
  T* whole = c == nullptr ? reinterpret_cast<T*>(scratch.bytes()) : c;
  const int32_t status = multiply(call, p, a, b, whole);
  if (status != kDone) return status;
  return over_blocks(call, rows, std::max<int64_t>(1, kTaskPoints / p.n),
                     [&](Call* own, int64_t first, int64_t last) {
                       return after.on(own).run(whole + first * p.n, first, last, 0, p.n);
                     });
}

}  // namespace

KILN_KERNEL_SYMBOL("kiln_gemm_epilogue_f32", gemm_epilogue<float>)
KILN_KERNEL_SYMBOL("kiln_gemm_epilogue_f64", gemm_epilogue<double>)
}  // namespace kiln
