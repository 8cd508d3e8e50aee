// xpu_ops.onednn: the caches and post-op names of the oneDNN layer, for Python.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/aten/fused.hpp"
#include "bindings/runtime/cache.hpp"
#include "bindings/runtime/module.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/onednn/primitive_cache.hpp"
#include "kernels/onednn/weight_cache.hpp"
#include "kernels/postops.hpp"

namespace xpu_ops {

namespace py = pybind11;
using onednn::PrimitiveCache;
using onednn::WeightCache;
using namespace py::literals;

namespace {

py::dict primitive_entry(const onednn::PrimitiveCacheEntry& e) {
  return py::dict("op"_a = e.op, "impl"_a = e.impl, "shapes"_a = e.shapes, "scratchpad_bytes"_a = e.scratchpad_bytes,
                  "uses"_a = e.uses);
}

py::dict weight_stats(const onednn::WeightCacheStats& s) {
  return py::dict("budget"_a = s.budget, "bytes"_a = s.bytes, "size"_a = s.size, "hits"_a = s.hits,
                  "misses"_a = s.misses, "packs"_a = s.packs, "evictions"_a = s.evictions,
                  "invalidations"_a = s.invalidations);
}

py::dict weight_entry(const onednn::WeightCacheEntry& e) {
  return py::dict("device"_a = e.device, "bytes"_a = e.bytes, "version"_a = e.version, "offset"_a = e.offset,
                  "uses"_a = e.uses);
}

}  // namespace

void bind_onednn(py::module_& module) {
  py::module_ m = module.def_submodule("_onednn");
  bind_cache<PrimitiveCache>(m, "primitives", &stats_dict, &primitive_entry,
                             [](uint64_t n) { PrimitiveCache::instance().set_capacity(n); });
  bind_cache<WeightCache>(m, "weights", &weight_stats, &weight_entry, [](uint64_t bytes) {
    WeightCache::instance().set_budget(bytes);
  }).def("sweep", [] {
      WeightCache::instance().sweep();
    }).def("writes", [] { return WeightCache::instance().writes(); });
  m.def("verbose", &onednn::verbose);
  m.def("set_verbose", &onednn::set_verbose);
  m.def("eltwise_names", [] {
    py::dict d;
    for (const auto& e : eltwise_names()) d[e.name] = py::make_tuple(e.alpha, e.beta);
    return d;
  });
  m.def("binary_names", [] {
    std::vector<std::string> names;
    for (const auto& b : binary_names()) names.push_back(b.name);
    return names;
  });
  m.def("version", [] {
    const auto* v = dnnl::version();
    return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
  });
  m.def("matmul", &aten::fused_matmul, py::call_guard<py::gil_scoped_release>());
  m.def("convolution", &aten::fused_convolution, py::call_guard<py::gil_scoped_release>());
}

}  // namespace xpu_ops
