// xpu_ops.onednn: the caches and post-op names of the oneDNN layer, for Python.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/aten/fused.hpp"
#include "bindings/runtime/module.hpp"
#include "kernels/onednn/engine.hpp"
#include "kernels/onednn/postops.hpp"
#include "kernels/onednn/primitive_cache.hpp"
#include "kernels/onednn/weight_cache.hpp"

namespace xpu_ops {

namespace py = pybind11;
using onednn::PrimitiveCache;
using onednn::WeightCache;

namespace {

py::dict primitive_stats() {
  const auto s = PrimitiveCache::instance().stats();
  py::dict d;
  d["capacity"] = s.capacity;
  d["size"] = s.size;
  d["hits"] = s.hits;
  d["misses"] = s.misses;
  d["evictions"] = s.evictions;
  return d;
}

py::list primitive_entries() {
  py::list out;
  for (const auto& e : PrimitiveCache::instance().entries()) {
    py::dict d;
    d["op"] = e.op;
    d["impl"] = e.impl;
    d["shapes"] = e.shapes;
    d["scratchpad_bytes"] = e.scratchpad_bytes;
    d["uses"] = e.uses;
    out.append(d);
  }
  return out;
}

py::dict weight_stats() {
  const auto s = WeightCache::instance().stats();
  py::dict d;
  d["budget"] = s.budget;
  d["bytes"] = s.bytes;
  d["size"] = s.size;
  d["hits"] = s.hits;
  d["misses"] = s.misses;
  d["packs"] = s.packs;
  d["evictions"] = s.evictions;
  d["invalidations"] = s.invalidations;
  return d;
}

py::list weight_entries() {
  py::list out;
  for (const auto& e : WeightCache::instance().entries()) {
    py::dict d;
    d["device"] = e.device;
    d["bytes"] = e.bytes;
    d["version"] = e.version;
    d["offset"] = e.offset;
    d["uses"] = e.uses;
    out.append(d);
  }
  return out;
}

}  // namespace

void bind_onednn(py::module_& module) {
  py::module_ m = module.def_submodule("_onednn");
  m.def("primitive_stats", &primitive_stats);
  m.def("primitive_entries", &primitive_entries);
  m.def("primitive_clear", [] { PrimitiveCache::instance().clear(); });
  m.def("primitive_set_capacity", [](uint64_t n) { PrimitiveCache::instance().set_capacity(n); });
  m.def("weight_stats", &weight_stats);
  m.def("weight_entries", &weight_entries);
  m.def("weight_clear", [] { WeightCache::instance().clear(); });
  m.def("weight_sweep", [] { WeightCache::instance().sweep(); });
  m.def("weight_set_budget", [](uint64_t bytes) { WeightCache::instance().set_budget(bytes); });
  m.def("verbose", &onednn::verbose);
  m.def("set_verbose", &onednn::set_verbose);
  m.def("eltwise_names", [] {
    py::dict d;
    for (const auto& e : onednn::eltwise_names()) d[e.name] = py::make_tuple(e.alpha, e.beta);
    return d;
  });
  m.def("binary_names", [] {
    std::vector<std::string> names;
    for (const auto& b : onednn::binary_names()) names.push_back(b.name);
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
