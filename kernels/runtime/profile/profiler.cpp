#include "kernels/runtime/profile/profiler.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include <sycl/ext/oneapi/experimental/enqueue_functions.hpp>

#include "kernels/dtype.hpp"
#include "kernels/error.hpp"
#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/profile/recording.hpp"
#include "kernels/runtime/queue/command_graph.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops::runtime {
namespace {

namespace syclexp = sycl::ext::oneapi::experimental;
using sycl::info::event_profiling::command_end;
using sycl::info::event_profiling::command_start;
using sycl::info::event_profiling::command_submit;

constexpr size_t kOpen = 1024;  // events that a queue keeps before it reads the times of those that are done

// A command whose times are not read yet. With `after`, it ran between two markers.
struct Open {
  Command command;
  sycl::event event;
  std::optional<sycl::event> after;
};

// host = device clock - offset; the offset is between two readings of the host's clock.
struct ClockSample { int64_t host = 0, offset = 0, error = 0; };

struct ProfilerState {
  std::mutex mutex;
  bool on = false;
  std::atomic<uint64_t> next_id{1}, generation{1};
  std::vector<Command> calls;  // of the host: waits, loaded modules, collectives
  std::array<std::optional<ClockSample>, kMaxDevices> at_start;
  std::array<sycl::queue*, kMaxDevices> clocks{};
  int64_t epoch_at_start = 0, clock_at_start = 0;
};
ProfilerState& profiler_state() {
  static auto* s = new ProfilerState;
  return *s;
}

std::atomic<LaunchRecorder*> g_launch_recorder{nullptr};

// Who sees launches: one profile or one recorder, and the graphs that record. The flag that launches look at says
// whether there is anybody; it changes under this lock.
struct Watchers {
  std::mutex mutex;
  bool profile = false;
  int graphs = 0;
};
Watchers& watchers() {
  static auto* w = new Watchers;
  return *w;
}
void watch(bool profile) {
  const std::lock_guard<std::mutex> lock(watchers().mutex);
  watchers().profile = profile;
  detail::g_profiling.store(profile || watchers().graphs > 0);
}

struct Scopes {
  uint64_t generation = 0;
  std::vector<uint64_t> operators, user;
};
thread_local Scopes t_scopes;

// A profile that ended within an operator leaves it on the stack.
Scopes& scopes() {
  const uint64_t now = profiler_state().generation.load(std::memory_order_relaxed);
  if (t_scopes.generation != now) {
    t_scopes.operators.clear();
    t_scopes.user.clear();
    t_scopes.generation = now;
  }
  return t_scopes;
}

int32_t thread_id() {
  thread_local const auto id = static_cast<int32_t>(::syscall(SYS_gettid));
  return id;
}

int64_t epoch_clock() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(system_clock::now().time_since_epoch()).count();
}

// Who calls, and when among the others.
void sign(Command& c) {
  c.thread = thread_id();
  c.id = profiler_state().next_id.fetch_add(1, std::memory_order_relaxed);
  const Scopes& s = scopes();
  c.scope = s.operators.empty() ? 0 : s.operators.back();
  c.user_scope = s.user.empty() ? 0 : s.user.back();
}

bool complete(const sycl::event& e) {
  return e.get_info<sycl::info::event::command_execution_status>() == sycl::info::event_command_status::complete;
}

// Reads the times, on the device's clock. What failed has none: it ends where it was called.
void read_times(Open& o) {
  Command& c = o.command;
  try {
    if (o.after) {
      c.begin = static_cast<int64_t>(o.event.get_profiling_info<command_end>());
      c.end = static_cast<int64_t>(o.after->get_profiling_info<command_start>());
    } else {
      c.begin = static_cast<int64_t>(o.event.get_profiling_info<command_start>());
      c.end = static_cast<int64_t>(o.event.get_profiling_info<command_end>());
    }
    c.end = std::max(c.begin, c.end);
  } catch (const sycl::exception&) { c.begin = c.end = 0; }
}

sycl::queue& clock_queue(int device) {
  sycl::queue*& q = profiler_state().clocks[device];
  if (!q)
    q = new sycl::queue(sycl_context(device), sycl_device(device),
                        {sycl::property::queue::in_order(), sycl::property::queue::enable_profiling()});
  return *q;
}

