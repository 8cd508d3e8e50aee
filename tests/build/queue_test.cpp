// A queue of the CPU device against a model of it: random interleavings of all that is put on a queue and done to it.
// After each step the queue's state, the place where the work ran and the order of the commands are the model's. Then
// several threads at once, where commands have to be whole.
//   queue_test [SEED [PROGRAMS]]
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "kernels/runtime/device/device.hpp"
#include "kernels/runtime/profile/profiler.hpp"
#include "kernels/runtime/queue/command_graph.hpp"
#include "kernels/runtime/queue/queue.hpp"
#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

using runtime::Queue;

constexpr int kSteps = 120;
constexpr int kGated = 30;  // commands behind a closed gate, fewer than may be in flight
const runtime::Label kLabel{"model"};

enum Ran : int { kNowhere, kNow, kLater };

// Command k of a program: sees what command k - 1 has written.
struct Piece {
  uint32_t* last;
  uint32_t k;
  std::atomic<int>* disorder;
  std::atomic<int>* ran;
  int as;
  void operator()() const {
    if (*last != k - 1) ++*disorder;
    *last = k;
    *ran = as;
  }
};

struct Task final : runtime::NativeTask {
  std::function<void()> work;
  explicit Task(std::function<void()> f) : work(std::move(f)) {}
  void run() override { work(); }
};

// Counts and rules as the documents say them: nothing here asks kernels/runtime/queue/states.hpp.
struct Model {
  uint64_t commands = 0, found = 0, held_until = 0;
  bool open = true, shared = false, profiled = false, batch = false, gated = false;
  bool settled() const { return commands == found; }
  bool held() const { return found < held_until; }
  bool native() const { return !shared && !held() && !profiled; }
  void look() {  // somebody asks whether the queue is empty
    if (open && !shared && !gated) found = commands;
  }
  bool now() const { return open && !shared && settled(); }
  bool later() const { return open && native(); }
  void command(bool piece = false) {
    ++commands;
    batch = piece;
  }
  std::string state() const {
    if (shared) return "shared";
    if (held()) return "held";
    if (profiled) return open && settled() ? "profiled, idle" : "profiled";
    if (!open) return "closed";
    if (settled()) return "idle";
    return batch ? "batching" : "busy";
  }
};

class Program {
 public:
  explicit Program(uint32_t seed) : draw_(seed), seed_(seed) {
    memory_ = sycl::malloc_host<uint32_t>(kSteps + 8, runtime::sycl_context(0));
    for (uint32_t k = 0; k < kSteps + 8; ++k) memory_[k] = k;
    last_ = memory_ + kSteps + 7;
    *last_ = 0;
    const sycl::property_list in_order{sycl::property::queue::in_order()};
    queue_ = new Queue(sycl::queue(runtime::sycl_context(0), runtime::sycl_device(0), in_order), 0, 1 << 20, 0);
  }
  void run(std::map<std::string, int>& seen) {
    for (int step = 0; step < kSteps; ++step) {
      const unsigned choice = draw_() % 40;
      at("program, step, choice", seed_, step, choice);
      one(choice);
      if (!model_.gated) drain();
      const std::string state = runtime::kStateTable[static_cast<int>(queue_->state())].name;
      g_case += ": " + state + ", model: " + model_.state();
      CHECK(state == model_.state());
      ++seen[state];
      if (model_.gated && ++gated_steps_ == kGated) open_gate();
    }
    if (model_.gated) open_gate();
    if (model_.profiled) end_profile();
    queue_->wait();
    seen["recording"] += recorded_;
    at("end of program", seed_);
    CHECK(*last_ == k_ && disorder_ == 0);
  }

