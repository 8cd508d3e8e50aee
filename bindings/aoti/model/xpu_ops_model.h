// What a model compiled ahead of time for xpu calls beside torch's own C functions, and the glue around generated
// calls. Compiled into each model: C functions and types only, so that a model outlives changes of this library.
#pragma once
#include <bit>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include <torch/csrc/inductor/aoti_torch/c/shim.h>

extern "C" {

// A kernel of a module, as xpu_ops.jit.service.KernelSpec: `signature` has a letter for each field of a call. `texts`
// are those that it may report; nullptr for a kernel that reports nothing.
struct XpuOpsKernel {
  const char* name;
  int64_t items;
  const char* signature;
  const char* const* texts;
  int64_t text_count;
};

// The kernels of `count` specs from the file <folder>/<module>.xpu_ops, on a device. They live as long as the process.
AOTI_TORCH_EXPORT AOTITorchError xpu_ops_load_kernels(const char* folder, const char* module, int32_t device,
                                                      const XpuOpsKernel* specs, int64_t count, void** ret);
// `bytes`: of all tensors among the fields.
AOTI_TORCH_EXPORT AOTITorchError xpu_ops_launch_sized(void* kernels, int64_t index, int64_t groups,
                                                      const uint64_t* fields, int64_t bytes);
AOTI_TORCH_EXPORT AOTITorchError xpu_ops_launch(void* kernels, int64_t index, int64_t groups, const uint64_t* fields);
AOTI_TORCH_EXPORT AOTITorchError xpu_ops_allocate(uint64_t bytes, void* stream, void** ret);
AOTI_TORCH_EXPORT void xpu_ops_free(void* data);
AOTI_TORCH_EXPORT AOTITorchError xpu_ops_copy(void* stream, void* to, const void* from, uint64_t bytes);
AOTI_TORCH_EXPORT AOTITorchError xpu_ops_wait(void* stream);

// oneDNN's operators that torch's headers declare for the CPU alone.
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_xpu__linear_pointwise(AtenTensorHandle X, AtenTensorHandle W,
                                                                  AtenTensorHandle* B, const char* attr,
                                                                  const double** scalars, int64_t scalars_len_,
                                                                  const char** algorithm, AtenTensorHandle* ret0);
AOTI_TORCH_EXPORT AOTITorchError aoti_torch_xpu__linear_pointwise_binary(AtenTensorHandle X, AtenTensorHandle other,
                                                                         AtenTensorHandle W, AtenTensorHandle* B,
                                                                         const char* attr, AtenTensorHandle* ret0);

}  // extern "C"

namespace xpu_ops_model {

// A field of a launch, and the bytes of the tensor that it points to.
struct Field {
  uint64_t bits;
  int64_t bytes = 0;
};

inline Field integer(int64_t v) { return {static_cast<uint64_t>(v)}; }
inline Field real32(double v) { return {std::bit_cast<uint32_t>(static_cast<float>(v))}; }
inline Field real64(double v) { return {std::bit_cast<uint64_t>(v)}; }
template <class Tensor> Field pointer(const Tensor& t) {
  void* data = nullptr;
  int64_t elements = 0;
  int32_t type = 0;
  if (aoti_torch_get_data_ptr(t, &data) != AOTI_TORCH_SUCCESS ||
      aoti_torch_get_numel(t, &elements) != AOTI_TORCH_SUCCESS || aoti_torch_get_dtype(t, &type) != AOTI_TORCH_SUCCESS)
    throw std::runtime_error("a tensor without memory");
  return {std::bit_cast<uint64_t>(data), elements * static_cast<int64_t>(aoti_torch_dtype_element_size(type))};
}

// The module of a model's kernels, loaded by the first run.
class Kernels {
 public:
  void load(const std::optional<std::string>& folder, const char* module, int32_t device, const XpuOpsKernel* specs,
            int64_t count) {
    if (kernels_ || count == 0) return;
    if (xpu_ops_load_kernels(folder.value_or("").c_str(), module, device, specs, count, &kernels_) !=
        AOTI_TORCH_SUCCESS)
      throw std::runtime_error("the kernels of the model could not be loaded");
  }
  template <class... Fields> void launch(int64_t index, int64_t groups, Fields... fields) {
    const uint64_t values[sizeof...(fields) + 1] = {fields.bits...};
    const int64_t bytes = (fields.bytes + ... + int64_t{0});
    if (xpu_ops_launch_sized(kernels_, index, groups, values, bytes) != AOTI_TORCH_SUCCESS)
      throw std::runtime_error("a kernel of the model could not be launched");
  }

 private:
  void* kernels_ = nullptr;
};

}  // namespace xpu_ops_model
