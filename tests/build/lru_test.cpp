// The cache of costly values: one creation per key, errors, what goes first.
#include "kernels/runtime/lru.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/build/plan_check.hpp"

namespace plan_test {
namespace {

struct Cache : runtime::LruCache<int, int, std::hash<int>> {
  using LruCache::LruCache;
  std::vector<int> values() const {
    std::vector<int> out;
    each([&](int v, uint64_t) { out.push_back(v); });
    return out;
  }
};

auto made(int v) {
  return [v] { return std::make_shared<int>(v); };
}

// Threads that ask for key 7 together: how often it is made, and what each of them gets (-1 for an error).
std::pair<int, std::vector<int>> asked_together(Cache& cache, bool fails) {
  constexpr int kThreads = 6;
  std::atomic<int> creations = 0, waiting = 0;
  std::vector<int> got(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      ++waiting;
      try {
        got[static_cast<size_t>(t)] = *cache.get(7, [&] {
          ++creations;
          while (waiting < kThreads || cache.stats().hits < kThreads - 1) std::this_thread::yield();
          if (fails) throw std::runtime_error("no such value");
          return std::make_shared<int>(70);
        });
      } catch (const std::runtime_error&) { got[static_cast<size_t>(t)] = -1; }
    });
  for (auto& t : threads) t.join();
  return {creations, got};
}

}  // namespace

void test_lru() {
  at("lru: the least recently used goes first");
  Cache cache(2);
  cache.get(1, made(10));
  cache.get(2, made(20));
  CHECK(*cache.get(1, made(11)) == 10);
  cache.get(3, made(30));
  CHECK((cache.values() == std::vector{30, 10}));
  CHECK(cache.stats().hits == 1 && cache.stats().misses == 3 && cache.stats().evictions == 1);
  cache.set_capacity(0);
  CHECK(cache.stats().size == 0);
  CHECK(*cache.get(1, made(12)) == 12 && cache.stats().size == 0);

  at("lru: one thread makes a value, the others wait for it");
  for (const uint64_t capacity : {0u, 4u}) {
    Cache shared(capacity);
    const auto [creations, got] = asked_together(shared, false);
    CHECK(creations == 1 && got == std::vector<int>(6, 70));
    CHECK(shared.stats().misses == 1 && shared.stats().size == (capacity ? 1 : 0));
  }

  at("lru: an error reaches all that waited, and the next call tries again");
  Cache failing(4);
  const auto [creations, got] = asked_together(failing, true);
  CHECK(creations == 1 && got == std::vector<int>(6, -1));
  CHECK(failing.stats().size == 0);
  CHECK(*failing.get(7, made(71)) == 71);

  at("lru: clear() while a value is made");
  Cache cleared(4);
  CHECK(*cleared.get(1, [&] {
    cleared.clear();
    cleared.get(2, made(20));
    return std::make_shared<int>(10);
  }) == 10);
  CHECK((cleared.values() == std::vector{20}));
}

}  // namespace plan_test