// The time of submission that SYCL gives an event is the device's clock, read between two readings of the host's. The
// narrowest of some pairs counts. Where both clocks agree within it, they are one clock.
ClockSample sample_clock(int device) {
  sycl::queue& q = clock_queue(device);
  ClockSample best;
  best.error = INT64_MAX;
  for (int round = 0; round < 16; ++round) {
    const int64_t before = detail::profile_clock();
    const sycl::event e = q.ext_oneapi_submit_barrier();
    const int64_t after = detail::profile_clock();
    const auto seen = static_cast<int64_t>(e.get_profiling_info<command_submit>());
    const int64_t error = (after - before) / 2 + 1;
    if (error >= best.error) continue;
    best.host = before + (after - before) / 2;
    best.error = error;
    best.offset = seen - best.host;
  }
  q.wait();
  if (std::abs(best.offset) <= best.error) best.offset = 0;
  return best;
}

// Between two samples the offset goes along a line.
struct DeviceClock {
  ClockSample first, last;
  int64_t to_host(int64_t t) const {
    const int64_t host = t - last.offset;
    const int64_t drift = last.offset - first.offset, span = last.host - first.host;
    if (drift == 0 || span <= 0) return host;
    return host + static_cast<int64_t>(static_cast<double>(drift) * static_cast<double>(last.host - host) /
                                       static_cast<double>(span));
  }
};

}  // namespace

namespace detail {
// Of one queue, under its lock. Times of `done` are the device's, of inline work the host's.
struct CommandLog {
  std::deque<Open> open;
  std::vector<Command> done;

  void add(Open&& o) {
    open.push_back(std::move(o));
    if (open.size() < kOpen) return;
    // In order: what comes before a finished command has finished.
    while (open.size() > kOpen / 2 && complete(open.front().after ? *open.front().after : open.front().event)) close();
  }
  void close() {
    read_times(open.front());
    done.push_back(std::move(open.front().command));
    open.pop_front();
  }
};
}  // namespace detail

namespace {

// With `own_event` the event that f returns has the times, else markers around it do.
template <class F>
void submit(Queue& queue, Command c, bool own_event, F&& f) {
  c.call = detail::profile_clock();
  queue.submit([&](sycl::queue& q) {
    detail::CommandLog* log = queue.profile().log();
    if (!log || (graphs_recording() > 0 && recording(queue))) {
      f(q);
      return;
    }
    sign(c);
    c.device = queue.device;
    c.stream = queue.id;
    const bool timed = q.has_property<sycl::property::queue::enable_profiling>();
    auto marker = [&] {
      sycl::event e = q.ext_oneapi_submit_barrier();
      return timed ? e : queue.profile().timed().ext_oneapi_submit_barrier({e});
    };
    Open o;
    if (timed && own_event) {
      o.event = f(q);
    } else {
      o.event = marker();
      f(q);
      o.after = marker();
    }
    c.returned = detail::profile_clock();
    o.command = std::move(c);
    log->add(std::move(o));
  });
}

template <int D>
void launch(Queue& queue, const char* name, const sycl::kernel& kernel, const sycl::nd_range<D>& range,
            const void* args, size_t bytes) {
  Command c;
  c.detail = name;
  for (int d = 0; d < D; ++d) {
    c.groups[d] = static_cast<uint32_t>(range.get_group_range()[D - 1 - d]);
    c.local[d] = static_cast<uint32_t>(range.get_local_range()[D - 1 - d]);
  }
  if (CommandGraph* graph = graph_of(queue); graph && graph->keeps()) {
    CommandGraph::Launch launch{name, kernel, D, {}, {}, args, bytes};
    for (int d = 0; d < D; ++d) {
      launch.global[d] = range.get_global_range()[d];
      launch.local[d] = range.get_local_range()[d];
    }
    return graph->add(launch);
  }
  if (LaunchRecorder* recorder = launch_recorder()) {
    const Launch launch{
        queue, name, kernel, {c.groups[0], D > 1 ? c.groups[1] : 1}, {c.local[0], D > 1 ? c.local[1] : 1}, args, bytes};
    return recorder->launch(launch, [&] {
      queue.submit([&](sycl::queue& q) {
        syclexp::submit(q, [&](sycl::handler& h) {
          h.set_arg(0, syclexp::raw_kernel_arg(args, bytes));
          h.parallel_for(range, kernel);
        });
      });
    });
  }
  submit(queue, std::move(c), true, [&](sycl::queue& q) {
    return syclexp::submit_with_event(q, [&](sycl::handler& h) {
      h.set_arg(0, syclexp::raw_kernel_arg(args, bytes));
      h.parallel_for(range, kernel);
    });
  });
}

}  // namespace

