#include "linear/blas.h"

#include <dlfcn.h>

namespace kiln {

Routines all_routines[4];
bool has_routines = false;

namespace {

struct Named {
  const char* real;
  const char* complex;
  void* Routines::* routine;
};

constexpr Named kRoutines[] = {
    {"gemm", "gemm", &Routines::gemm},    {"gemv", "gemv", &Routines::gemv},
    {"trsm", "trsm", &Routines::trsm},    {"potrf", "potrf", &Routines::potrf},
    {"getrf", "getrf", &Routines::getrf}, {"geqrf", "geqrf", &Routines::geqrf},
    {"geqp3", "geqp3", &Routines::geqp3}, {"orgqr", "ungqr", &Routines::orgqr},
    {"syevd", "heevd", &Routines::syevd}, {"gesdd", "gesdd", &Routines::gesdd},
    {"gesvd", "gesvd", &Routines::gesvd}, {"geev", "geev", &Routines::geev},
};

std::string name_of(const Named& named, int type) {
  return std::string(1, "sdcz"[type]) + (type < 2 ? named.real : named.complex);
}

}  // namespace

bool load_routines(const std::string& path, const std::string& prefix, const std::string& suffix,
                   std::string& failure) {
  void* library = dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    failure = dlerror();
    return false;
  }
  Routines found[4];
  for (int type = 0; type < 4; ++type) {
    for (const Named& named : kRoutines) {
      std::string name = prefix + name_of(named, type) + suffix;
      void* routine = dlsym(library, name.c_str());
      if (routine == nullptr) {
        failure = path + " has no routine " + name;
        return false;
      }
      found[type].*named.routine = routine;
    }
  }
  // Another package may have loaded it before, with its own threads.
  void* threads = dlsym(library, (prefix + "openblas_set_num_threads").c_str());
  if (threads != nullptr) reinterpret_cast<void (*)(int)>(threads)(1);
  for (int type = 0; type < 4; ++type) all_routines[type] = found[type];
  has_routines = true;
  return true;
}

}  // namespace kiln
