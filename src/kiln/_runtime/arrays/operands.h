// Operand values as programs read them: the memory where they already lie, or a copy made for the
// program.
#pragma once

#include <vector>

#include "arrays/memory.h"
#include "objects/object.h"

namespace kiln {

// The type of a row-major value, as compiled code sees it.
struct ValueType {
  int type_number;  // NumPy's number of the dtype
  size_t bytes;
};

// Read a sequence of pairs of a dtype and a number of bytes. None means zero bytes.
bool read_value_types(PyObject* given, std::vector<ValueType>& types);

// The addresses of the operands of one call, and the objects that must stay alive until it ends.
class Operands {
 public:
  // Whether placed arrays are accepted.
  explicit Operands(size_t count, bool takes_placed = false);
  Operands(const Operands&) = delete;
  Operands& operator=(const Operands&) = delete;
  ~Operands();

  // Add an array, a NumPy array or a scalar; false with an exception set if it does not fit.
  bool add(PyObject* object, const ValueType& type);

  // Add the address of memory that outlives the call.
  void add_kept(const void* pointer) { put(pointer, nullptr); }

  const void* const* pointers() const { return pointers_; }

  // Return the memory block that an operand of this many bytes fills completely; null if it lies
  // elsewhere.
  MemoryBlock* memory(size_t number, size_t bytes) const;

  // Take the memory of an operand that was added from an array, if the array holds the only
  // reference to it: the array is left without values. Null if there are others, or if the operand
  // lies elsewhere.
  Ref take_memory(size_t number, size_t bytes, PyObject* object);

 private:
  static constexpr size_t kInline = 16;
  struct alignas(16) Scalar {
    char bytes[16];
  };

  template <typename T>
  bool store(T value, PyObject* object, const ValueType& type);
  bool is_read(PyObject* object) const;
  void put(const void* pointer, PyObject* owner) {
    pointers_[size_] = pointer;
    held_[size_] = Py_XNewRef(owner);
    ++size_;
  }
  bool add_float(PyObject* object, const ValueType& type);
  bool add_int(PyObject* object, const ValueType& type);
  bool add_numpy(PyObject* object, const ValueType& type);
  bool convert(PyObject* object, const ValueType& type);

  const void** pointers_;
  Scalar* scalars_;
  PyObject** held_;  // what owns the memory of each operand, or null
  size_t size_ = 0;
  const bool takes_placed_;
  const void* inline_[kInline];
  Scalar inline_scalars_[kInline];
  PyObject* inline_held_[kInline];
  std::vector<const void*> heap_;
  std::vector<Scalar> heap_scalars_;
  std::vector<PyObject*> heap_held_;
};

}  // namespace kiln
