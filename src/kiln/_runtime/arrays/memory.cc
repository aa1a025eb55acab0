#include "arrays/memory.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

namespace kiln {
namespace {

constexpr size_t kHuge = size_t{1} << 21;
// Four sizes for each power of two, from one alignment upwards: at most a fifth is wasted.
constexpr int kSteps = 4;
constexpr int kClasses = kSteps * 42;

MemoryBlock* kept[kClasses];

PyObject* out_of_memory_error = nullptr;  // a class of MemoryError

PyObject* error_class() {
  return out_of_memory_error == nullptr ? PyExc_MemoryError : out_of_memory_error;
}

struct Statistics {
  size_t in_use = 0;
  size_t cached = 0;
  size_t limit = 0;
  long long allocations = 0;
  long long reused = 0;
} statistics;

constexpr size_t size_of(int size_class) {
  size_t base = kAlignment << (size_class / kSteps);
  return base + base / kSteps * static_cast<size_t>(size_class % kSteps);
}

struct BlockSizes {
  size_t of[kClasses];
  // Sizes between multiples of the alignment are rounded up to one.
  constexpr BlockSizes() : of() {
    for (int i = 0; i < kClasses; ++i) {
      size_t unit = size_of(i) >= kHuge ? kHuge : kAlignment;
      of[i] = (size_of(i) + unit - 1) / unit * unit;
    }
  }
};
constexpr BlockSizes block_sizes;

// Return the smallest size class that holds this many bytes, or -1.
int class_for(size_t bytes) {
  if (bytes <= kAlignment) return 0;
  int doublings = 63 - __builtin_clzll(static_cast<unsigned long long>((bytes - 1) / kAlignment));
  size_t base = kAlignment << doublings;
  size_t step = base / kSteps;
  int rest = static_cast<int>((bytes - base + step - 1) / step);
  int found = doublings * kSteps + rest;
  return found < kClasses ? found : -1;
}

void* new_block(int size_class) {
  size_t size = block_sizes.of[size_class];
  bool huge = size >= kHuge;
  void* data = std::aligned_alloc(huge ? kHuge : kAlignment, size);
#ifdef MADV_HUGEPAGE
  // Only a hint: without huge pages the memory works as well, but the first access is slower.
  if (huge && data != nullptr) madvise(data, size, MADV_HUGEPAGE);
#endif
  return data;
}

void destroy(MemoryBlock* memory) {
  std::free(memory->data);
  PyObject_Free(memory);
}

void release_kept() {
  for (MemoryBlock*& first : kept) {
    while (first != nullptr) {
      MemoryBlock* memory = first;
      first = memory->next;
      destroy(memory);
    }
  }
  statistics.cached = 0;
}

void memory_dealloc(PyObject* object) {
  MemoryBlock* memory = reinterpret_cast<MemoryBlock*>(object);
  size_t size = block_sizes.of[memory->size_class];
  statistics.in_use -= size;
  if (statistics.cached + size > statistics.limit) {
    destroy(memory);
    return;
  }
  statistics.cached += size;
  memory->next = kept[memory->size_class];
  kept[memory->size_class] = memory;
}

int memory_getbuffer(PyObject* object, Py_buffer* view, int flags) {
  MemoryBlock* memory = reinterpret_cast<MemoryBlock*>(object);
  return PyBuffer_FillInfo(view, object, memory->data, static_cast<Py_ssize_t>(memory->bytes), 0,
                           flags);
}

PyBufferProcs memory_buffer = {memory_getbuffer, nullptr};

PyObject* allocate_memory(PyObject*, PyObject* given) {
  Py_ssize_t bytes = PyLong_AsSsize_t(given);
  if (bytes < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "memory has at least 0 bytes");
    return nullptr;
  }
  return reinterpret_cast<PyObject*>(allocate(static_cast<size_t>(bytes)));
}

PyObject* memory_statistics(PyObject*, PyObject*) {
  return Py_BuildValue("{s:n,s:n,s:n,s:L,s:L}", "in_use",
                       static_cast<Py_ssize_t>(statistics.in_use), "cached",
                       static_cast<Py_ssize_t>(statistics.cached), "limit",
                       static_cast<Py_ssize_t>(statistics.limit), "allocations",
                       statistics.allocations, "reused", statistics.reused);
}

PyObject* release_memory(PyObject*, PyObject*) {
  release_kept();
  Py_RETURN_NONE;
}

PyObject* limit_memory(PyObject*, PyObject* given) {
  Py_ssize_t bytes = PyLong_AsSsize_t(given);
  if (bytes < 0) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a limit is at least 0 bytes");
    return nullptr;
  }
  statistics.limit = static_cast<size_t>(bytes);
  if (statistics.cached > statistics.limit) release_kept();
  Py_RETURN_NONE;
}

