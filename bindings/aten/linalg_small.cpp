#include "bindings/aten/linalg_small.hpp"

#include <optional>

#include "bindings/aten/core/tensor.hpp"
#include "kernels/ops/linalg.hpp"

namespace xpu_ops::aten::linalg::small {
namespace {

using ops::SmallRoutine;

// The leading sizes of a tensor as one; nothing where its strides do not allow it.
std::optional<int64_t> batch_stride(const at::Tensor& t) {
  int64_t stride = 0, count = 1;
  for (int64_t d = t.dim() - 3; d >= 0; --d) {
    if (t.size(d) == 1) continue;
    if (count == 1) {
      stride = t.stride(d);
    } else if (t.stride(d) != stride * count) {
      return std::nullopt;
    }
    count *= t.size(d);
  }
  return stride;
}

int64_t matrices_of(const at::Tensor& t) {
  int64_t count = 1;
  for (int64_t d = 0; d < t.dim() - 2; ++d) count *= t.size(d);
  return count;
}

const runtime::Policy& policy() { return runtime::device_info(runtime::current_device()).policy; }

// One call: what does not fit makes it false.
class Call {
 public:
  Call(SmallRoutine routine, const at::Tensor& a) : routine_(routine), type_(dtype_of(a)) {
    problem.count = matrices_of(a);
    fits_ = ops::small_serves(policy(), type_, problem.count, 1);
    problem.a = read(a);
  }

  SmallMatrices read(const at::Tensor& t, bool transposed = false) {
    if (!fits_ || !t.defined()) return {};
    kept_.push_back(!t.is_neg() && batch_stride(t) ? t : t.resolve_neg().contiguous());
    return view(kept_.back(), transposed);
  }
  SmallMatrices write(const at::Tensor& t, bool transposed = false) {
    if (!fits_ || !t.defined()) return {};
    fits_ = batch_stride(t).has_value() && !t.is_neg() && dtype_of(t) == type_;
    return fits_ ? view(t, transposed) : SmallMatrices{};
  }
  void* values(const at::Tensor& t) {
    if (!t.defined()) return nullptr;
    fits_ = fits_ && t.is_contiguous();
    return t.mutable_data_ptr();
  }
  int32_t* integers(const at::Tensor& t) {
    if (!t.defined()) return nullptr;
    fits_ = fits_ && t.is_contiguous();
    return t.mutable_data_ptr<int32_t>();
  }

  bool run() {
    if (!fits_) return false;
    ops::run_small(runtime::current_queue(), routine_, type_, problem);
    return true;
  }

  ops::SmallProblem problem{};

 private:
  SmallMatrices view(const at::Tensor& t, bool transposed) {
    const int64_t rows = transposed ? -1 : -2, columns = transposed ? -2 : -1;
    fits_ = fits_ && std::max(t.size(-1), t.size(-2)) <= ops::kSmallSide && t.numel() > 0 &&
            t.numel() == problem.count * t.size(-1) * t.size(-2);
    return {t.data_ptr(),
            *batch_stride(t),
            t.stride(rows),
            t.stride(columns),
            static_cast<int32_t>(t.size(rows)),
            static_cast<int32_t>(t.size(columns))};
  }

  SmallRoutine routine_;
  DType type_;
  bool fits_ = true;
  std::vector<at::Tensor> kept_;
};

// A symmetric matrix's upper triangle is the lower one of its transpose.
void transpose(SmallMatrices& m) {
  std::swap(m.row, m.column);
  std::swap(m.rows, m.columns);
}

}  // namespace

bool serves(const at::Tensor& a) {
  return ops::small_serves(policy(), dtype_of(a), matrices_of(a), std::max(a.size(-2), a.size(-1)));
}

bool cholesky(const at::Tensor& a, bool upper, const at::Tensor& l, const at::Tensor& info) {
  Call call(SmallRoutine::cholesky, a);
  call.problem.x = call.write(l, upper);
  call.problem.info = call.integers(info);
  if (upper) transpose(call.problem.a);
  return call.run();
}

bool cholesky_solve(const at::Tensor& a, bool upper, const at::Tensor& b, const at::Tensor& x, const at::Tensor& info) {
  Call call(SmallRoutine::cholesky_solve, a);
  if (upper) transpose(call.problem.a);
  call.problem.b = call.read(b);
  call.problem.x = call.write(x);
  call.problem.info = call.integers(info);
  return call.run();
}

bool lu(const at::Tensor& a, bool pivot, const at::Tensor& lu, const at::Tensor& pivots, const at::Tensor& info,
        const at::Tensor& determinant) {
  Call call(SmallRoutine::lu, a);
  call.problem.x = call.write(lu);
  call.problem.pivots = call.integers(pivots);
  call.problem.info = call.integers(info);
  call.problem.values = call.values(determinant);
  call.problem.pivoting = pivot;
  return call.run();
}

bool solve(const at::Tensor& a, const at::Tensor& b, const at::Tensor& x, const at::Tensor& lu,
           const at::Tensor& pivots, const at::Tensor& info) {
  Call call(SmallRoutine::solve, a);
  call.problem.b = call.read(b);
  call.problem.x = call.write(x);
  call.problem.y = call.write(lu);
  call.problem.pivots = call.integers(pivots);
  call.problem.info = call.integers(info);
  return call.run();
}

bool triangular(const at::Tensor& a, const at::Tensor& b, bool left, bool upper, bool transposed, bool unit,
                const at::Tensor& x) {
  Call call(SmallRoutine::triangular, a);
  // x a = b is a^T x^T = b^T
  if (transposed == left) transpose(call.problem.a);
  call.problem.b = call.read(b, !left);
  call.problem.x = call.write(x, !left);
  call.problem.upper = upper != (transposed == left);
  call.problem.unit = unit;
  return call.run();
}

bool qr(const at::Tensor& a, const at::Tensor& q, const at::Tensor& r) {
  Call call(SmallRoutine::qr, a);
  call.problem.x = call.write(q);
  call.problem.y = call.write(r);
  return call.run();
}

bool geqrf(const at::Tensor& a, const at::Tensor& result, const at::Tensor& tau) {
  Call call(SmallRoutine::qr, a);
  call.problem.y = call.write(result);
  call.problem.values = call.values(tau);
  call.problem.unit = true;
  return call.run();
}

bool eigh(const at::Tensor& a, bool upper, const at::Tensor& w, const at::Tensor& v, const at::Tensor& info) {
  Call call(SmallRoutine::eigh, a);
  call.problem.x = call.write(v);
  call.problem.values = call.values(w);
  call.problem.info = call.integers(info);
  call.problem.upper = upper;
  return call.run();
}

bool svd(const at::Tensor& a, const at::Tensor& u, const at::Tensor& s, const at::Tensor& vh, const at::Tensor& info) {
  Call call(SmallRoutine::svd, a);
  const bool wide = a.size(-1) > a.size(-2);  // the transpose has them the other way round
  if (wide) transpose(call.problem.a);
  call.problem.x = wide ? call.write(vh, true) : call.write(u);
  call.problem.z = wide ? call.write(u, true) : call.write(vh);
  call.problem.values = call.values(s);
  call.problem.info = call.integers(info);
  return call.run();
}

}  // namespace xpu_ops::aten::linalg::small
