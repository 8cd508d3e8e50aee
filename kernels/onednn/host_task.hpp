// The work that a primitive of oneDNN does on a CPU device, taken out of the host task in which oneDNN submits it.
#pragma once
#include <functional>

#include "kernels/onednn/primitive_cache.hpp"

namespace xpu_ops::onednn {

// Whether tasks can be taken: the first call puts itself between oneDNN and sycl::handler::SetHostTask.
bool takes_host_tasks();

// Takes the work that dnnl_primitive_execute submits. The memory objects and what they point to must live until it has
// run; the primitive does. Throws Error{runtime} if oneDNN refuses.
std::function<void()> host_task(int device, const Entry& entry, const std::vector<dnnl_exec_arg_t>& args);

}  // namespace xpu_ops::onednn
