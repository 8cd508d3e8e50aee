#include "kernels/mkl/blas.hpp"

#include <memory>
#include <string>

#include "kernels/mkl/host.hpp"
#include "kernels/mkl/library.hpp"
#include "kernels/runtime/queue/command_graph.hpp"

namespace xpu_ops::mkl {
namespace {

void run(const Table& routines, const Gemm& g) {
  const runtime::FloatState state;
  routines.gemm(g);
}

class Task final : public runtime::NativeTask {
 public:
  Task(const Table& routines, const Gemm& g) : routines_(routines), gemm_(g) {}
  void run() override { mkl::run(routines_, gemm_); }

 private:
  const Table& routines_;
  const Gemm gemm_;
};

}  // namespace

bool takes_products(runtime::Queue& queue) {
  if (!runtime::host_accessible(queue.device) || !installed()) return false;
  const runtime::CommandGraph* graph = runtime::graph_of(queue);
  return graph ? graph->keeps() : !runtime::recording(queue);
}

void gemm(runtime::Queue& queue, const Gemm& given) {
  const Table& routines = table();
  Gemm g = given;
  g.batch.threads = threads_of(queue);
  if (runtime::CommandGraph* graph = runtime::graph_of(queue))
    return graph->add("gemm", [&routines, g] { run(routines, g); });
  if (queue.natives().takes()) {
    std::unique_ptr<runtime::NativeTask> task = std::make_unique<Task>(routines, g);
    if (queue.natives().submit(task)) return;
  }
  finish(queue);
  const auto name = [&] {
    std::string sizes = g.batch.count == 1 ? "" : std::to_string(g.batch.count) + "x";
    sizes.append(std::to_string(g.n)).append("x").append(std::to_string(g.k)).append("x").append(std::to_string(g.m));
    return std::string("gemm ").append(dtype_suffix(g.type)).append(" ").append(sizes);
  };
  run_on_host(queue, name, [&] { routines.gemm(g); });
}

}  // namespace xpu_ops::mkl
