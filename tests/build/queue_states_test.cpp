// The table of the states of a queue, against the rules as plain conditions, for all facts that can be at once.
#include "kernels/runtime/queue/states.hpp"

#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using runtime::QueueFacts;
using runtime::QueueMode;
using runtime::QueueState;
using runtime::Way;

// Commands that are held or recorded have not been found done, and who opens a queue has ended the recording.
bool can_be(const QueueFacts& f) { return !(f.idle && (f.held || (f.recording && f.mode == QueueMode::open))); }

void check(const QueueFacts& f) {
  const bool open = f.mode == QueueMode::open;
  const bool native = f.mode != QueueMode::shared && !f.held && !f.profiled && !f.recording;
  CHECK(runtime::may<Way::now>(f) == (open && f.idle));
  CHECK(runtime::may<Way::native>(f) == native);
  CHECK(runtime::may<Way::later>(f) == (native && open));
  // Who leaves out the facts that do not decide gets the same answer.
  CHECK(runtime::may<Way::now>(f) == runtime::may<Way::now>({.mode = f.mode, .idle = f.idle}));
  const QueueFacts few{.mode = f.mode, .held = f.held, .profiled = f.profiled, .recording = f.recording};
  CHECK(runtime::may<Way::native>(f) == runtime::may<Way::native>(few));
  CHECK(runtime::may<Way::later>(f) == runtime::may<Way::later>(few));
}

}  // namespace

void test_queue_states() {
  std::set<QueueState> seen;
  for (const QueueMode mode : {QueueMode::open, QueueMode::closed, QueueMode::shared})
    for (int bits = 0; bits < 32; ++bits) {
      const QueueFacts f{mode, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0, (bits & 16) != 0};
      if (!can_be(f)) continue;
      at("states of a queue", static_cast<int>(mode), bits);
      seen.insert(runtime::state_of(f));
      check(f);
    }
  check_all_seen("states of a queue", seen, QueueState::shared);
  for (int k = 0; k < runtime::kStates; ++k) {
    at("row of the table", k);
    CHECK(static_cast<int>(runtime::kStateTable[k].state) == k);
  }
}

}  // namespace plan_test
