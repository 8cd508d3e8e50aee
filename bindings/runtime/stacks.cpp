#include "bindings/runtime/stacks.hpp"

#include <torch/csrc/profiler/combined_traceback.h>
#include <torch/csrc/profiler/unwind/unwind.h>
#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <string>
#include <utility>

#include "kernels/runtime/device/symbols.hpp"

namespace py = pybind11;

// Exported by libtorch_python; their header needs a JSON library that the wheel does not ship.
namespace torch {
std::vector<py::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
void freeDeadCapturedTracebackFrames();
void installCapturedTracebackPython();
}  // namespace torch

namespace xpu_ops {
namespace {

// C++ frames stand apart from torch's: torch names them by addr2line, which takes seconds for its own library.
struct Stack {
  std::shared_ptr<torch::CapturedTraceback> script;
  std::vector<void*> native;
};

py::dict to_dict(const runtime::Symbol& s) {
  py::dict d;
  d["name"] = s.function;
  d["filename"] = s.library;
  d["line"] = s.offset;
  return d;
}

// The frames that gather the stack, innermost first.
bool gathers(const std::string& function) {
  for (const char* part : {"unwind", "gather_all", "caller_context"}) {
    if (function.find(part) != std::string::npos) return true;
  }
  return false;
}

// As torch::symbolize does it: a Python frame comes before the interpreter's function that runs it.
py::list merged(const std::vector<const runtime::Symbol*>& native, const std::vector<py::dict*>& dicts,
                const py::list& script) {
  py::list out;
  size_t next = 0, first = 0;
  while (first < native.size() && gathers(native[first]->function)) ++first;
  for (size_t i = first; i < native.size(); ++i) {
    if (next < script.size() && native[i]->function.find("PyEval_EvalFrame") != std::string::npos)
      out.append(script[next++]);
    out.append(*dicts[i]);
  }
  for (; next < script.size(); ++next) out.append(script[next]);
  return out;
}

}  // namespace

runtime::TraceContext gather_python() {
  return std::make_shared<Stack>(Stack{torch::CapturedTraceback::gather(true, true, false), {}});
}
runtime::TraceContext gather_all() {
  return std::make_shared<Stack>(Stack{torch::CapturedTraceback::gather(true, true, false), torch::unwind::unwind()});
}
void free_dead_stacks() { torch::freeDeadCapturedTracebackFrames(); }
void install_stacks() { torch::installCapturedTracebackPython(); }

void Frames::add(py::dict owner, const char* key, const runtime::TraceContext& context) {
  if (!context) {
    owner[key] = py::list();
    return;
  }
  const auto [at, made] = index_.try_emplace(context.get(), order_.size());
  if (made) order_.push_back(context.get());
  wanted_.push_back({std::move(owner), key, at->second});
}

void Frames::resolve() {
  if (order_.empty()) return;
  std::vector<torch::CapturedTraceback*> script;
  std::vector<void*> addresses;
  std::unordered_map<void*, size_t> index;
  for (void* p : order_) {
    auto* stack = static_cast<Stack*>(p);
    script.push_back(stack->script.get());
    for (void* address : stack->native) {
      if (index.try_emplace(address, addresses.size()).second) addresses.push_back(address);
    }
  }
  const auto symbols = runtime::symbols_of(addresses);
  std::vector<py::dict> dicts;
  for (const auto& s : symbols) dicts.push_back(to_dict(s));
  std::vector<py::object> frames = torch::py_symbolize(script);
  for (size_t i = 0; i < order_.size(); ++i) {
    std::vector<const runtime::Symbol*> native;
    std::vector<py::dict*> native_dicts;
    for (void* address : static_cast<Stack*>(order_[i])->native) {
      native.push_back(&symbols[index.at(address)]);
      native_dicts.push_back(&dicts[index.at(address)]);
    }
    if (!native.empty()) frames.at(i) = merged(native, native_dicts, frames.at(i).cast<py::list>());
  }
  for (auto& w : wanted_) w.owner[w.key] = frames.at(w.index);
}

}  // namespace xpu_ops
