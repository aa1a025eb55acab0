// The tag of the exceptions by which longjmp is compiled in WebAssembly modules: libc leaves it to
// the program. Only modules with kernels that recover when memory runs out have it.
__asm__(
    "  .tagtype __c_longjmp i32\n"
    "  .globl __c_longjmp\n"
    "  .weak __c_longjmp\n"
    "__c_longjmp:\n");
