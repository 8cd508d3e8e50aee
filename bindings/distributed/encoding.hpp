// How an engine sees elements of a dtype that it may lack: which tensor it gets, and which operation it is asked for.
#pragma once
#include <c10/core/ScalarType.h>

#include <optional>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace xpu_ops::distributed {

struct Encoding {
  enum class How {
    same,
    bytes,   // the same memory, as a last dimension of bytes: for collectives that only move elements
    view,    // the same memory as another type of that width
    widen,   // a copy in a wider type
    flipped  // a copy as int64 with the sign bit turned over, which orders uint64
  };
  How how = How::same;
  at::ScalarType type;
  bool divide = false;           // by the number of ranks at the end: an average that the engine lacks
  std::optional<double> factor;  // of what a rank gives, before the sum
};

// Collectives that move elements: broadcast, gather, all_to_all and the like.
Encoding encode_moves(at::ScalarType type);

struct Reduction {
  Encoding encoding;
  c10d::ReduceOp op;  // that the engine computes
};
// Throws TypeError for a dtype that has no such reduction.
Reduction encode_reduction(at::ScalarType type, const c10d::ReduceOp& op);

}  // namespace xpu_ops::distributed
