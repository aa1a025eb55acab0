#include "linear/levels.h"

#include "linear/vectors.h"
#include "machine/features.h"

namespace kiln {

#ifdef KILN_X86_64
#define KILN_BEST(name) \
  (processor_level() == 4 ? v4::name : processor_level() == 3 ? v3::name : baseline::name)
#else
#define KILN_BEST(name) baseline::name
#endif

// The level is looked up once.
#define KILN_ACCESS(type, access, name)         \
  const type& access {                          \
    static const type& found = KILN_BEST(name); \
    return found;                               \
  }

template <>
KILN_ACCESS(TileLoops, tile_loops<float>(), tiles_of_f32)
template <>
KILN_ACCESS(TileLoops, tile_loops<double>(), tiles_of_f64)
template <>
KILN_ACCESS(SystemLoops, system_loops<float>(), systems_of_f32)
template <>
KILN_ACCESS(SystemLoops, system_loops<double>(), systems_of_f64)
template <>
KILN_ACCESS(ProductLoops, product_loops<kF32>(), products_of_f32)
template <>
KILN_ACCESS(ProductLoops, product_loops<kF64>(), products_of_f64)
template <>
KILN_ACCESS(ProductLoops, product_loops<kC64>(), products_of_c64)
template <>
KILN_ACCESS(ProductLoops, product_loops<kC128>(), products_of_c128)
template <>
KILN_ACCESS(ProductLoops, product_loops<kI8>(), products_of_i8)
template <>
KILN_ACCESS(ProductLoops, product_loops<kI16>(), products_of_i16)
template <>
KILN_ACCESS(ProductLoops, product_loops<kI32>(), products_of_i32)
template <>
KILN_ACCESS(ProductLoops, product_loops<kI64>(), products_of_i64)
template <>
KILN_ACCESS(ProductLoops, product_loops<kBool>(), products_of_bool)
KILN_ACCESS(WordLoops, word_loops(), words) KILN_ACCESS(ConversionLoops, conversion_loops(),
                                                        conversions)
#define KILN_ACCESS_FUNCTION(type, access, name) \
  template <>                                    \
  type access {                                  \
    static const type& found = KILN_BEST(name);  \
    return found;                                \
  }

    KILN_ACCESS_FUNCTION(TransposeLoop, transpose_loop<0>(), transpose_of_1)
        KILN_ACCESS_FUNCTION(TransposeLoop, transpose_loop<1>(), transpose_of_2)
            KILN_ACCESS_FUNCTION(TransposeLoop, transpose_loop<2>(), transpose_of_4)
                KILN_ACCESS_FUNCTION(TransposeLoop, transpose_loop<3>(), transpose_of_8)
                    KILN_ACCESS_FUNCTION(TransposeLoop, transpose_loop<4>(), transpose_of_16)
                        KILN_ACCESS_FUNCTION(RunTiles, tiles_at_rows<float>(), tiles_at_rows_of_f32)
                            KILN_ACCESS_FUNCTION(RunTiles, tiles_at_rows<double>(),
                                                 tiles_at_rows_of_f64)
                                KILN_ACCESS_FUNCTION(RunTiles, tiles_of_lines<float>(),
                                                     tiles_of_lines_of_f32)
                                    KILN_ACCESS_FUNCTION(RunTiles, tiles_of_lines<double>(),
                                                         tiles_of_lines_of_f64) template <>
                                    DotLoop dot_loop<float>() {
  static const DotLoop found = KILN_BEST(dots_of_f32);
  return found;
}
template <>
DotLoop dot_loop<double>() {
  static const DotLoop found = KILN_BEST(dots_of_f64);
  return found;
}

}  // namespace kiln
