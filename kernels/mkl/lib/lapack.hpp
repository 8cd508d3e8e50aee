// The host routines behind the table; mkl/table.hpp says what they do.
#pragma once
#include "kernels/mkl/table.hpp"

namespace xpu_ops::mkl {

void potrf(DType, bool upper, int64_t n, Matrices a, Batch batch, int32_t* info);
void potri(DType, bool upper, int64_t n, Matrices a, Batch batch, int32_t* info);
void potrs(DType, bool upper, int64_t n, int64_t nrhs, Matrices a, Matrices b, Batch batch);
void getrf(DType, bool pivot, int64_t m, int64_t n, Matrices a, int32_t* pivots, Batch batch, int32_t* info);
void getrs(DType, Trans, int64_t n, int64_t nrhs, Matrices a, const int32_t* pivots, Matrices b, Batch batch);
void trsm(DType, bool left, bool upper, Trans, bool unit, int64_t m, int64_t n, Matrices a, Matrices b, Batch batch);
void geqrf(DType, int64_t m, int64_t n, Matrices a, void* tau, Batch batch);
void orgqr(DType, int64_t m, int64_t n, int64_t k, Matrices a, const void* tau, Batch batch);
void ormqr(DType, bool left, bool adjoint, int64_t m, int64_t n, int64_t k, Matrices a, const void* tau, Matrices c,
           Batch batch);
void gesdd(DType, char job, int64_t m, int64_t n, Matrices a, void* s, Matrices u, Matrices vh, Batch batch,
           int32_t* info);
void syevd(DType, bool vectors, bool upper, int64_t n, Matrices a, void* w, Batch batch, int32_t* info);
void geev(DType, bool vectors, int64_t n, Matrices a, void* w, Matrices v, Batch batch, int32_t* info);
void lstsq(DType, LstsqDriver, int64_t m, int64_t n, int64_t nrhs, Matrices a, Matrices b, double rcond, int64_t* rank,
           void* s, Batch batch, int32_t* info);
void sytrf(DType, bool hermitian, bool upper, int64_t n, Matrices a, int32_t* pivots, Batch batch, int32_t* info);
void sytrs(DType, bool hermitian, bool upper, int64_t n, int64_t nrhs, Matrices a, const int32_t* pivots, Matrices b,
           Batch batch);

}  // namespace xpu_ops::mkl
