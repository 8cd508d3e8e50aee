// xpu_ops.onemkl: the cache of transforms, and whether oneMKL is there, for Python.
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/runtime/cache.hpp"
#include "bindings/runtime/module.hpp"
#include "kernels/mkl/library.hpp"
#include "kernels/mkl/plan_cache.hpp"

namespace xpu_ops {

namespace py = pybind11;
using mkl::PlanCache;
using namespace py::literals;

void bind_onemkl(py::module_& module) {
  py::module_ m = module.def_submodule("_onemkl");
  m.def("missing", &mkl::missing);
  m.def("version", [] { return std::string(mkl::table().library_version()); });
  bind_cache<PlanCache>(
      m, "plans", &stats_dict,
      [](const mkl::PlanCacheEntry& e) { return py::dict("kind"_a = e.kind, "shape"_a = e.shape, "uses"_a = e.uses); },
      [](uint64_t n) { PlanCache::instance().set_capacity(n); });
}

}  // namespace xpu_ops
