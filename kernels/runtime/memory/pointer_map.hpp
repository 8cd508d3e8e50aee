// Pointer to object, by open addressing: the allocator looks one up at every call.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace xpu_ops::runtime {

template <class T>
class PointerMap {
 public:
  PointerMap() : slots_(1024) {}

  void insert(void* key, T* value) {
    if ((size_ + 1) * 2 > slots_.size()) grow();
    place(key, value);
    ++size_;
  }

  T* find(void* key) const {
    for (size_t i = home(key);; i = next(i)) {
      if (slots_[i].key == key) return slots_[i].value;
      if (!slots_[i].key) return nullptr;
    }
  }

  T* remove(void* key) {
    size_t i = home(key);
    while (slots_[i].key != key) {
      if (!slots_[i].key) return nullptr;
      i = next(i);
    }
    T* value = slots_[i].value;
    // Close the gap: later entries of the run move up where that does not put them before their home.
    for (size_t j = next(i); slots_[j].key; j = next(j)) {
      size_t h = home(slots_[j].key);
      if (((j - h) & mask()) >= ((j - i) & mask())) {
        slots_[i] = slots_[j];
        i = j;
      }
    }
    slots_[i] = {};
    --size_;
    return value;
  }

  template <class Fn>
  void for_each(Fn&& fn) const {
    for (auto& s : slots_) {
      if (s.key) fn(s.value);
    }
  }

 private:
  struct Slot {
    void* key = nullptr;
    T* value = nullptr;
  };
  size_t mask() const { return slots_.size() - 1; }
  size_t next(size_t i) const { return (i + 1) & mask(); }
  size_t home(void* key) const {
    // Blocks lie on multiples of 512.
    return static_cast<size_t>((reinterpret_cast<uintptr_t>(key) >> 9) * 0x9E3779B97F4A7C15ull >> 20) & mask();
  }
  void place(void* key, T* value) {
    size_t i = home(key);
    while (slots_[i].key) i = next(i);
    slots_[i] = {key, value};
  }
  void grow() {
    std::vector<Slot> old = std::move(slots_);
    slots_.assign(old.size() * 2, {});
    for (auto& s : old) {
      if (s.key) place(s.key, s.value);
    }
  }

  std::vector<Slot> slots_;
  size_t size_ = 0;
};

}  // namespace xpu_ops::runtime
