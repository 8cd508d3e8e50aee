// Commands of queues, recorded once and replayed. SYCL's command graph records any command. On an OpenCL CPU device it
// replays kernel by kernel, at the price of a launch each, and knows no work of the host: there, kernels are kept with
// their arguments and enqueued by OpenCL, with work of the host between them, and SYCL's graphs hold what is neither.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <sycl/sycl.hpp>

#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {

class CommandGraph {
 public:
  // One launch; sizes in the order of SYCL.
  struct Launch {
    const char* name;
    const sycl::kernel& kernel;
    int dims;
    size_t global[2], local[2];
    const void* args;
    size_t bytes;
  };

  const uint64_t number;  // from 1 on, of this process
  explicit CommandGraph(Queue& queue);
  ~CommandGraph();  // nothing of it runs any more
  CommandGraph(const CommandGraph&) = delete;
  CommandGraph& operator=(const CommandGraph&) = delete;

  void begin();
  void end();  // on every queue that records
  void instantiate();
  bool instantiated() const { return instantiated_; }
  size_t size() const { return parts_.size(); }  // commands, where it keeps them
  void replay(Queue& queue);
  void print(const std::string& path) const;

  // Whether it keeps kernels and work of the host.
  bool keeps() const { return keeps_; }
  bool records(const Queue& queue) const;
  void add(const Launch& launch);
  void add(const char* name, std::function<void()> work);
  // Whoever replays it sees to it that no packed weight is written: set before begin(). What it reads then lives with
  // it.
  bool weights_stay = false;
  void hold(std::shared_ptr<void> held);
  // The queue records from here on; its work comes after all that was recorded.
  void join(Queue& queue);

 private:
  struct Part;
  void add(std::unique_ptr<Part> part);
  void close();  // the commands that SYCL has recorded become a part
  sycl::event enqueue(sycl::queue& queue);
  void run_work(size_t begin, size_t end);

  Queue& queue_;
  bool keeps_ = false, instantiated_ = false;
  std::optional<sycl::ext::oneapi::experimental::command_graph<>> recorded_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::shared_ptr<void>> held_;
  mutable std::mutex mutex_;  // of what is recorded
  char* mark_ = nullptr;      // written at the end of a replay
  std::mutex error_mutex_;
  std::exception_ptr error_;  // of work of the host; raised by the next replay
};

// The graph that the queue records in; nullptr where there is none.
CommandGraph* graph_of(const Queue& queue);
// The queue records in the graph of this number, if that still records.
void join_graph(uint64_t number, Queue& queue);

}  // namespace xpu_ops::runtime
