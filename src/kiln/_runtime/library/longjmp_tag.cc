// The tag of the exceptions by which longjmp is compiled in WebAssembly modules: libc leaves it to
// the program. Only modules with kernels that recover from a lack of memory have it.
__asm__(
    "  .tagtype __c_longjmp i32\n"
    "  .globl __c_longjmp\n"
    "__c_longjmp:\n");
