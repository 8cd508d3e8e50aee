// Element types, numbered like c10::ScalarType so that bindings convert by a cast.
#pragma once
#include <cstddef>
#include <cstdint>

namespace xpu_ops {

enum class DType : int8_t {
  u8 = 0,
  i8 = 1,
  i16 = 2,
  i32 = 3,
  i64 = 4,
  f16 = 5,
  f32 = 6,
  f64 = 7,
  c32 = 8,
  c64 = 9,
  c128 = 10,
  b8 = 11,
  bf16 = 15,
  f8e5m2 = 23,
  f8e4m3fn = 24,
  f8e5m2fnuz = 25,
  f8e4m3fnuz = 26,
  u16 = 27,
  u32 = 28,
  u64 = 29,
  f8e8m0fnu = 44,
  x16 = 46,  // not a torch type: 16 raw bytes, for kernels that only move elements
};
constexpr int kDTypeSlots = 48;

// The suffix a kernel name carries for this type: add_f32_contig.
constexpr const char* dtype_suffix(DType t) {
  switch (t) {
    case DType::u8: return "u8";
    case DType::i8: return "i8";
    case DType::i16: return "i16";
    case DType::i32: return "i32";
    case DType::i64: return "i64";
    case DType::f16: return "f16";
    case DType::f32: return "f32";
    case DType::f64: return "f64";
    case DType::c32: return "c32";
    case DType::c64: return "c64";
    case DType::c128: return "c128";
    case DType::b8: return "b8";
    case DType::bf16: return "bf16";
    case DType::f8e5m2: return "f8e5m2";
    case DType::f8e4m3fn: return "f8e4m3fn";
    case DType::f8e5m2fnuz: return "f8e5m2fnuz";
    case DType::f8e4m3fnuz: return "f8e4m3fnuz";
    case DType::u16: return "u16";
    case DType::u32: return "u32";
    case DType::u64: return "u64";
    case DType::f8e8m0fnu: return "f8e8m0fnu";
    case DType::x16: return "x16";
  }
  return "?";
}

constexpr size_t dtype_size(DType t) {
  switch (t) {
    case DType::u8:
    case DType::i8:
    case DType::b8:
    case DType::f8e5m2:
    case DType::f8e4m3fn:
    case DType::f8e5m2fnuz:
    case DType::f8e4m3fnuz:
    case DType::f8e8m0fnu: return 1;
    case DType::i16:
    case DType::f16:
    case DType::bf16:
    case DType::u16: return 2;
    case DType::i32:
    case DType::f32:
    case DType::c32:
    case DType::u32: return 4;
    case DType::i64:
    case DType::f64:
    case DType::c64:
    case DType::u64: return 8;
    case DType::c128:
    case DType::x16: return 16;
  }
  return 0;
}

// The unsigned type that moves elements of this size: group `raw` of the manifest.
constexpr DType raw_dtype(size_t bytes) {
  switch (bytes) {
    case 1: return DType::u8;
    case 2: return DType::u16;
    case 4: return DType::u32;
    case 8: return DType::u64;
    default: return DType::x16;
  }
}

constexpr bool is_fp64(DType t) { return t == DType::f64 || t == DType::c128; }
constexpr bool is_complex(DType t) { return t == DType::c32 || t == DType::c64 || t == DType::c128; }
constexpr bool is_floating(DType t) {
  return t == DType::f16 || t == DType::bf16 || t == DType::f32 || t == DType::f64;
}

}  // namespace xpu_ops