 private:
  Piece piece(int as) { return {last_, k_, &disorder_, &ran_, as}; }
  void drain() {
    while (!queue_->idle()) std::this_thread::yield();
  }
  void launch() {
    queue_->submit([&](sycl::queue& q) { q.memcpy(last_, memory_ + k_, sizeof *last_); });
    model_.command();
  }
  void small() {
    ++k_;
    model_.look();
    const int expected = model_.now() ? kNow : model_.later() ? kLater : kNowhere;
    ran_ = kNowhere;
    bool copied = false;
    const auto later = [&] {
      copied = true;
      return piece(kLater);
    };
    const bool took = queue_->small().run(1, piece(kNow), later, kLabel);
    CHECK(took == (expected != kNowhere));
    CHECK((ran_ == kNow) == (expected == kNow));
    CHECK(!took || copied == (expected == kLater));
    if (expected == kLater) model_.command(true);
    if (!took) launch();
  }
  void native() {
    ++k_;
    std::unique_ptr<runtime::NativeTask> task = std::make_unique<Task>(piece(kLater));
    const bool expected = model_.native();
    CHECK(queue_->natives().takes() == expected);
    const bool took = queue_->natives().submit(task);
    CHECK(took == expected && took == !task);
    if (took) model_.command(true);
    if (!took) launch();
  }
  // An event stands for all commands before it, tasks of workers included.
  void mark() {
    if (by_host_) return;
    sycl::event end = queue_->submit_marker([](sycl::queue& q) { return q.ext_oneapi_submit_barrier(); });
    model_.command();
    using sycl::info::event_command_status;
    const auto status = end.get_info<sycl::info::event::command_execution_status>();
    CHECK(!model_.gated || status != event_command_status::complete);
  }
  // Nothing behind it runs until it opens: work of a worker, or of the host by SYCL where the queue takes none.
  void close_gate() {
    if (model_.gated) return;
    ++k_;
    model_.gated = true;
    gated_steps_ = 0;
    gate_ = std::make_shared<std::atomic<bool>>(false);
    const auto work = [gate = gate_, p = piece(kLater)] {
      while (!*gate) std::this_thread::sleep_for(std::chrono::microseconds(50));
      p();
    };
    std::unique_ptr<runtime::NativeTask> task = std::make_unique<Task>(work);
    by_host_ = draw_() % 3 == 0 || !queue_->natives().submit(task);
    if (!by_host_) return model_.command(true);
    queue_->submit([&](sycl::queue& q) { q.submit([&](sycl::handler& h) { h.host_task(work); }); });
    queue_->natives().hold();
    model_.command();
    model_.held_until = model_.commands;
  }
  void open_gate() {
    *gate_ = true;
    model_.gated = by_host_ = false;
    drain();
  }
  void begin_profile() {
    if (by_host_) return;
    if (model_.profiled) return end_profile();
    runtime::start_profiling();
    queue_->profile().begin();
    model_.profiled = true;
    model_.batch = false;
  }
  void end_profile() {
    queue_->profile().end();
    runtime::stop_profiling();
    model_.profiled = model_.batch = false;
  }
  void close() {
    queue_->small().close();
    model_.open = false;
    model_.batch = false;
  }
  void open() {
    queue_->small().open();
    model_.open = true;
  }
  void record() {
    if (model_.gated || model_.profiled) return;
    close();
    {
      runtime::CommandGraph graph(*queue_);
      graph.begin();
      model_.command();
      const bool recording =
          queue_->state() == (model_.shared ? runtime::QueueState::shared : runtime::QueueState::recording);
      CHECK(recording);
      ++recorded_;
      std::unique_ptr<runtime::NativeTask> task = std::make_unique<Task>([] {});
      CHECK(!queue_->small().ready() && !queue_->natives().submit(task));
      CHECK(!queue_->small().run(1, piece(kNow), kLabel));
      CHECK(refuses([&] { queue_->wait(); }));
      queue_->submit([&](sycl::queue& q) { q.memcpy(memory_, memory_, sizeof *memory_); });
      model_.command();
      graph.end();
      model_.command();
    }
    open();
  }
  void one(unsigned choice) {
    switch (choice) {
      case 0: return close_gate();
      case 1: return close_gate();
      case 2:
        if (model_.gated) open_gate();
        return;
      case 3: return begin_profile();
      case 4: return model_.open ? close() : open();
      case 5: return open();
      case 6:
        if (draw_() % 3 != 0) return;
        queue_->natives().hold();
        model_.held_until = model_.commands;
        return;
      case 7: return record();
      case 8:
        if (draw_() % 8 != 0 || by_host_) return;
        CHECK(&queue_->share() == queue_->stream().handle());
        model_.shared = true;
        model_.batch = false;
        return;
      case 9:
      case 10:
        model_.look();
        CHECK(queue_->small().ready() == model_.now());
        return;
      case 11:
      case 12:
        if (model_.gated) return;
        queue_->wait();
        model_.found = model_.commands;
        return;
      default: break;
    }
    if (choice < 15) return mark();
    if (choice < 20) {
      ++k_;
      launch();
    } else if (choice < 27) {
      native();
    } else {
      small();
    }
  }

