// Which of the compiled levels of x86-64 the processor can run.
#pragma once

namespace kiln {

inline int processor_level() {
#ifdef KILN_X86_64
  __builtin_cpu_init();
  bool third = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
               __builtin_cpu_supports("bmi2");
  bool fourth = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return !third ? 2 : fourth ? 4 : 3;
#else
  return 0;
#endif
}

}  // namespace kiln
