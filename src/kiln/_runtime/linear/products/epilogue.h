// Code that runs on each block of a product as soon as it is computed.
#pragma once

#include <cstdint>

#include "abi/pool.h"

namespace kiln {

// A compiled function that runs on a block of a batch of products. Rows are numbered across the
// whole batch; the function divides them into items, whose number of rows need not be that of the
// matrices.
struct Epilogue {
  // The first slots of a context: the item, the first column, the one after the last.
  static constexpr int kHead = 3;
  static constexpr int kMostSlots = 128;

  Call* call;          // of the thread
  ParallelBody body;   // on a range of the rows of an item
  void* const* slots;  // after those of the head
  int64_t count;       // of all slots
  int64_t place;       // the slot with the address of the product
  int64_t item_rows;
  int64_t columns;  // of the product
  int64_t element;  // bytes
  bool is_of_rows;  // whether it needs whole rows

  // Runs on rows and columns whose first element is at `block`, with the row stride of the whole
  // product. Rows of at most a vector are whole. Returns the first failure.
  [[nodiscard]] int32_t run(void* block, int64_t row, int64_t last_row, int64_t column,
                            int64_t last_column) const;

  // The same for another thread; if there is none `own` is null.
  Epilogue on(Call* own) const {
    Epilogue other = *this;
    if (own != nullptr) other.call = own;
    return other;
  }
};

}  // namespace kiln
