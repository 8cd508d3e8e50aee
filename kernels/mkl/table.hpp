// The functions of libxpu_ops_mkl.so. The library is linked without torch and loaded on first use, so that its calls
// reach the oneMKL it was built with and not the older one inside libtorch_cpu.
#pragma once
#include <cstdint>

#include "kernels/dtype.hpp"

namespace xpu_ops::mkl {

// Column-major matrices side by side: element (i, j) of matrix b is data[b * stride + j * ld + i].
struct Matrices {
  void* data = nullptr;
  int64_t ld = 1, stride = 0;
};

enum class Trans : char { none = 'N', transpose = 'T', adjoint = 'C' };
enum class LstsqDriver : int8_t { gels, gelsy, gelsd, gelss };
enum class FftKind : int8_t { c2c, r2c, c2r };

constexpr int kFftRank = 3;  // dims of one plan, as oneMKL has them on a GPU

// Strides and distances in elements of the array they belong to. `lengths` are those of the real or longer side.
struct FftShape {
  DType real = DType::f32;  // f32 | f64
  FftKind kind = FftKind::c2c;
  bool forward = true;
  int rank = 1;
  int64_t lengths[kFftRank] = {1, 1, 1};
  int64_t in_strides[kFftRank] = {}, out_strides[kFftRank] = {};
  int64_t batch = 1, in_distance = 0, out_distance = 0;
  double scale = 1;
  int threads = 1;  // that a transform of the calling thread may use
};

// A committed transform. It may be shared by threads: run() is called under the plan's lock.
class FftPlan {
 public:
  virtual ~FftPlan() = default;
  virtual void run(void* in, void* out) = 0;  // in and out differ
};

// Matrices, and the threads that may share them.
struct Batch {
  int64_t count = 1;
  int threads = 1;
};

// c = alpha * op(a) @ op(b) + beta * c: c has m rows and n columns, op(a) k columns. The factors are of the type. Where
// beta is zero c is not read. A stride of 0 repeats a matrix of a or b.
struct Gemm {
  DType type = DType::f64;
  Trans op_a = Trans::none, op_b = Trans::none;
  int64_t m = 0, n = 0, k = 0;
  Batch batch;
  Matrices a, b, c;
  alignas(16) unsigned char alpha[16] = {}, beta[16] = {};
};

// Factorisations work in place on host-accessible memory, on the calling thread and beside it. `info` is LAPACK's, one
// per matrix. Element types: f32, f64, c64, c128.
struct Table {
  int version;
  FftPlan* (*fft_host_plan)(const FftShape&);
  const char* (*library_version)();

  void (*potrf)(DType, bool upper, int64_t n, Matrices a, Batch batch, int32_t* info);
  // The whole inverse, both triangles.
  void (*potri)(DType, bool upper, int64_t n, Matrices a, Batch batch, int32_t* info);
  void (*potrs)(DType, bool upper, int64_t n, int64_t nrhs, Matrices a, Matrices b, Batch batch);
  // pivots: min(m, n) a matrix, from 1; without pivoting they are the identity.
  void (*getrf)(DType, bool pivot, int64_t m, int64_t n, Matrices a, int32_t* pivots, Batch batch, int32_t* info);
  void (*getrs)(DType, Trans, int64_t n, int64_t nrhs, Matrices a, const int32_t* pivots, Matrices b, Batch batch);
  // b (m x n) becomes the solution of op(a) x = b, or of x op(a) = b where `left` is false.
  void (*trsm)(DType, bool left, bool upper, Trans, bool unit, int64_t m, int64_t n, Matrices a, Matrices b,
               Batch batch);
  void (*geqrf)(DType, int64_t m, int64_t n, Matrices a, void* tau, Batch batch);
  void (*orgqr)(DType, int64_t m, int64_t n, int64_t k, Matrices a, const void* tau, Batch batch);
  void (*ormqr)(DType, bool left, bool adjoint, int64_t m, int64_t n, int64_t k, Matrices a, const void* tau,
                Matrices c, Batch batch);
  // job: 'N' singular values, 'S' min(m, n) vectors, 'A' all of them. Destroys a.
  void (*gesdd)(DType, char job, int64_t m, int64_t n, Matrices a, void* s, Matrices u, Matrices vh, Batch batch,
                int32_t* info);
  void (*syevd)(DType, bool vectors, bool upper, int64_t n, Matrices a, void* w, Batch batch, int32_t* info);
  // Complex eigenvalues w and right eigenvectors v, also of real matrices. Destroys a.
  void (*geev)(DType, bool vectors, int64_t n, Matrices a, void* w, Matrices v, Batch batch, int32_t* info);
  // b has max(m, n) rows. rank and s where the driver finds them. Destroys a.
  void (*lstsq)(DType, LstsqDriver, int64_t m, int64_t n, int64_t nrhs, Matrices a, Matrices b, double rcond,
                int64_t* rank, void* s, Batch batch, int32_t* info);
  void (*sytrf)(DType, bool hermitian, bool upper, int64_t n, Matrices a, int32_t* pivots, Batch batch, int32_t* info);
  void (*sytrs)(DType, bool hermitian, bool upper, int64_t n, int64_t nrhs, Matrices a, const int32_t* pivots,
                Matrices b, Batch batch);
  void (*gemm)(const Gemm&);
};

constexpr int kTableVersion = 6;
constexpr const char* kTableSymbol = "xpu_ops_mkl_table";
// The one symbol of libxpu_ops_mkl_queue.so. run() of the plan submits to the sycl::queue, which is in order.
using QueuePlan = FftPlan*(const FftShape&, void* queue);
constexpr const char* kQueueSymbol = "xpu_ops_mkl_queue_plan";

}  // namespace xpu_ops::mkl
