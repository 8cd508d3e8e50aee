// A profile of the queues: every command with its times, where the host waited, and what it loaded.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "kernels/runtime/profile/profiling.hpp"

namespace xpu_ops::runtime {

struct Command {
  CommandKind kind = CommandKind::kernel;
  bool inlined = false;  // computed by the calling thread
  std::string name;      // "add f32"; empty where it is called as its operator
  std::string detail;    // the kernel's whole name; empty where there is no more to say
  int device = 0;
  int64_t stream = 0;
  uint64_t bytes = 0;  // that a copy or a fill writes
  double flops = 0;    // of a primitive; 0: not known
  uint32_t groups[2] = {}, local[2] = {};
  uint64_t id = 0;                     // from 1 on, in the order of the calls
  uint64_t scope = 0, user_scope = 0;  // innermost of push_scope on the calling thread; 0: none
  int32_t thread = 0;                  // the operating system's id of the calling thread
  int64_t call = 0, returned = 0;      // of the host's call, in ns since the epoch
  int64_t begin = 0, end = 0;          // of the execution; of a wait, a load or a collective, of the host's call
};

// Creates what a profile needs, so that the first commands after the start are not late.
void prepare_profiling();
// Throws Error{runtime} where a profile runs. Starts no device.
void start_profiling();
struct Profile {
  std::vector<Command> commands;  // by id
  int64_t clock_error_ns = 0;     // bound of the error of begin and end against call and returned
};
// Returns when all recorded commands have finished. Raises nothing that a command raises.
Profile stop_profiling();

// While a profile runs, for commands of which there is more to say than a Label holds.
void submit_profiled(Queue& queue, Command command, const std::function<sycl::event(sycl::queue&)>& f);
// The calling thread has done the work of a command since `begin` (detail::profile_clock), without the queue's lock.
void profile_on_host(Queue& queue, const std::string& name, int64_t begin);
// The calling thread has prepared something for the device since `begin`, or has carried a collective of it.
void profile_call(const std::string& name, int device, int64_t begin, CommandKind kind = CommandKind::wait);

// A graph begins (1) or ends (-1) to record: launches are offered to graphs meanwhile.
void watch_launches(int change) noexcept;
bool profile_runs() noexcept;

// The operator (or the range a user names) in which the calling thread is.
void push_scope(uint64_t id, bool user);
void pop_scope(bool user);

// "add_Tensor_f32_rows" -> "add f32", "cast_contig_i16_f32" -> "cast i16 f32"
std::string display_name(const char* kernel);

}  // namespace xpu_ops::runtime