  std::mt19937 draw_;
  const uint32_t seed_;
  Queue* queue_;  // never destroyed, as those of the pool
  uint32_t *memory_, *last_;
  uint32_t k_ = 0;
  bool by_host_ = false;  // SYCL runs the gate, and a barrier for an event behind it blocks
  int gated_steps_ = 0, recorded_ = 0;
  std::shared_ptr<std::atomic<bool>> gate_;
  std::atomic<int> disorder_{0}, ran_{0};
  Model model_;
};

// Work of several threads on one queue: one at a time, none lost, that of each thread in its order.
void test_threads(uint32_t seed) {
  constexpr int kThreads = 4;
  Queue& queue = runtime::queue(0, runtime::stream_from_pool(0, 0));
  struct Shared {
    std::atomic<int> inside{0}, overlaps{0}, disorder{0};
    uint64_t count = 0, last[kThreads] = {};
  } shared;
  struct Piece {
    Shared* s;
    int thread;
    uint64_t number;
    void operator()() const {
      if (s->inside.exchange(1) != 0) ++s->overlaps;
      if (s->last[thread] >= number) ++s->disorder;
      s->last[thread] = number;
      if (number % 4 == 0) std::this_thread::yield();  // so that others may meet it
      ++s->count;
      s->inside.store(0);
    }
  };
  std::atomic<uint64_t> taken{0};
  uint32_t* words = sycl::malloc_host<uint32_t>(2, runtime::sycl_context(0));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 draw(seed * kThreads + static_cast<uint32_t>(t));
      for (uint64_t n = 1; n <= 3000; ++n) {
        const Piece piece{&shared, t, n};
        switch (draw() % 16) {
          case 0: queue.submit([&](sycl::queue& q) { q.memcpy(words, words + 1, sizeof *words); }); break;
          case 1: queue.wait(); break;
          case 2: queue.natives().hold(); break;
          case 3: t == 0 ? queue.small().close() : queue.small().open(); break;
          case 4:
          case 5:
          case 6: {
            std::unique_ptr<runtime::NativeTask> task = std::make_unique<Task>(piece);
            taken += queue.natives().submit(task);
            break;
          }
          default: taken += queue.small().run(1, piece, kLabel);
        }
      }
    });
  for (std::thread& t : threads) t.join();
  queue.small().open();
  queue.wait();
  at("threads", seed, taken.load());
  CHECK(taken > 100 && shared.count == taken && shared.overlaps == 0 && shared.disorder == 0);
  CHECK(queue.state() == runtime::QueueState::idle);
  sycl::free(words, runtime::sycl_context(0));
}

}  // namespace
}  // namespace plan_test

int main(int argc, char** argv) {
  using namespace plan_test;
  const uint32_t seed = argc > 1 ? static_cast<uint32_t>(std::atoi(argv[1])) : 0;
  const uint32_t programs = argc > 2 ? static_cast<uint32_t>(std::atoi(argv[2])) : 60;
  std::map<std::string, int> seen;
  for (uint32_t p = 0; p < programs && g_failures == 0; ++p) Program(seed + p).run(seen);
  test_threads(seed);
  at("states that programs were in");
  for (const auto& row : xpu_ops::runtime::kStateTable) {
    std::printf("%6d %s\n", seen[row.name], row.name);
    CHECK(seen[row.name] > 0);
  }
  std::printf("%d checks, %d failures\n", g_checks, g_failures);
  return g_failures == 0 ? 0 : 1;
}
