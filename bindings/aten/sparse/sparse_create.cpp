// Making sparse tensors of indices and values with what torch checks about them, and empty compressed ones.
#include <ATen/Context.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_to_sparse_native.h>
#include <ATen/ops/_validate_sparse_coo_tensor_args_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor_native.h>
#include <ATen/ops/zeros.h>

#include "bindings/aten/sparse/sparse.hpp"

namespace xpu_ops::aten {
namespace {

// torch's own check flattens the indices by a table of kernels without this device. `indices` are in range.
void check_coalesced(const at::Tensor& indices, at::IntArrayRef size) {
  if (indices.size(1) < 2) return;
  const at::Tensor keys = coo_keys(indices.to(at::kLong), size.slice(0, indices.size(0)));
  const int64_t last = indices.size(1) - 1;
  TORCH_CHECK(keys.narrow(0, 1, last).gt(keys.narrow(0, 0, last)).all().item<bool>(),
              "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor");
}

at::Tensor marked(const at::Tensor& t, std::optional<bool> is_coalesced) {
  if (!is_coalesced.has_value()) return t;
  if (*is_coalesced && at::globalContext().checkSparseTensorInvariants().value_or(false))
    check_coalesced(t._indices(), t.sizes());
  get_sparse_impl(t)->set_coalesced(*is_coalesced);
  return t;
}

}  // namespace

void _validate_sparse_coo_tensor_args(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef size,
                                      std::optional<bool> is_coalesced, std::optional<bool> check_pinning) {
  at::native::_validate_sparse_coo_tensor_args(indices, values, size, std::nullopt, check_pinning);
  if (is_coalesced.value_or(false)) check_coalesced(indices, size);
}

at::Tensor sparse_coo_tensor_indices(const at::Tensor& indices, const at::Tensor& values,
                                     std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                     std::optional<at::Device> device, std::optional<bool> pin_memory,
                                     std::optional<bool> is_coalesced) {
  return marked(at::native::sparse_coo_tensor(indices, values, dtype, layout, device, pin_memory), is_coalesced);
}

at::Tensor sparse_coo_tensor_indices_size(const at::Tensor& indices, const at::Tensor& values, at::IntArrayRef size,
                                          std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                                          std::optional<at::Device> device, std::optional<bool> pin_memory,
                                          std::optional<bool> is_coalesced) {
  return marked(at::native::sparse_coo_tensor(indices, values, size, dtype, layout, device, pin_memory), is_coalesced);
}

at::Tensor sparse_csr__to_sparse(const at::Tensor& self, std::optional<at::Layout> layout,
                                 at::OptionalIntArrayRef blocksize, std::optional<int64_t> dense_dim) {
  if (layout.has_value() && *layout != self.layout()) {
    if (*layout == at::kSparseCsr && !blocksize.has_value()) return self.to_sparse_csr(dense_dim);
    if (*layout == at::kSparseCsc && !blocksize.has_value()) return self.to_sparse_csc(dense_dim);
    if (*layout == at::kSparseBsr && blocksize.has_value()) return self.to_sparse_bsr(*blocksize, dense_dim);
    if (*layout == at::kSparseBsc && blocksize.has_value()) return self.to_sparse_bsc(*blocksize, dense_dim);
  }
  return at::native::sparse_compressed_to_sparse(self, layout, blocksize, dense_dim);
}

// With pointers of zeros: torch's own leaves them as they lie in memory and then fails its check of them.
at::Tensor sparse_csr_empty_memory_format(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                                          std::optional<at::Layout> layout, std::optional<at::Device> device,
                                          std::optional<bool> pin_memory, std::optional<at::MemoryFormat>) {
  for (int64_t s : size) TORCH_CHECK(s >= 0, "Trying to create tensor with negative dimension ", s, ": ", size);
  TORCH_CHECK(size.size() >= 2,
              "torch.empty: Only batched sparse compressed (non-block) tensors are supported, but got size ", size);
  TORCH_CHECK(layout == at::kSparseCsr || layout == at::kSparseCsc,
              "empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got ", *layout);
  const at::TensorOptions options = at::TensorOptions().device(device).pinned_memory(pin_memory);
  std::vector<int64_t> pointers(size.begin(), size.end() - 2), numbers = pointers;
  pointers.push_back(size[at::sparse_csr::compressedDimension(*layout, size)] + 1);
  numbers.push_back(0);
  return at::_sparse_compressed_tensor_unsafe(
      at::zeros(pointers, options.dtype(at::kLong)), at::empty(numbers, options.dtype(at::kLong)),
      at::empty(numbers, options.dtype(dtype)), size, dtype, layout, device, pin_memory);
}

}  // namespace xpu_ops::aten
