// Parts of a transform on the calling thread and those of run_parts: oneMKL's descriptors, and what it does not spread.
#pragma once
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include <mkl_dfti.h>

#include "kernels/mkl/table.hpp"

namespace xpu_ops::mkl {

// A descriptor; on one thread of ours, or on as many as oneMKL takes.
class Descriptor {
 public:
  Descriptor(const FftShape& s, bool in_place, bool one_thread);
  void run(void* in, void* out) const;  // threads may share it; `in` is not read where it works in place

 private:
  struct Free {
    void operator()(DFTI_DESCRIPTOR_HANDLE handle) const { DftiFreeDescriptor(&handle); }
  };
  bool forward_, in_place_;
  std::unique_ptr<std::remove_pointer_t<DFTI_DESCRIPTOR_HANDLE>, Free> handle_;
};

// Results of the last dim.
inline int64_t spectrum(const FftShape& s) {
  const int64_t n = s.lengths[s.rank - 1];
  return s.kind == FftKind::r2c ? n / 2 + 1 : n;
}

// Neighbouring columns of a pass that is not over the last dim: 64 together take half the time of 32.
constexpr int64_t kLeastColumns = 64;

// The transforms of a batch, in equal parts on several threads.
class Pass {
 public:
  Pass(const FftShape& shape, bool in_place, int64_t least);
  void run(void* in, void* out) const;

 private:
  int threads_;
  int64_t each_, parts_, in_step_, out_step_;
  std::optional<Descriptor> most_, last_;
};

// A batch of rows whose spectra become columns. oneMKL's own strided stores take three times as long.
class Turned {
 public:
  static bool fits(const FftShape& shape);  // by the last dim
  explicit Turned(FftShape shape);          // of one dim
  void run(const void* in, void* out) const;

 private:
  template <class C>
  void run_as(const void* in, void* out) const;
  int threads_;
  bool double_;
  int64_t rows_, length_, each_, in_step_;
  std::optional<Descriptor> most_, last_;
};

// One long complex transform of n1 n2 points (Bailey's four steps): columns, twiddle factors, rows, transposition.
class Long {
 public:
  static bool fits(const FftShape& shape);
  explicit Long(const FftShape& shape);
  void run(void* in, void* out);

 private:
  template <class R>
  void make_factors(bool forward);
  template <class R>
  void columns(void* in, int64_t part);
  int threads_;
  bool double_;
  int64_t n1_, n2_, parts_;
  std::optional<Descriptor> columns_, last_columns_;  // kLeastColumns of them, and what is left
  std::optional<Turned> rows_;
  // The factor of row k1 and column n2 = kLeastColumns part + j is coarse[part][k1] * fine[k1][j].
  std::vector<char> coarse_, fine_;
  std::unique_ptr<char[]> middle_;
};

}  // namespace xpu_ops::mkl
