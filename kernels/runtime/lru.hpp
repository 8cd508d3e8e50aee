// Maps that know what was used last, and the cache made of one: for primitives, transforms and packed weights.
#pragma once
#include <cstdint>
#include <future>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace xpu_ops::runtime {

// A map in the order of use, the latest first. Not thread-safe.
template <class Key, class Value, class Hash> class LruMap {
 public:
  struct Node {
    Key key;
    Value value;
    uint64_t uses = 1;
  };
  using iterator = std::list<Node>::iterator;

  iterator find(const Key& key) {
    const auto found = index_.find(&key);
    return found == index_.end() ? nodes_.end() : found->second;
  }
  void use(iterator node) {
    ++node->uses;
    if (node != nodes_.begin()) nodes_.splice(nodes_.begin(), nodes_, node);
  }
  iterator add(Key key, Value value) {  // a key that is not there
    nodes_.push_front({std::move(key), std::move(value)});
    index_.emplace(&nodes_.front().key, nodes_.begin());
    return nodes_.begin();
  }
  iterator erase(iterator node) {
    index_.erase(&node->key);
    return nodes_.erase(node);
  }
  void clear() {
    index_.clear();
    nodes_.clear();
  }
  iterator begin() { return nodes_.begin(); }
  iterator end() { return nodes_.end(); }
  auto begin() const { return nodes_.begin(); }
  auto end() const { return nodes_.end(); }
  size_t size() const { return nodes_.size(); }
  bool empty() const { return nodes_.empty(); }

 private:
  struct HashKey {
    size_t operator()(const Key* key) const { return Hash{}(*key); }
  };
  struct SameKey {
    bool operator()(const Key* a, const Key* b) const { return *a == *b; }
  };
  std::list<Node> nodes_;
  std::unordered_map<const Key*, iterator, HashKey, SameKey> index_;
};

struct LruStats { uint64_t capacity, size, hits, misses, evictions; };

// Values that are costly to make. Of threads that want a missing one at the same time, one makes it and the others
// wait.
template <class Key, class Value, class Hash> class LruCache {
 public:
  explicit LruCache(uint64_t capacity) : capacity_(capacity) {}

  // `make()` returns a std::shared_ptr<Value> and runs outside the lock. Its error reaches all that waited for it; the
  // next call tries again. It must not ask for the same key.
  template <class Make> std::shared_ptr<Value> get(const Key& key, Make&& make) {
    std::unique_lock lock(mutex_);
    if (const auto node = map_.find(key); node != map_.end()) {
      ++hits_;
      map_.use(node);
      if (node->value.value) [[likely]]
        return node->value.value;
      const auto promised = node->value.promised;
      lock.unlock();
      return promised.get();
    }
    ++misses_;
    std::promise<std::shared_ptr<Value>> promise;
    const uint64_t number = ++creations_;
    map_.add(key, {nullptr, promise.get_future().share(), number});
    lock.unlock();
    std::shared_ptr<Value> made;
    try {
      made = make();
    } catch (...) {
      lock.lock();
      if (const auto node = promised(key, number); node != map_.end()) map_.erase(node);
      lock.unlock();
      promise.set_exception(std::current_exception());
      throw;
    }
    lock.lock();
    if (const auto node = promised(key, number); node != map_.end()) {
      node->value = {made, {}, 0};
      shrink();
    }
    lock.unlock();
    promise.set_value(made);
    return made;
  }

  void set_capacity(uint64_t n) {
    const std::lock_guard lock(mutex_);
    capacity_ = n;
    shrink();
  }
  LruStats stats() const {
    const std::lock_guard lock(mutex_);
    return {capacity_, map_.size(), hits_, misses_, evictions_};
  }
  // Drops all values and sets the counters to zero.
  void clear() {
    const std::lock_guard lock(mutex_);
    map_.clear();
    hits_ = misses_ = evictions_ = 0;
  }

 protected:
  // f(value, uses) for what is there, the latest first, under the lock.
  template <class F> void each(F f) const {
    const std::lock_guard lock(mutex_);
    for (const auto& node : map_)
      if (node.value.value) f(*node.value.value, node.uses);
  }

 private:
  struct Slot {
    std::shared_ptr<Value> value;  // null while it is made
    std::shared_future<std::shared_ptr<Value>> promised;
    uint64_t creation = 0;  // number of the call that makes it
  };
  using Map = LruMap<Key, Slot, Hash>;

  // The place of a value that is being made, unless clear() came meanwhile.
  Map::iterator promised(const Key& key, uint64_t creation) {
    const auto node = map_.find(key);
    return node != map_.end() && node->value.creation == creation ? node : map_.end();
  }
  void shrink() {
    for (auto node = map_.end(); map_.size() > capacity_ && node != map_.begin();) {
      --node;
      if (!node->value.value) continue;
      node = map_.erase(node);
      ++evictions_;
    }
  }

  mutable std::mutex mutex_;
  Map map_;
  uint64_t capacity_, hits_ = 0, misses_ = 0, evictions_ = 0, creations_ = 0;
};

}  // namespace xpu_ops::runtime
