#include "kernels/host/indexing.hpp"

#include <cstring>

#include "kernels/sycl/index/indexing.hpp"

namespace xpu_ops::host {
namespace {

template <class T, bool kWrite, class Index>
void move(const IndexedArgs& p) {
  const uint32_t inner = p.walk.inner;
  const bool line = p.walk.inner_ndim == 1;
  const int64_t plain_step = line ? p.walk.strides[0][0] : 0, data_step = line ? p.walk.strides[0][1] : 0,
                index_step = line ? p.walk.strides[0][2] : 0;
  const auto one = [](T* plain, T* data) {
    if constexpr (kWrite)
      *data = *plain;
    else
      *plain = *data;
  };
  for (uint32_t row = 0; row < p.walk.rows; ++row) {
    int64_t o[3] = {0, 0, 0};
    xpu::add_row(p.walk, row, o);
    T *plain = static_cast<T*>(p.plain) + o[0], *data = static_cast<T*>(p.data) + o[1];
    const Index* index = static_cast<const Index*>(p.index.ptr) + o[2];
    if (index_step == 0) {
      int64_t id = index[0];
      if (!xpu::check_index(p.index, id)) continue;
      data += id * p.index.stride;
      if (plain_step == 1 && data_step == 1)
        std::memmove(kWrite ? data : plain, kWrite ? plain : data, inner * sizeof(T));
      else
        for (uint32_t i = 0; i < inner; ++i) one(plain + i * plain_step, data + i * data_step);
    } else {
      for (uint32_t i = 0; i < inner; ++i) {
        int64_t id = index[i * index_step];
        if (xpu::check_index(p.index, id)) one(plain + i * plain_step, data + (i * data_step + id * p.index.stride));
      }
    }
  }
}

template <class T> void move_as(bool write, const IndexedArgs& p) {
  if (p.index.is32)
    write ? move<T, true, int32_t>(p) : move<T, false, int32_t>(p);
  else
    write ? move<T, true, int64_t>(p) : move<T, false, int64_t>(p);
}

// Calls f(a zero of a type of so many bytes).
template <class F> void by_size(size_t element, F f) {
  switch (element) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(xpu::raw16{});
  }
}

}  // namespace

void indexed_move(bool write, const IndexedArgs& args, size_t element) {
  by_size(element, [&]<class T>(T) { move_as<T>(write, args); });
}

uint32_t compact_count(const CompactArgs& args, size_t element) {
  uint32_t count = 0;
  by_size(element, [&]<class T>(T) {
    const T* mask = static_cast<const T*>(args.mask);
    for (uint32_t i = 0; i < args.n; ++i) count += xpu::is_set(mask, i, args.keep) ? 1 : 0;
  });
  return count;
}

void compact_coordinates(const CompactArgs& args, size_t element) {
  by_size(element, [&]<class T>(T) { xpu::chunk_coordinates<T>(args, 0); });
}

void masked_select(const CompactArgs& args, size_t element) {
  by_size(element, [&]<class T>(T) {
    const uint8_t* mask = static_cast<const uint8_t*>(args.mask);
    const T* src = static_cast<const T*>(args.src);
    T* out = static_cast<T*>(args.out);
    for (uint32_t i = 0; i < args.n; ++i)
      if (mask[i]) *out++ = src[i];
  });
}

// Random masks make no branches: every element is read and written.
void masked_scatter(const CompactArgs& args, size_t element) {
  by_size(element, [&]<class T>(T) {
    const uint8_t* mask = static_cast<const uint8_t*>(args.mask);
    const T* src = static_cast<const T*>(args.src);
    T* out = static_cast<T*>(args.out);
    int64_t k = 0;
    uint32_t i = 0;
    for (; i < args.n && k < args.out_size; ++i) {
      const bool set = mask[i] != 0;
      out[i] = *(set ? src + k : out + i);
      k += set ? 1 : 0;
    }
    for (; i < args.n; ++i)
      if (mask[i]) xpu::report_error(args.error, DeviceErrorCode::masked_scatter, 0, k++, args.out_size);
  });
}

}  // namespace xpu_ops::host
