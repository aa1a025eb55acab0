// Foreign functions for tests, with XLA's typed interface.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Scaled(float by, ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> out) {
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = by * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(
    scaled, Scaled,
    ffi::Ffi::Bind().Attr<float>("by").Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());

// Sums along the last axis, and how many rows a call got.
static ffi::Error RowSums(ffi::AnyBuffer x, ffi::ResultBuffer<ffi::F32> sums,
                          ffi::ResultBuffer<ffi::S32> rows) {
  auto sizes = x.dimensions();
  if (sizes.size() == 0) return ffi::Error::InvalidArgument("row_sums: an array has no rows");
  const int64_t width = sizes.back();
  const int64_t count = static_cast<int64_t>(sums->element_count());
  const float* data = x.typed_data<float>();
  for (int64_t i = 0; i < count; ++i) {
    float total = 0;
    for (int64_t j = 0; j < width; ++j) total += data[i * width + j];
    sums->typed_data()[i] = total;
    rows->typed_data()[i] = static_cast<int32_t>(count);
  }
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(row_sums, RowSums,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::S32>>());

// Every kind of attribute, as numbers.
static ffi::Error Attributes(bool flag, int32_t small, int64_t large, double real,
                             std::string_view text, ffi::Span<const int64_t> many,
                             ffi::Dictionary nested, ffi::ResultBuffer<ffi::F64> out) {
  double* data = out->typed_data();
  data[0] = flag;
  data[1] = small;
  data[2] = static_cast<double>(large);
  data[3] = real;
  data[4] = static_cast<double>(text.size());
  data[5] = 0;
  for (int64_t each : many) data[5] += static_cast<double>(each);
  auto inner = nested.get<int64_t>("inner");
  if (inner.has_error()) return inner.error();
  data[6] = static_cast<double>(*inner);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(attributes, Attributes,
                              ffi::Ffi::Bind()
                                  .Attr<bool>("flag")
                                  .Attr<int32_t>("small")
                                  .Attr<int64_t>("large")
                                  .Attr<double>("real")
                                  .Attr<std::string_view>("text")
                                  .Attr<ffi::Span<const int64_t>>("many")
                                  .Attr<ffi::Dictionary>("nested")
                                  .Ret<ffi::Buffer<ffi::F64>>());

static int32_t calls = 0;
static ffi::Error Count(ffi::ResultBuffer<ffi::S32> out) {
  out->typed_data()[0] = ++calls;
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER_SYMBOL(count, Count, ffi::Ffi::Bind().Ret<ffi::Buffer<ffi::S32>>());
