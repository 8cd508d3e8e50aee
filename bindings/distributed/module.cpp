// The class that torch.distributed looks for under the name ProcessGroupXCCL.
#include "bindings/runtime/module.hpp"

#include <pybind11/chrono.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/distributed/outstanding.hpp"
#include "bindings/distributed/process_group.hpp"
#include "bindings/distributed/symmetric_memory.hpp"

namespace py = pybind11;

namespace xpu_ops {
namespace {

using distributed::Engine;
using distributed::ProcessGroupXCCL;
using Options = ProcessGroupXCCL::Options;
using Store = c10::intrusive_ptr<c10d::Store>;

// gloo's own headers are not in the wheel: its group is made by its Python class.
Engine gloo(const Store& store, int rank, int size, std::chrono::milliseconds timeout) {
  py::gil_scoped_acquire gil;
  auto type = py::module_::import("torch._C._distributed_c10d").attr("ProcessGroupGloo");
  return type(store, rank, size, py::arg("timeout") = timeout).cast<Engine>();
}

}  // namespace

void bind_distributed(py::module_& m) {
  // A torch built without it has no base class.
  if (!py::hasattr(py::module_::import("torch._C"), "_distributed_c10d")) return;
  py::class_<ProcessGroupXCCL, c10::intrusive_ptr<ProcessGroupXCCL>, c10d::Backend> group(m, "ProcessGroupXCCL");
  py::class_<Options, c10::intrusive_ptr<Options>, c10d::Backend::Options>(group, "Options")
      .def(py::init([](bool high_priority) {
             auto options = c10::make_intrusive<Options>();
             options->is_high_priority_stream = high_priority;
             return options;
           }),
           py::arg("is_high_priority_stream") = false)
      .def_readwrite("is_high_priority_stream", &Options::is_high_priority_stream)
      .def("__copy__", [](const Options& self) { return c10::make_intrusive<Options>(self); })
      .def("__deepcopy__", [](const Options& self, const py::dict&) { return c10::make_intrusive<Options>(self); });
  group
      .def(py::init([](const Store& store, int rank, int size, const c10::intrusive_ptr<Options>& options) {
             py::gil_scoped_release no_gil;
             return c10::make_intrusive<ProcessGroupXCCL>(store, rank, size, options, &gloo);
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("options"))
      .def(py::init([](const Store& store, int rank, int size, std::chrono::milliseconds timeout) {
             py::gil_scoped_release no_gil;
             return c10::make_intrusive<ProcessGroupXCCL>(store, rank, size, c10::make_intrusive<Options>(timeout),
                                                          &gloo);
           }),
           py::arg("store"), py::arg("rank"), py::arg("size"), py::arg("timeout") = kBackendDefaultTimeout)
      // Copied for a group that is split off, as a mesh of two dimensions does.
      .def_property_readonly(
          "options",
          [](ProcessGroupXCCL& self) { return c10::static_intrusive_pointer_cast<Options>(self.getBackendOptions()); })
      // Called where a group is split off a bound one, on the ranks that are not in it.
      .def("perform_nocolor_split", [](ProcessGroupXCCL&, const py::object&) {});
  distributed::register_symmetric_memory();
  m.def("settle_collectives", &distributed::settle, py::arg("limit"), py::call_guard<py::gil_scoped_release>());
}

}  // namespace xpu_ops
