#include <algorithm>
#include <cstdlib>

#include "kernels/host/bulk.hpp"
#include "kernels/host/table.hpp"
#include "kernels/runtime/module/native_target.hpp"

namespace xpu_ops::host {
namespace {

constexpr uint32_t kBlock = 256;
// Rows from this length on are worth a call each; shorter ones share it.
constexpr uint32_t kOwnCall = 64;

struct Operand {
  DType type;
  size_t width;
  bool converted;
  alignas(32) char values[kBlock * 8];  // as the kernel takes them
  alignas(32) char stored[kBlock * 2];  // 16-bit ones, gathered

  void convert_in(const void* from, uint32_t n) { widen(type, from, reinterpret_cast<float*>(values), n); }
  void convert_out(void* to, uint32_t n) const { narrow(type, reinterpret_cast<const float*>(values), to, n); }
  // The same value in every element.
  void fill(const PointwiseArgs& p, int k, int outputs, uint32_t n) {
    const int i = k - outputs;
    if (p.mode[i] != kImmediate) {
      if (converted) {
        convert_in(p.ptr[k], 1);
        repeat(sizeof(float), values, values, n);
      } else {
        repeat(width, p.ptr[k], values, n);
      }
    } else if (is_floating(type)) {  // as value_as reads it
      type == DType::f64 ? repeat(8, &p.imm[i].f64, values, n) : repeat(4, &p.imm[i].f32, values, n);
    } else {
      const int64_t v = type == DType::b8 ? p.imm[i].i64 != 0 : p.imm[i].i64;
      repeat(width, &v, values, n);  // the low bytes come first
    }
  }
};

struct Work {
  Block kernel;
  const PointwiseArgs& p;
  int outputs, operands;
  Operand o[kPointwiseOperands];
  char* ptr[kPointwiseOperands];

  Work(Block kernel, const PointwiseArgs& p, const DType* types, int outputs, int operands)
      : kernel(kernel), p(p), outputs(outputs), operands(operands) {
    for (int k = 0; k < operands; ++k) {
      o[k].type = types[k];
      o[k].width = dtype_size(types[k]);
      o[k].converted = is_short_float(types[k]);
    }
  }

  bool same_everywhere(int k) const { return k >= outputs && p.mode[k - outputs] != kElement; }

  // Elements side by side: in pieces, since something has to be brought into form.
  void dense(char* const* base, uint32_t total) {
    const uint32_t most = std::min(total, kBlock);
    for (int k = outputs; k < operands; ++k)
      if (same_everywhere(k)) o[k].fill(p, k, outputs, most);
    for (uint32_t done = 0; done < total; done += kBlock) {
      const uint32_t n = std::min(total - done, kBlock);
      for (int k = 0; k < operands; ++k) {
        char* here = base[k] + done * o[k].width;
        if (k >= outputs && !same_everywhere(k) && o[k].converted) o[k].convert_in(here, n);
        ptr[k] = same_everywhere(k) || o[k].converted ? o[k].values : here;
      }
      kernel(ptr, n, p.s);
      for (int k = 0; k < outputs; ++k)
        if (o[k].converted) o[k].convert_out(base[k] + done * o[k].width, n);
    }
  }

  char* row(int k, uint32_t r) const {
    uint32_t offset = 0;
    for (uint32_t d = 0; d < p.ndim; ++d) {
      const uint32_t q = div(r, p.dims[d]);
      offset += (r - q * p.dims[d].d) * p.strides[d][k];
      r = q;
    }
    return static_cast<char*>(p.ptr[k]) + offset;
  }

  // Calls f(the first element, how many, how many came before) for n elements from column c of row r on.
  template <class F>
  void pieces(int k, uint32_t r, uint32_t c, uint32_t n, F&& f) const {
    const size_t step = p.step[k] * o[k].width;
    for (uint32_t done = 0; done < n; c = 0, ++r) {
      const uint32_t some = std::min(n - done, p.n - c);
      f(row(k, r) + c * step, some, done);
      done += some;
    }
  }

  void gather(int k, uint32_t r, uint32_t c, uint32_t n) {
    const size_t step = p.step[k];
    char* buffer = o[k].converted ? o[k].stored : o[k].values;
    by_width(o[k].width, [&](auto type) {
      using T = decltype(type);
      pieces(k, r, c, n, [&](const char* at, uint32_t some, uint32_t before) {
        const T* x = reinterpret_cast<const T*>(at);
        T* to = reinterpret_cast<T*>(buffer) + before;
        for (uint32_t i = 0; i < some; ++i) to[i] = x[i * step];
      });
    });
    if (o[k].converted) o[k].convert_in(o[k].stored, n);
  }

