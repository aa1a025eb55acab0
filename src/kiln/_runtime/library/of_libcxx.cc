// What the headers of libc++ (the standard library of the cross compiler) call: exported libraries are
// linked without it.
#ifndef __wasm__
#include <pthread.h>
#endif

#include <memory>
#include <mutex>
#include <typeinfo>

#include "kernels/recovery.h"

_LIBCPP_BEGIN_NAMESPACE_STD

__shared_count::~__shared_count() {}
__shared_weak_count::~__shared_weak_count() {}
const void* __shared_weak_count::__get_deleter(const type_info&) const noexcept { return nullptr; }
// The count of weak owners is one less than their number, as libc++ keeps it.
void __shared_weak_count::__release_weak() noexcept {
  if (__atomic_fetch_sub(&__shared_weak_owners_, 1, __ATOMIC_ACQ_REL) == 0) __on_zero_shared_weak();
}

#ifndef __wasm__
void mutex::lock() { pthread_mutex_lock(&__m_); }
void mutex::unlock() noexcept { pthread_mutex_unlock(&__m_); }
#endif

// Called where other builds throw: a container that is too long, no memory.
void __libcpp_verbose_abort(const char*, ...) noexcept { kiln::stop_kernel(kiln::kOutOfMemory); }

_LIBCPP_END_NAMESPACE_STD
