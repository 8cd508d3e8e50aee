#include "kernels/mkl/lib/passes.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <numbers>

#include <mkl_trans.h>

#include "kernels/error.hpp"
#include "kernels/mkl/lib/workers.hpp"

namespace xpu_ops::mkl {
namespace {

void check(MKL_LONG status) {
  if (status != DFTI_NO_ERROR && !DftiErrorClass(status, DFTI_NO_ERROR))
    throw Error(ErrorKind::runtime, std::string("oneMKL's transform: ") + DftiErrorMessage(status));
}

template <class V>
void set(DFTI_DESCRIPTOR_HANDLE handle, DFTI_CONFIG_PARAM name, V value) {
  check(DftiSetValue(handle, name, value));
}

int64_t complex_size(bool is_double) { return is_double ? 16 : 8; }

// out[c][r] = in[r][c]; rows are `in_step` and `out_step` elements apart.
void transpose(const std::complex<float>* in, size_t in_step, std::complex<float>* out, size_t out_step, size_t rows,
               size_t columns) {
  MKL_Comatcopy('R', 'T', rows, columns, {1, 0}, reinterpret_cast<const MKL_Complex8*>(in), in_step,
                reinterpret_cast<MKL_Complex8*>(out), out_step);
}
void transpose(const std::complex<double>* in, size_t in_step, std::complex<double>* out, size_t out_step, size_t rows,
               size_t columns) {
  MKL_Zomatcopy('R', 'T', rows, columns, {1, 0}, reinterpret_cast<const MKL_Complex16*>(in), in_step,
                reinterpret_cast<MKL_Complex16*>(out), out_step);
}

// Memory of the thread for one block of a pass, kept for its next.
template <class R> std::complex<R>* spectra_of_thread(int64_t count) {
  thread_local std::vector<std::complex<R>> spectra;
  spectra.resize(std::max(spectra.size(), static_cast<size_t>(count)));
  return spectra.data();
}

// out[j] = a[j] * factors[j] * (re + i im), of complex numbers as pairs; kLeastColumns of them. In vectors of 64 bytes,
// which the compiler does not find by itself.
template <class R>
[[gnu::always_inline]] inline void multiply_pairs(R* out, const R* a, const R* factors, R re, R im) {
  using Index = std::conditional_t<sizeof(R) == 8, int64_t, int32_t>;
  constexpr int kLanes = 64 / sizeof(R);
  using V [[gnu::vector_size(64)]] = R;
  using Mask [[gnu::vector_size(64)]] = Index;
  Mask swap, even, odd;
  V turn;
  for (int i = 0; i < kLanes; ++i) {
    swap[i] = i ^ 1;
    even[i] = i & ~1;
    odd[i] = i | 1;
    turn[i] = i % 2 ? R(1) : R(-1);
  }
  const V turned = turn * im;
  for (int64_t j = 0; j < 2 * kLeastColumns; j += kLanes) {
    V x, f;
    std::memcpy(&x, a + j, sizeof x);
    std::memcpy(&f, factors + j, sizeof f);
    f = f * re + __builtin_shuffle(f, swap) * turned;
    x = x * __builtin_shuffle(f, even) + __builtin_shuffle(x, swap) * (__builtin_shuffle(f, odd) * turn);
    std::memcpy(out + j, &x, sizeof x);
  }
}
#define XPU_OPS_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
XPU_OPS_VECTORS void multiply(float* out, const float* a, const float* factors, float re, float im) {
  multiply_pairs(out, a, factors, re, im);
}
XPU_OPS_VECTORS void multiply(double* out, const double* a, const double* factors, double re, double im) {
  multiply_pairs(out, a, factors, re, im);
}
#undef XPU_OPS_VECTORS

// A block's spectra stay in the second cache.
constexpr int64_t kTurnedBytes = 1 << 19, kTurnedLeast = 8, kTurnedMost = 64;

// One dim oneMKL leaves to one thread. Two take as long for fewer points; more would keep too much memory.
constexpr int64_t kLongLeast = 1 << 18, kLongMost = 1 << 22;
constexpr int64_t kLongShortest = 256;  // of its two lengths

// The largest divisor up to the square root; 0 where there is none.
int64_t split_of(int64_t n) {
  for (auto d = static_cast<int64_t>(std::sqrt(static_cast<double>(n))); d >= kLongShortest; --d) {
    if (n % d == 0) return d;
  }
  return 0;
}

}  // namespace

Descriptor::Descriptor(const FftShape& s, bool in_place, bool one_thread) : forward_(s.forward), in_place_(in_place) {
  const auto precision = s.real == DType::f64 ? DFTI_DOUBLE : DFTI_SINGLE;
  const auto domain = s.kind == FftKind::c2c ? DFTI_COMPLEX : DFTI_REAL;
  const MKL_LONG rank = s.rank, batch = s.batch, in_distance = s.in_distance, out_distance = s.out_distance;
  MKL_LONG lengths[kFftRank], in[kFftRank + 1] = {0}, out[kFftRank + 1] = {0};
  for (int d = 0; d < s.rank; ++d) {
    lengths[d] = s.lengths[d];
    in[d + 1] = s.in_strides[d];
    out[d + 1] = s.out_strides[d];
  }
  DFTI_DESCRIPTOR_HANDLE made = nullptr;
  if (s.rank == 1) {
    check(DftiCreateDescriptor(&made, precision, domain, 1, lengths[0]));
  } else {
    check(DftiCreateDescriptor(&made, precision, domain, rank, lengths));
  }
  handle_.reset(made);
  set(made, DFTI_PLACEMENT, in_place ? DFTI_INPLACE : DFTI_NOT_INPLACE);
  if (domain == DFTI_REAL) set(made, DFTI_CONJUGATE_EVEN_STORAGE, DFTI_COMPLEX_COMPLEX);
  set(made, DFTI_NUMBER_OF_TRANSFORMS, batch);
  set(made, DFTI_FWD_DISTANCE, s.forward ? in_distance : out_distance);
  set(made, DFTI_BWD_DISTANCE, s.forward ? out_distance : in_distance);
  set(made, DFTI_FWD_STRIDES, s.forward ? in : out);
  set(made, DFTI_BWD_STRIDES, s.forward ? out : in);
  set(made, s.forward ? DFTI_FORWARD_SCALE : DFTI_BACKWARD_SCALE, s.scale);
  if (one_thread) set(made, DFTI_THREAD_LIMIT, static_cast<MKL_LONG>(1));
  check(DftiCommitDescriptor(handle_.get()));
}

void Descriptor::run(void* in, void* out) const {
  const auto handle = handle_.get();
  if (in_place_) {
    check(forward_ ? DftiComputeForward(handle, out) : DftiComputeBackward(handle, out));
  } else {
    check(forward_ ? DftiComputeForward(handle, in, out) : DftiComputeBackward(handle, in, out));
  }
}

Pass::Pass(const FftShape& s, bool in_place, int64_t least) : threads_(s.threads) {
  const int64_t shares = shares_of(threads_), wanted = (s.batch + shares - 1) / shares;
  each_ = std::min(s.batch, std::max(wanted, least));
  parts_ = (s.batch + each_ - 1) / each_;
  const int64_t real = s.real == DType::f64 ? 8 : 4;
  in_step_ = each_ * s.in_distance * real * (s.kind == FftKind::r2c ? 1 : 2);
  out_step_ = each_ * s.out_distance * real * (s.kind == FftKind::c2r ? 1 : 2);
  FftShape part = s;
  part.batch = each_;
  most_.emplace(part, in_place, true);
  part.batch = s.batch - (parts_ - 1) * each_;
  if (part.batch != each_) last_.emplace(part, in_place, true);
}

void Pass::run(void* in, void* out) const {
  run_parts(parts_, threads_, [&](int64_t i) {
    const Descriptor& d = last_ && i == parts_ - 1 ? *last_ : *most_;
    d.run(static_cast<char*>(in) + i * in_step_, static_cast<char*>(out) + i * out_step_);
  });
}

bool Turned::fits(const FftShape& s) {
  return spectrum(s) * complex_size(s.real == DType::f64) * kTurnedLeast <= kTurnedBytes;
}

Turned::Turned(FftShape s) : threads_(s.threads), double_(s.real == DType::f64), rows_(s.batch) {
  const int64_t item = complex_size(double_);
  length_ = spectrum(s);
  const int64_t most = std::clamp(kTurnedBytes / (length_ * item), kTurnedLeast, kTurnedMost);
  const int64_t even = rows_ / (2 * shares_of(threads_)) + 1;  // two blocks of a share, or more
  each_ = std::min(most, (even + kTurnedLeast - 1) / kTurnedLeast * kTurnedLeast);
  in_step_ = each_ * s.in_distance * (s.kind == FftKind::r2c ? item / 2 : item);
  s.out_strides[0] = 1;
  s.out_distance = length_;
  s.batch = each_;
  most_.emplace(s, false, true);
  s.batch = rows_ % each_;
  if (s.batch) last_.emplace(s, false, true);
}

void Turned::run(const void* in, void* out) const {
  if (double_) {
    run_as<std::complex<double>>(in, out);
  } else {
    run_as<std::complex<float>>(in, out);
  }
}

template <class C>
void Turned::run_as(const void* in, void* out) const {
  run_blocks((rows_ + each_ - 1) / each_, threads_, [&](int64_t i) {
    C* spectra = spectra_of_thread<typename C::value_type>(each_ * length_);
    const int64_t first = i * each_, rows = std::min(each_, rows_ - first);
    const Descriptor& d = rows == each_ ? *most_ : *last_;
    d.run(static_cast<char*>(const_cast<void*>(in)) + i * in_step_, spectra);
    transpose(spectra, length_, static_cast<C*>(out) + first, rows_, rows, length_);
  });
}

bool Long::fits(const FftShape& s) {
  return s.kind == FftKind::c2c && s.rank == 1 && s.batch == 1 && s.in_strides[0] == 1 && s.out_strides[0] == 1 &&
         s.lengths[0] >= kLongLeast && s.lengths[0] <= kLongMost && split_of(s.lengths[0]) > 0;
}

Long::Long(const FftShape& s) : threads_(s.threads), double_(s.real == DType::f64) {
  n1_ = split_of(s.lengths[0]);
  n2_ = s.lengths[0] / n1_;
  parts_ = (n2_ + kLeastColumns - 1) / kLeastColumns;
  FftShape part = s;
  part.scale = 1;
  part.lengths[0] = n1_;
  part.in_strides[0] = n2_;
  part.out_strides[0] = kLeastColumns;
  part.in_distance = part.out_distance = 1;
  part.batch = kLeastColumns;
  columns_.emplace(part, false, true);
  if ((part.batch = n2_ % kLeastColumns)) last_columns_.emplace(part, false, true);
  part.scale = s.scale;
  part.lengths[0] = n2_;
  part.in_strides[0] = 1;
  part.in_distance = parts_ * kLeastColumns;
  part.batch = n1_;
  rows_.emplace(part);
  if (double_) {
    make_factors<double>(s.forward);
  } else {
    make_factors<float>(s.forward);
  }
  middle_.reset(new char[static_cast<size_t>(n1_ * part.in_distance * complex_size(double_))]);
}

template <class R>
void Long::make_factors(bool forward) {
  const int64_t n = n1_ * n2_;
  coarse_.resize(static_cast<size_t>(parts_ * n1_) * 2 * sizeof(R));
  fine_.resize(static_cast<size_t>(kLeastColumns * n1_) * 2 * sizeof(R));
  const auto put = [&](std::vector<char>& table, int64_t at, int64_t power) {
    const double angle =
        (forward ? -2 : 2) * std::numbers::pi * static_cast<double>(power % n) / static_cast<double>(n);
    auto* pair = reinterpret_cast<R*>(table.data()) + 2 * at;
    pair[0] = static_cast<R>(std::cos(angle));
    pair[1] = static_cast<R>(std::sin(angle));
  };
  for (int64_t k = 0; k < n1_; ++k) {
    for (int64_t p = 0; p < parts_; ++p) put(coarse_, p * n1_ + k, k * p * kLeastColumns);
    for (int64_t j = 0; j < kLeastColumns; ++j) put(fine_, k * kLeastColumns + j, k * j);
  }
}

template <class R>
void Long::columns(void* in, int64_t part) {
  // Dense, since columns of a power of two apart share few sets of the cache.
  R* spectra = reinterpret_cast<R*>(spectra_of_thread<R>(n1_ * kLeastColumns));
  const int64_t first = part * kLeastColumns;
  const Descriptor& d = last_columns_ && part == parts_ - 1 ? *last_columns_ : *columns_;
  d.run(static_cast<R*>(in) + 2 * first, spectra);
  auto* middle = reinterpret_cast<R*>(middle_.get()) + 2 * first;
  const R* coarse = reinterpret_cast<const R*>(coarse_.data()) + 2 * part * n1_;
  const R* fine = reinterpret_cast<const R*>(fine_.data());
  for (int64_t k = 0; k < n1_; ++k) {
    const int64_t row = 2 * k * kLeastColumns;
    multiply(middle + 2 * k * parts_ * kLeastColumns, spectra + row, fine + row, coarse[2 * k], coarse[2 * k + 1]);
  }
}

void Long::run(void* in, void* out) {
  run_blocks(parts_, threads_, [&](int64_t part) {
    if (double_) {
      columns<double>(in, part);
    } else {
      columns<float>(in, part);
    }
  });
  rows_->run(middle_.get(), out);
}

}  // namespace xpu_ops::mkl
