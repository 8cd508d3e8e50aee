// The device in torch.profiler: a Kineto activity profiler over the commands that the runtime records.
#include "bindings/runtime/profiler.hpp"

#define FMT_HEADER_ONLY
#include <kineto/libkineto.h>
#include <kineto/output_base.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/profile/profiler.hpp"
#include "kernels/runtime/queue/queue.hpp"

namespace xpu_ops {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;
using runtime::Command;
using runtime::CommandKind;

ActivityType type_of(const Command& c) {
  switch (c.kind) {
    case CommandKind::copy: return ActivityType::GPU_MEMCPY;
    case CommandKind::fill: return ActivityType::GPU_MEMSET;
    case CommandKind::wait: return ActivityType::XPU_RUNTIME;
    default: return ActivityType::CONCURRENT_KERNEL;
  }
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out;
}

// A row of the trace. External queues are addresses, which Kineto's 32 bits do not hold.
int32_t row_of(int64_t stream) { return static_cast<int32_t>(stream & 1 ? stream : (stream >> 4) & 0x7fffffff); }

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> types) : types_(std::move(types)) { runtime::prepare_profiling(); }
  ~Session() override {
    if (status_ == libkineto::TraceStatus::RECORDING) Session::stop();
  }

  void start() override {
    try {
      runtime::start_profiling();
      status_ = libkineto::TraceStatus::RECORDING;
    } catch (const std::exception& e) { fail(e); }
  }
  void stop() override {
    if (status_ != libkineto::TraceStatus::RECORDING) return;
    status_ = libkineto::TraceStatus::PROCESSING;
    try {
      profile_ = runtime::stop_profiling();
    } catch (const std::exception& e) { fail(e); }
  }
  std::vector<std::string> errors() override { return errors_; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) -> const libkineto::ITraceActivity* { return nullptr; }, 0, 0);
  }
  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t start,
                    int64_t end) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(start, end, "xpu");
    buffer_->gpuOpCount = 0;
    for (const Command& c : profile_.commands) {
      if (c.kind == CommandKind::collective) {
        add_collective(c, logger);
        continue;
      }
      // A wait that the program asks for outside of operators belongs to the range that it names.
      const uint64_t scope = c.scope || c.kind != CommandKind::wait ? c.scope : c.user_scope;
      const libkineto::ITraceActivity* op = scope ? linked(static_cast<int32_t>(scope)) : nullptr;
      if (wanted(ActivityType::XPU_RUNTIME)) add_call(c, op, logger);
      if (c.kind == CommandKind::wait || !wanted(type_of(c))) continue;
      add_execution(c, op, logger);
      if (c.user_scope) extend_range(c, linked(static_cast<int32_t>(c.user_scope)));
      rows_.insert({c.device, c.stream});
      ++buffer_->gpuOpCount;
    }
    // torch asks for the first on a CUDA device alone.
    if (wanted(ActivityType::GPU_USER_ANNOTATION) || wanted(ActivityType::USER_ANNOTATION)) add_ranges(logger);
    profile_.commands.clear();
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    if (rows_.empty() && carriers_.empty()) return nullptr;
    const int device = rows_.empty() ? carriers_.begin()->first : rows_.begin()->first;
    const std::string index = std::to_string(device);
    return std::make_unique<libkineto::DeviceInfo>(
        libkineto::DeviceInfo{device, libkineto::kExceedMaxPid + device,
                              "xpu:" + index + " " + runtime::device_info(device).name, "XPU " + index});
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> out;
    for (const auto& [device, stream] : rows_) {
      const char* note = stream == runtime::kDefaultStream ? " (default)" : stream & 1 ? "" : " (external)";
      const int32_t row = row_of(stream);
      out.push_back({row, row, device, "stream " + std::to_string(row) + note});
    }
    for (const auto& [device, thread] : carriers_)
      out.push_back({thread, thread, device, "collectives, thread " + std::to_string(thread)});
    return out;
  }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { runtime::push_scope(id, false); }
  void popCorrelationId() override { runtime::pop_scope(false); }
  void pushUserCorrelationId(uint64_t id) override { runtime::push_scope(id, true); }
  void popUserCorrelationId() override { runtime::pop_scope(true); }

  std::string getDeviceProperties() override {
    std::string out;
    if (!runtime::initialized() || runtime::in_bad_fork()) return out;
    for (int i = 0; i < runtime::device_count(); ++i) {
      const auto& d = runtime::device_info(i);
      out += std::string(i ? ", " : "") + "{\"id\": " + std::to_string(i) + ", \"name\": \"" + escaped(d.name) +
             "\", \"type\": \"" + d.type + "\", \"totalGlobalMem\": " + std::to_string(d.total_memory) +
             ", \"computeUnits\": " + std::to_string(d.max_compute_units) + ", \"driver\": \"" +
             escaped(d.driver_version) + "\"}";
    }
    return out;
  }
  std::unordered_map<std::string, std::string> getMetadata() override {
    return {{"xpu_clock_error_ns", std::to_string(profile_.clock_error_ns)}};
  }

 private:
  bool wanted(ActivityType type) const { return types_.count(type) != 0; }
  void fail(const std::exception& e) {
    status_ = libkineto::TraceStatus::ERROR;
    errors_.emplace_back(e.what());
  }

  GenericTraceActivity& make(ActivityType type, const std::string& name, const Command& c,
                             const libkineto::ITraceActivity* op) {
    auto made = std::make_unique<GenericTraceActivity>(buffer_->span, type, escaped(name));
    GenericTraceActivity& a = *made;
    buffer_->activities.push_back(std::move(made));
    a.id = static_cast<int32_t>(c.id);
    a.linked = op;
    a.addMetadata("correlation", c.id);
    return a;
  }

  void add_call(const Command& c, const libkineto::ITraceActivity* op, libkineto::ActivityLogger& logger) {
    static const char* const names[] = {"launch", "oneDNN", "copy", "fill", "graph replay"};
    const std::string what = c.kind == CommandKind::wait ? c.name
                             : c.inlined                 ? "inline"
                                                         : names[static_cast<int>(c.kind)];
    auto& a = make(ActivityType::XPU_RUNTIME, "xpu: " + what, c, op);
    if (!op) a.id = 0;  // Kineto would take it for the number of an operator
    a.startTime = c.call;
    a.endTime = c.returned;
    a.device = libkineto::processId();
    a.resource = a.threadId = c.thread;
    if (c.kind != CommandKind::wait) flow(a, c, true);
    logger.handleActivity(a);
  }

  void add_execution(const Command& c, const libkineto::ITraceActivity* op, libkineto::ActivityLogger& logger) {
    std::string name = c.name;
    if (name.empty() && op) name = op->name();
    auto& a = make(type_of(c), name, c, op);
    a.startTime = c.begin;
    a.endTime = c.end;
    a.device = c.device;
    a.resource = row_of(c.stream);
    a.threadId = c.thread;
    flow(a, c, false);
    a.addMetadata("device", c.device);
    a.addMetadata("stream", c.stream);
    a.addMetadata("inline", c.inlined);
    a.addMetadata("queued_us", static_cast<double>(c.begin - c.returned) * 1e-3);
    if (!c.detail.empty()) a.addMetadataQuoted("kernel", escaped(c.detail));
    if (c.bytes) {
      a.addMetadata("bytes", c.bytes);
      if (c.end > c.begin)
        a.addMetadata("memory bandwidth (GB/s)", static_cast<double>(c.bytes) / static_cast<double>(c.end - c.begin));
    }
    if (c.flops > 0) {
      a.addMetadata("flops", c.flops);
      if (c.end > c.begin) a.addMetadata("GFLOP/s", c.flops / static_cast<double>(c.end - c.begin));
    }
    if (c.groups[0]) {
      a.addMetadata("grid", shape_text(c.groups));
      a.addMetadata("block", shape_text(c.local));
    }
    logger.handleActivity(a);
  }

  // A range of the device that is on no stream: a row for each thread that carries collectives.
  void add_collective(const Command& c, libkineto::ActivityLogger& logger) {
    if (!wanted(ActivityType::CONCURRENT_KERNEL)) return;
    auto& a = make(ActivityType::GPU_USER_ANNOTATION, c.name, c, nullptr);
    a.startTime = c.begin;
    a.endTime = c.end;
    a.device = c.device;
    a.resource = a.threadId = c.thread;
    carriers_.insert({c.device, c.thread});
    logger.handleActivity(a);
  }

  static std::string shape_text(const uint32_t (&n)[2]) {
    return "[" + std::to_string(n[0]) + ", " + std::to_string(n[1] ? n[1] : 1) + ", 1]";
  }
  static void flow(GenericTraceActivity& a, const Command& c, bool start) {
    a.flow.id = static_cast<uint32_t>(c.id);
    a.flow.type = libkineto::kLinkAsyncCpuGpu;
    a.flow.start = start;
  }

  // A range that the user names, on each stream from its first command to its last.
  struct Range {
    const libkineto::ITraceActivity* op;
    int64_t begin, end;
  };
  void extend_range(const Command& c, const libkineto::ITraceActivity* op) {
    if (!op) return;
    auto [at, made] = ranges_.try_emplace({c.device, c.stream, c.user_scope}, Range{op, c.begin, c.end});
    at->second.begin = std::min(at->second.begin, c.begin);
    at->second.end = std::max(at->second.end, c.end);
  }
  void add_ranges(libkineto::ActivityLogger& logger) {
    for (const auto& [key, range] : ranges_) {
      Command c;
      std::tie(c.device, c.stream, c.id) = key;
      auto& a = make(ActivityType::GPU_USER_ANNOTATION, range.op->name(), c, nullptr);
      a.startTime = range.begin;
      a.endTime = range.end;
      a.device = c.device;
      a.resource = row_of(c.stream);
      logger.handleActivity(a);
    }
    ranges_.clear();
  }

  const std::set<ActivityType> types_;
  runtime::Profile profile_;
  std::vector<std::string> errors_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::set<std::pair<int, int64_t>> rows_;
  std::set<std::pair<int, int32_t>> carriers_;
  std::map<std::tuple<int, int64_t, uint64_t>, Range> ranges_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override {
    static const std::string n = "xpu_ops";
    return n;
  }
  const std::set<ActivityType>& availableActivities() const override {
    static const std::set<ActivityType> types{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY,
                                              ActivityType::GPU_MEMSET, ActivityType::GPU_USER_ANNOTATION,
                                              ActivityType::XPU_RUNTIME};
    return types;
  }
  // A profile of the CPU alone names XPU_RUNTIME too, and gets nothing of this device.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config&) override {
    const auto named = [&](ActivityType type) { return types.count(type) != 0; };
    const bool device = named(ActivityType::CONCURRENT_KERNEL) || named(ActivityType::GPU_MEMCPY) ||
                        named(ActivityType::GPU_MEMSET) ||
                        (named(ActivityType::XPU_RUNTIME) && !named(ActivityType::CPU_OP));
    // ProfilerActivity.CUDA alone names the same kinds of events; it asks for another device's.
    const bool other = named(ActivityType::CUDA_RUNTIME) && !named(ActivityType::XPU_RUNTIME);
    if (runtime::in_bad_fork() || !device || other) return nullptr;
    return std::make_unique<Session>(types);
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }
};

}  // namespace

void register_profiler() {
  libkineto::api().registerProfilerFactory([] { return std::make_unique<Profiler>(); });
}

}  // namespace xpu_ops
