// Who the other processes of a group are, and which of them are gone when a collective has failed.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace xpu_ops::distributed {

class Peers {
 public:
  // Tells the others, through the store of the group, which process this rank is. `global_ranks`, where not empty, are
  // what the ranks of the group are called.
  Peers(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::vector<uint64_t> global_ranks);

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::string name(int rank) const;
  // Tells the others that `what` has failed here and waits, at most two seconds, for them to say so too. One sentence
  // on those that do not: ended, or unknown.
  std::string missing(const std::string& what) const noexcept;
  // One sentence on the process at the other end of a send or receive, or on all others where `peer` is negative:
  // ended, now or within two seconds, or late.
  std::string ended(int peer) const noexcept;

 private:
  struct Lists { std::string gone, quiet; };
  // Asks until nobody is quiet, or somebody is gone and `one` is enough, for two seconds.
  Lists ask(c10d::Store& store, const std::vector<int>& ranks, const std::string& key, bool one) const;
  bool over(c10d::Store& store, int rank, std::string& who) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  std::vector<uint64_t> global_ranks_;
};

}  // namespace xpu_ops::distributed