PyObject* set_out_of_memory_error(PyObject*, PyObject* error) {
  if (!PyExceptionClass_Check(error)) {
    PyErr_SetString(PyExc_TypeError, "what is raised is a class of exceptions");
    return nullptr;
  }
  Py_XSETREF(out_of_memory_error, Py_NewRef(error));
  Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_out_of_memory_error", set_out_of_memory_error, METH_O,
     "Set the class of out-of-memory errors."},
    {"allocate", allocate_memory, METH_O,
     "Return aligned memory of a given size, with undefined contents."},
    {"memory_statistics", memory_statistics, METH_NOARGS,
     "Return the bytes in use, kept and to keep at most, the number of allocations, and how many "
     "were reused."},
    {"release_memory", release_memory, METH_NOARGS, "Return unused memory to the system."},
    {"limit_memory", limit_memory, METH_O, "Set how many bytes that nobody holds are kept."},
    {nullptr},
};

}  // namespace

PyTypeObject memory_type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0)
    .tp_name = "kiln._runtime.MemoryBlock",
    .tp_basicsize = sizeof(MemoryBlock),
    .tp_dealloc = memory_dealloc,
    .tp_as_buffer = &memory_buffer,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "A block of aligned host memory.",
};

MemoryBlock* allocate(size_t bytes) {
  int size_class = class_for(bytes);
  MemoryBlock* memory = size_class < 0 ? nullptr : kept[size_class];
  if (memory != nullptr) {
    kept[size_class] = memory->next;
    statistics.cached -= block_sizes.of[size_class];
    ++statistics.reused;
  } else {
    memory =
        size_class < 0 ? nullptr : static_cast<MemoryBlock*>(PyObject_Malloc(sizeof(MemoryBlock)));
    if (memory != nullptr) memory->data = new_block(size_class);
    if (memory == nullptr || memory->data == nullptr) {
      PyObject_Free(memory);
      raise_out_of_memory("an array", bytes);
      return nullptr;
    }
  }
  PyObject_Init(reinterpret_cast<PyObject*>(memory), &memory_type);
  memory->bytes = bytes;
  memory->size_class = size_class;
  memory->next = nullptr;
  statistics.in_use += block_sizes.of[size_class];
  ++statistics.allocations;
  return memory;
}

bool is_out_of_memory() { return PyErr_Occurred() && PyErr_ExceptionMatches(error_class()); }

void raise_out_of_memory(const char* doing, size_t bytes) {
  char size[64] = "";
  if (bytes > 0) std::snprintf(size, sizeof size, " allocating %zu bytes", bytes);
  PyErr_Format(error_class(),
               "%s\nRESOURCE_EXHAUSTED: Out of memory%s\n"
               "use smaller arrays, work part by part (lax.map, lax.scan), or donate arguments",
               doing, size);
}

int add_memory(PyObject* module) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGE_SIZE);
  size_t physical =
      pages > 0 && page > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(page) : 0;
  statistics.limit = std::max(physical / 16, size_t{1} << 26);
  if (add_type(module, &memory_type) < 0) return -1;
  return PyModule_AddFunctions(module, functions);
}

}  // namespace kiln