  void scatter(int k, uint32_t r, uint32_t c, uint32_t n) {
    if (o[k].converted) o[k].convert_out(o[k].stored, n);
    const size_t step = p.step[k];
    const char* buffer = o[k].converted ? o[k].stored : o[k].values;
    by_width(o[k].width, [&](auto type) {
      using T = decltype(type);
      pieces(k, r, c, n, [&](char* at, uint32_t some, uint32_t before) {
        T* x = reinterpret_cast<T*>(at);
        const T* from = reinterpret_cast<const T*>(buffer) + before;
        for (uint32_t i = 0; i < some; ++i) x[i * step] = from[i];
      });
    });
  }

  // Reads an input from `at` on in the kernel's form.
  void load(int k, const char* at, uint32_t n) {
    const auto step = static_cast<ptrdiff_t>(p.step[k]);
    if (!o[k].converted) return move(o[k].width, o[k].values, at, {1, step}, n);
    if (step == 1) return o[k].convert_in(at, n);
    const uint32_t some = step == 0 ? 1 : n;
    move(o[k].width, o[k].stored, at, {1, step}, some);
    o[k].convert_in(o[k].stored, some);
    if (step == 0) repeat(sizeof(float), o[k].values, o[k].values, n);
  }

  void store(int k, char* at, uint32_t n) {
    const auto step = static_cast<ptrdiff_t>(p.step[k]);
    if (!o[k].converted) return move(o[k].width, at, o[k].values, {step, 1}, n);
    if (step == 1) return o[k].convert_out(at, n);
    o[k].convert_out(o[k].stored, n);
    move(o[k].width, at, o[k].stored, {step, 1}, n);
  }

  // Rows one after the other.
  void long_rows() {
    uint32_t at[kPointwiseRowDims] = {}, offset[kPointwiseOperands] = {};
    const auto next = [&] {
      for (uint32_t d = 0; d < p.ndim; ++d) {
        for (int k = 0; k < operands; ++k) offset[k] += p.strides[d][k];
        if (++at[d] < p.dims[d].d) return;
        at[d] = 0;
        for (int k = 0; k < operands; ++k) offset[k] -= p.dims[d].d * p.strides[d][k];
      }
    };
    for (uint32_t r = 0; r < p.rows; ++r, next())
      for (uint32_t c = 0; c < p.n; c += kBlock) {
        const uint32_t n = std::min(p.n - c, kBlock);
        char* here[kPointwiseOperands];
        bool direct[kPointwiseOperands];
        for (int k = 0; k < operands; ++k) {
          here[k] = static_cast<char*>(p.ptr[k]) + offset[k] + size_t{c} * p.step[k] * o[k].width;
          const bool read = k >= outputs && !same_everywhere(k);
          direct[k] = !same_everywhere(k) && p.step[k] == 1 && !o[k].converted;
          ptr[k] = direct[k] ? here[k] : o[k].values;
          const bool held = c > 0 && p.step[k] == 0;  // by the first piece of the row
          if (read && !direct[k] && !held) load(k, here[k], n);
        }
        kernel(ptr, n, p.s);
        for (int k = 0; k < outputs; ++k)
          if (!direct[k]) store(k, here[k], n);
      }
  }

  void strided() {
    const uint32_t total = p.n * p.rows;
    for (int k = outputs; k < operands; ++k)
      if (same_everywhere(k)) o[k].fill(p, k, outputs, std::min(total, kBlock));
    if (p.n >= kOwnCall) return long_rows();
    uint32_t r = 0, c = 0;
    for (uint32_t done = 0; done < total;) {
      const uint32_t n = std::min(total - done, kBlock);
      for (int k = 0; k < operands; ++k) {
        ptr[k] = o[k].values;
        if (k >= outputs && !same_everywhere(k)) gather(k, r, c, n);
      }
      kernel(ptr, n, p.s);
      for (int k = 0; k < outputs; ++k) scatter(k, r, c, n);
      done += n;
      c += n;
      r += c / p.n;
      c %= p.n;
    }
  }
};

}  // namespace

bool wide_vectors() noexcept {
  static const bool wide = [] {
    // The target that the device's code is made for holds here too: one that is named stands for a whole processor.
    const char* forced = std::getenv("CL_CONFIG_CPU_TARGET_ARCH");
    const std::string_view sets = forced ? runtime::isa_of_target(forced) : std::string_view{};
    return (sets.empty() || sets.find("avx512vl") != sets.npos) && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq");
  }();
  return wide;
}

void run(Block kernel, const PointwiseArgs& p, const DType* types, int outputs, int operands, bool dense) {
  char* base[kPointwiseOperands];
  bool direct = dense;
  for (int k = 0; k < operands; ++k) {
    base[k] = static_cast<char*>(p.ptr[k]);
    direct = direct && !is_short_float(types[k]) && (k < outputs || p.mode[k - outputs] == kElement);
  }
  if (direct) return kernel(base, p.n, p.s);
  Work work(kernel, p, types, outputs, operands);
  if (dense)
    work.dense(base, p.n);
  else
    work.strided();
}

}  // namespace xpu_ops::host
