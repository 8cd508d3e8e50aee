// The states of a queue, and which work of the host may run where in each. This is the only place that decides it; what
// asks is small_work.hpp and native_tasks.hpp. docs/threads.md shows the table, tests/build/queue_test.cpp checks both.
#pragma once
#include <cstdint>

namespace xpu_ops::runtime {

// The standing rule of a queue: `closed` while a graph is recorded, and where the host does not share the device's
// memory; `shared` for ever once its SYCL queue has left the library.
enum class QueueMode : uint8_t { open, closed, shared };

enum class QueueState : uint8_t { idle, busy, batching, held, profiled_idle, profiled, recording, closed, shared };

// `now`: small work on the calling thread. `later`: small work on a worker of the device. `native`: other work of the
// host on a worker, a primitive of oneDNN. What may not run so is launched.
enum class Way : uint8_t { now, later, native };

struct QueueStateRow {
  QueueState state;
  const char* name;
  const char* when;
  bool may[3];  // by Way
};
// Read by tools/doc_tables.py.
inline constexpr QueueStateRow kStateTable[] = {
    {QueueState::idle, "idle", "as many commands found done as were submitted", {true, true, true}},
    {QueueState::busy, "busy", "fewer found done than submitted", {false, true, true}},
    {QueueState::batching,
     "batching",
     "busy, and the last command is a task that takes more pieces",
     {false, true, true}},
    {QueueState::held, "held", "a pause, or an event of a shared queue, was not waited for", {false, false, false}},
    {QueueState::profiled_idle, "profiled, idle", "a profile or a recorder watches, idle", {true, false, false}},
    {QueueState::profiled, "profiled", "a profile or a recorder watches, not idle", {false, false, false}},
    {QueueState::recording, "recording", "SYCL records what is submitted", {false, false, false}},
    {QueueState::closed, "closed", "a graph is to record, or the host has no device memory", {false, false, true}},
    {QueueState::shared, "shared", "others submit to the SYCL queue", {false, false, false}},
};
inline constexpr int kStates = sizeof kStateTable / sizeof kStateTable[0];

// Facts about a queue at one moment. Who asks for one way may leave out those that do not decide it, which have it in
// brackets.
struct QueueFacts {
  QueueMode mode = QueueMode::open;
  bool idle = false;       // [later, native]
  bool batching = false;   // [all: it tells which task a piece joins]
  bool held = false;       // [now: a held queue is not idle]
  bool profiled = false;   // [now]
  bool recording = false;  // [now: a queue that records is closed, or not idle before the graph ends]
};

constexpr QueueState state_of(const QueueFacts& f) {
  if (f.mode == QueueMode::shared) return QueueState::shared;
  if (f.recording) return QueueState::recording;
  if (f.held) return QueueState::held;
  if (f.profiled) return f.idle && f.mode == QueueMode::open ? QueueState::profiled_idle : QueueState::profiled;
  if (f.mode == QueueMode::closed) return QueueState::closed;
  if (f.idle) return QueueState::idle;
  return f.batching ? QueueState::batching : QueueState::busy;
}

namespace detail {
// One column of the table, a bit per state.
constexpr uint32_t column(Way way) {
  uint32_t bits = 0;
  for (const QueueStateRow& row : kStateTable)
    bits |= static_cast<uint32_t>(row.may[static_cast<int>(way)]) << static_cast<int>(row.state);
  return bits;
}
template <Way way>
inline constexpr uint32_t kColumn = column(way);
}  // namespace detail

template <Way way>
constexpr bool may(const QueueFacts& facts) {
  return detail::kColumn<way> >> static_cast<int>(state_of(facts)) & 1;
}

}  // namespace xpu_ops::runtime
