// What runs on each block of a product as soon as it is there.
#pragma once

#include <cstdint>

#include "../pool.h"

namespace kiln {

// A function of compiled code on a block of a stack of products. Rows are numbered through all
// matrices of the stack; the function sees them as items of so many rows, which need not be those of
// the matrices.
struct Epilogue {
  // The first slots of a context: the item, the first column, the one after the last.
  static constexpr int kHead = 3;
  static constexpr int kMostSlots = 64;

  Call* call;          // of the thread
  ParallelBody body;   // on a range of the rows of an item
  void* const* slots;  // after those of the head
  int64_t count;       // of all slots
  int64_t place;       // the slot with where the product lies
  int64_t item_rows;
  int64_t columns;  // of the product
  int64_t element;  // bytes
  bool is_of_rows;  // it needs whole rows

  // Runs on rows and columns of which the first element lies at `block`, and rows a row of the
  // whole product apart. Returns the first failure.
  [[nodiscard]] int32_t run(void* block, int64_t row, int64_t last_row, int64_t column,
                            int64_t last_column) const;

  // The same for another thread; where there is none `own` is null.
  Epilogue on(Call* own) const {
    Epilogue other = *this;
    if (own != nullptr) other.call = own;
    return other;
  }
};

}  // namespace kiln
