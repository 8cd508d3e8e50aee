// A cache of the kernels' layers for Python: xpu_ops/_cache.py shows it.
#pragma once
#include <cstdint>

#include <torch/csrc/utils/pybind.h>

#include "kernels/runtime/lru.hpp"

namespace xpu_ops {

inline pybind11::dict stats_dict(const runtime::LruStats& s) {
  using namespace pybind11::literals;
  return pybind11::dict("capacity"_a = s.capacity, "size"_a = s.size, "hits"_a = s.hits, "misses"_a = s.misses,
                        "evictions"_a = s.evictions);
}

// `m.<name>` with stats, entries, clear and set_limit. `stats` and `entry` make dicts of the cache's own structs.
template <class Cache, class Stats, class Entry>
pybind11::module_ bind_cache(pybind11::module_& m, const char* name, Stats stats, Entry entry,
                             void (*set_limit)(uint64_t)) {
  pybind11::module_ c = m.def_submodule(name);
  c.def("stats", [stats] { return stats(Cache::instance().stats()); });
  c.def("entries", [entry] {
    pybind11::list out;
    for (const auto& e : Cache::instance().entries()) out.append(entry(e));
    return out;
  });
  c.def("clear", [] { Cache::instance().clear(); });
  c.def("set_limit", set_limit);
  return c;
}

}  // namespace xpu_ops
