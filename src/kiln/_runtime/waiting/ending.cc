#include "waiting/ending.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <ctime>
#if PY_VERSION_HEX < 0x030E0000 && defined(__GLIBC__) && \
    (defined(__x86_64__) || defined(__aarch64__))
// On other platforms, such as RISC-V, an object's tables may hold offsets instead of addresses.
#define KILN_LEADS_EXITS
#include <link.h>
#include <sys/mman.h>
#endif

namespace kiln {
namespace {

// Changed only while the GIL is held.
unsigned long ending_thread = 0;

[[noreturn]] void stay() {
  timespec day = {86400, 0};
  for (;;) nanosleep(&day, nullptr);
}

bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

// Whether Python no longer lets the calling thread take the GIL.
bool is_left_behind() { return is_finalizing() && ending_thread != PyThread_get_thread_ident(); }

#ifdef KILN_LEADS_EXITS

// Python 3.14 suspends threads that may not continue. Earlier versions call `pthread_exit`, which
// unwinds the stack through this library: destructors that need the GIL run, and the process
// terminates where a function is `noexcept` or catches every exception. To keep that from happening
// in the frames of any library, Python's call of that function is redirected to another one.
[[noreturn]] void stay_or_exit(void* value) {
  if (is_left_behind()) stay();
  pthread_exit(value);
}

#if defined(__x86_64__)
constexpr uint32_t kSlots[] = {R_X86_64_JUMP_SLOT, R_X86_64_GLOB_DAT};
#else
constexpr uint32_t kSlots[] = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT};
#endif

bool holds(const dl_phdr_info& object, const void* address) {
  uintptr_t wanted = reinterpret_cast<uintptr_t>(address);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = object.dlpi_phdr[i];
    uintptr_t begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == PT_LOAD && wanted >= begin && wanted - begin < part.p_memsz) return true;
  }
  return false;
}

// The tables through which a loaded object finds the symbols that it imports.
struct Imports {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  const ElfW(Rela) * tables[2] = {};
  size_t bytes[2] = {};
};

Imports imports_of(const dl_phdr_info& object) {
  Imports found;
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr) & part = object.dlpi_phdr[i];
    if (part.p_type != PT_DYNAMIC) continue;
    auto* entry = reinterpret_cast<const ElfW(Dyn)*>(object.dlpi_addr + part.p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      const void* pointer = reinterpret_cast<const void*>(entry->d_un.d_ptr);
      switch (entry->d_tag) {
        case DT_SYMTAB: found.symbols = static_cast<const ElfW(Sym)*>(pointer); break;
        case DT_STRTAB: found.names = static_cast<const char*>(pointer); break;
        case DT_JMPREL: found.tables[0] = static_cast<const ElfW(Rela)*>(pointer); break;
        case DT_PLTRELSZ: found.bytes[0] = entry->d_un.d_val; break;
        case DT_RELA: found.tables[1] = static_cast<const ElfW(Rela)*>(pointer); break;
        case DT_RELASZ: found.bytes[1] = entry->d_un.d_val; break;
        default: break;
      }
    }
  }
  return found;
}

// The loader may have made the page read-only after it had written the slot.
void lead(void** slot, void* target) {
  uintptr_t size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  void* page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) & ~(size - 1));
  if (mprotect(page, size, PROT_READ | PROT_WRITE) == 0) {
    __atomic_store_n(slot, target, __ATOMIC_RELEASE);
  }
}

int lead_exits(dl_phdr_info* object, size_t, void*) {
  if (!holds(*object, reinterpret_cast<void*>(PyThread_exit_thread))) return 0;
  Imports imports = imports_of(*object);
  if (imports.symbols == nullptr || imports.names == nullptr) return 1;
  for (int which = 0; which < 2; ++which) {
    const ElfW(Rela)* table = imports.tables[which];
    for (size_t i = 0; table != nullptr && i < imports.bytes[which] / sizeof *table; ++i) {
      uint32_t type = static_cast<uint32_t>(ELF64_R_TYPE(table[i].r_info));
      const ElfW(Sym) & symbol = imports.symbols[ELF64_R_SYM(table[i].r_info)];
      bool is_slot = type == kSlots[0] || type == kSlots[1];
      if (is_slot && std::strcmp(imports.names + symbol.st_name, "pthread_exit") == 0) {
        lead(reinterpret_cast<void**>(object->dlpi_addr + table[i].r_offset),
             reinterpret_cast<void*>(stay_or_exit));
      }
    }
  }
  return 1;
}

#endif

}  // namespace

PyThreadState* release_lock() { return PyEval_SaveThread(); }

void take_lock(PyThreadState* released) noexcept { PyEval_RestoreThread(released); }

// After finalization Python would dereference a thread state that no longer exists when asked for
// the GIL.
WithLock::WithLock() {
  if (is_left_behind()) stay();
  state_ = PyGILState_Ensure();
}

void begin_end() {
  bool is_first = ending_thread == 0;
  ending_thread = PyThread_get_thread_ident();
  if (!is_first) return;
#ifdef KILN_LEADS_EXITS
  dl_iterate_phdr(lead_exits, nullptr);
#endif
}

bool another_thread_ends() {
  return ending_thread != 0 && ending_thread != PyThread_get_thread_ident();
}

void stay_for_good() {
  release_lock();
  stay();
}

}  // namespace kiln
