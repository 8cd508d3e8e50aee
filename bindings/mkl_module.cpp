// xpu_ops.onemkl: the cache of transforms, and whether oneMKL is there, for Python.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/runtime/module.hpp"
#include "kernels/mkl/library.hpp"
#include "kernels/mkl/plan_cache.hpp"

namespace xpu_ops {

namespace py = pybind11;
using mkl::PlanCache;

namespace {

py::dict plan_stats() {
  const auto s = PlanCache::instance().stats();
  py::dict d;
  d["capacity"] = s.capacity;
  d["size"] = s.size;
  d["hits"] = s.hits;
  d["misses"] = s.misses;
  d["evictions"] = s.evictions;
  return d;
}

py::list plan_entries() {
  py::list out;
  for (const auto& e : PlanCache::instance().entries()) {
    py::dict d;
    d["kind"] = e.kind;
    d["shape"] = e.shape;
    d["uses"] = e.uses;
    out.append(d);
  }
  return out;
}

}  // namespace

void bind_onemkl(py::module_& module) {
  py::module_ m = module.def_submodule("_onemkl");
  m.def("missing", &mkl::missing);
  m.def("version", [] { return std::string(mkl::table().library_version()); });
  m.def("plan_stats", &plan_stats);
  m.def("plan_entries", &plan_entries);
  m.def("plan_clear", [] { PlanCache::instance().clear(); });
  m.def("plan_set_capacity", [](uint64_t n) { PlanCache::instance().set_capacity(n); });
}

}  // namespace xpu_ops
