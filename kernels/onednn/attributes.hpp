// Post-ops as oneDNN takes them: the primitive attribute, the bytes of the cache key and the arguments of an execution,
// always in the same order.
#pragma once
#include <vector>

#include "kernels/onednn/primitive_cache.hpp"
#include "kernels/postops.hpp"

namespace xpu_ops::onednn {

void add_key(Key& key, const PostOps& post);
dnnl::primitive_attr attributes(const PostOps& post);  // scratchpad in user mode
void add_args(std::vector<ArgSpec>& args, const PostOps& post);
void add_pointers(std::vector<void*>& pointers, const PostOps& post);  // same order as add_args

}  // namespace xpu_ops::onednn
