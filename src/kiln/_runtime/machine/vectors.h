// Vectors as wide as registers, for files that are compiled once per microarchitecture level. So
// everything is private to each file that includes it, as in loops/elements.h.
#pragma once

#include <cstdint>
#include <cstring>

namespace kiln {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64;
#elif defined(__AVX2__)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif

template <typename T, int bytes = kBytes>
struct Lanes {
  typedef T Vector __attribute__((vector_size(bytes)));
  static constexpr int kCount = bytes / static_cast<int>(sizeof(T));
};
template <typename T>
using Vector = typename Lanes<T>::Vector;
template <typename T>
constexpr int64_t kLanes = Lanes<T>::kCount;

template <typename T, int bytes = kBytes>
inline typename Lanes<T, bytes>::Vector load(const T* from) {
  typename Lanes<T, bytes>::Vector loaded;
  std::memcpy(&loaded, from, sizeof loaded);
  return loaded;
}

template <typename T>
inline void store(T* to, Vector<T> stored) {
  std::memcpy(to, &stored, sizeof stored);
}

}  // namespace
}  // namespace kiln
