// Views as oneDNN's memory descriptors.
#pragma once
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/view.hpp"

namespace xpu_ops::onednn {

// data_type::undef where oneDNN has no such type.
dnnl::memory::data_type to_dnnl(DType t) noexcept;
dnnl::memory::desc to_desc(const View& v);

}  // namespace xpu_ops::onednn