namespace detail {

std::atomic<bool> g_profiling{false};

int64_t profile_clock() noexcept {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

CommandLog* new_log() { return new CommandLog; }

void profile_inline(ProfileTap& tap, const Label& label, int64_t begin) {
  const int64_t end = profile_clock();
  CommandLog* log = tap.log();
  if (!log) return;
  Command c;
  c.kind = label.kind;
  c.inlined = true;
  if (label.name) c.name = label.name;
  if (label.kernel) c.detail = label.kernel;
  c.bytes = label.bytes;
  sign(c);
  c.device = tap.stream().device;
  c.stream = tap.stream().id;
  c.call = c.begin = begin;
  c.returned = c.end = end;
  log->done.push_back(std::move(c));
}

void profile_wait(int device, int64_t begin, const char* name) noexcept { profile_call(name, device, begin); }

}  // namespace detail

void record_launches(LaunchRecorder* recorder) {
  ProfilerState& s = profiler_state();
  const std::lock_guard<std::mutex> lock(s.mutex);
  if (s.on)
    throw Error(ErrorKind::runtime, "The queues of xpu are being profiled; launches cannot be recorded meanwhile.");
  g_launch_recorder.store(recorder);
  watch(recorder != nullptr);
}

LaunchRecorder* launch_recorder() noexcept { return g_launch_recorder.load(std::memory_order_acquire); }

void watch_launches(int change) noexcept {
  const std::lock_guard<std::mutex> lock(watchers().mutex);
  watchers().graphs += change;
  detail::g_profiling.store(watchers().profile || watchers().graphs > 0);
}

bool profile_runs() noexcept {
  const std::lock_guard<std::mutex> lock(watchers().mutex);
  return watchers().profile;
}

void prepare_profiling() {
  if (!initialized() || in_bad_fork()) return;
  for (int device = 0; device < device_count(); ++device) {
    bool used = false;
    for_each_queue(device, [&](Queue& q) {
      used = true;
      q.profile().timed();
    });
    if (used) sample_clock(device);
  }
}

void start_profiling() {
  ProfilerState& s = profiler_state();
  std::lock_guard<std::mutex> lock(s.mutex);
  if (s.on) throw Error(ErrorKind::runtime, "The queues of xpu are being profiled already; one profile at a time.");
  if (launch_recorder()) throw Error(ErrorKind::runtime, "Launches of xpu are being recorded; no profile meanwhile.");
  s.calls.clear();
  s.at_start = {};
  s.next_id = 1;
  s.generation.fetch_add(1);
  if (initialized() && !in_bad_fork()) {
    for (int device = 0; device < device_count(); ++device) {
      bool used = false;
      for_each_queue(device, [&](Queue&) { used = true; });
      if (used) s.at_start[device] = sample_clock(device);
    }
  }
  s.clock_at_start = detail::profile_clock();
  s.epoch_at_start = epoch_clock();
  s.on = true;
  watch(true);
  // A queue that is made from here on begins by itself.
  if (!initialized() || in_bad_fork()) return;
  for (int device = 0; device < device_count(); ++device) for_each_queue(device, [](Queue& q) { q.profile().begin(); });
}

Profile stop_profiling() {
  ProfilerState& s = profiler_state();
  watch(false);
  Profile out;
  if (in_bad_fork()) return out;  // the queues belong to the parent
  std::array<DeviceClock, kMaxDevices> clocks{};
  if (initialized()) {
    for (int device = 0; device < device_count(); ++device) {
      std::vector<detail::CommandLog*> logs;
      for_each_queue(device, [&](Queue& q) {
        if (detail::CommandLog* log = q.profile().end()) logs.push_back(log);
      });
      if (logs.empty()) continue;
      DeviceClock& clock = clocks[device];
      for (detail::CommandLog* log : logs) {
        for (Open& o : log->open) {
          try {
            (o.after ? *o.after : o.event).wait();
          } catch (const sycl::exception&) {
            // Whoever waits for the queue is told.
          }
        }
        while (!log->open.empty()) log->close();
      }
      clock.last = sample_clock(device);
      clock.first = s.at_start[device].value_or(clock.last);
      out.clock_error_ns = std::max({out.clock_error_ns, clock.first.error, clock.last.error});
      for (detail::CommandLog* log : logs) {
        for (Command& c : log->done) {
          if (c.name.empty() && !c.detail.empty()) c.name = display_name(c.detail.c_str());
          if (!c.inlined) {
            c.begin = c.end ? clock.to_host(c.begin) : c.call;
            c.end = c.end ? clock.to_host(c.end) : c.call;
          }
          out.commands.push_back(std::move(c));
        }
        delete log;
      }
    }
  }
  std::lock_guard<std::mutex> lock(s.mutex);
  s.on = false;
  std::move(s.calls.begin(), s.calls.end(), std::back_inserter(out.commands));
  s.calls.clear();
  std::sort(out.commands.begin(), out.commands.end(), [](const Command& a, const Command& b) { return a.id < b.id; });
  // The epoch's clock may have been adjusted meanwhile: along a line, too.
  const int64_t clock_now = detail::profile_clock(), epoch_now = epoch_clock();
  const int64_t shift = s.epoch_at_start - s.clock_at_start;
  const double slope = static_cast<double>(epoch_now - clock_now - shift) /
                       static_cast<double>(std::max<int64_t>(1, clock_now - s.clock_at_start));
  for (Command& c : out.commands) {
    for (int64_t* t : {&c.call, &c.returned, &c.begin, &c.end})
      *t += shift + static_cast<int64_t>(slope * static_cast<double>(*t - s.clock_at_start));
  }
  return out;
}

void push_scope(uint64_t id, bool user) { (user ? scopes().user : scopes().operators).push_back(id); }
void pop_scope(bool user) {
  auto& stack = user ? scopes().user : scopes().operators;
  if (!stack.empty()) stack.pop_back();
}

std::string display_name(const char* kernel) {
  static const char* const types[] = {
#define XPU_OPS_DTYPE(name, number, bytes, scalar) #name,
#include "gen/kernels/dtypes.inc"
#undef XPU_OPS_DTYPE
  };
  std::string stem, suffix;
  for (const char* at = kernel; *at;) {
    const char* next = std::strchr(at, '_');
    const std::string word(at, next ? static_cast<size_t>(next - at) : std::strlen(at));
    at = next ? next + 1 : at + word.size();
    if (std::find(std::begin(types), std::end(types), word) != std::end(types)) {
      if (suffix != " " + word) suffix += " " + word;  // in and out of one type
    } else if (word == "steps") {
      suffix += " " + word;
    } else if (word != "rows" && word != "fours" && word != "contig" && word != "Tensor" && word != "Scalar" &&
               word != "kernel") {
      // A name may begin with an underscore.
      stem += (stem.empty() || stem.back() == '_' ? "" : "_") + (word.empty() ? "_" : word);
    }
  }
  return stem + suffix;
}

void submit_profiled(Queue& queue, const Label& label, const std::function<sycl::event(sycl::queue&)>& f) {
  if (LaunchRecorder* recorder = launch_recorder(); recorder && !recorder->command(label)) return;
  Command c;
  c.kind = label.kind;
  if (label.name) c.name = label.name;
  c.bytes = label.bytes;
  submit(queue, std::move(c), label.own_event, f);
}

void submit_profiled(Queue& queue, Command command, const std::function<sycl::event(sycl::queue&)>& f) {
  submit(queue, std::move(command), true, f);
}

void profile_on_host(Queue& queue, const std::string& name, int64_t begin) {
  const Label label{name.c_str()};
  queue.submit([&](sycl::queue&) { detail::profile_inline(queue.profile(), label, begin); });
}

void profile_call(const std::string& name, int device, int64_t begin, CommandKind kind) {
  if (!profile_runs()) return;  // a graph records
  Command c;
  c.kind = kind;
  c.name = name;
  c.device = device;
  c.call = c.begin = begin;
  c.returned = c.end = detail::profile_clock();
  sign(c);
  ProfilerState& s = profiler_state();
  std::lock_guard<std::mutex> lock(s.mutex);
  s.calls.push_back(std::move(c));
}

void launch_profiled(Queue& queue, const char* name, const sycl::kernel& kernel, const sycl::nd_range<1>& range,
                     const void* args, size_t bytes) {
  launch(queue, name, kernel, range, args, bytes);
}
void launch_profiled(Queue& queue, const char* name, const sycl::kernel& kernel, const sycl::nd_range<2>& range,
                     const void* args, size_t bytes) {
  launch(queue, name, kernel, range, args, bytes);
}

}  // namespace xpu_ops::runtime
