// Who the other processes of a group are, and which of them are gone when a collective has failed.
#pragma once
#include <string>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace xpu_ops::distributed {

class Peers {
 public:
  // Tells the others, through the store of the group, which process this rank is.
  Peers(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Tells the others that `what` has failed here and waits, at most two seconds, for them to say so too. One sentence
  // on those that do not: ended, or unknown.
  std::string missing(const std::string& what) const noexcept;

 private:
  bool ended(c10d::Store& store, int rank, std::string& who) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
};

}  // namespace xpu_ops::distributed
