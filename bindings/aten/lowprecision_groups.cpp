// A product for each group: which matrices and scales belong to a group.
#include <ATen/ceil_div.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include <utility>
#include <vector>

#include "bindings/aten/blockscale.hpp"
#include "bindings/aten/core/structured.hpp"
#include "bindings/aten/core/tensor.hpp"
#include "bindings/aten/fused.hpp"
#include "bindings/aten/onednn.hpp"

namespace xpu_ops::aten {

namespace {

// Where the groups end along the dimension that they share; offsets are read back.
std::vector<int64_t> group_ends(const at::Tensor& offs, int64_t size) {
  const at::Tensor host = offs.to(at::kCPU).contiguous();
  std::vector<int64_t> ends;
  for (int64_t g = 0; g < host.numel(); ++g) {
    const int64_t begin = g ? ends.back() : 0, end = host.const_data_ptr<int32_t>()[g];
    TORCH_CHECK(begin <= end && end <= size, "Offsets must not decrease or exceed ", size, ", but got ", end, " after ",
                begin, ".");
    ends.push_back(end);
  }
  return ends;
}

// The groups of two operands. A matrix in place of a batch of them is cut along the dimension that the other lacks, two
// matrices are cut along the one that is contracted.
struct Groups {
  const at::Tensor &a, &b;
  bool a2, b2;
  int64_t count;
  std::vector<int64_t> ends;  // nothing where both are batches

  Groups(const at::Tensor& left, const at::Tensor& right, const std::optional<at::Tensor>& offs)
      : a(left), b(right), a2(a.dim() == 2), b2(b.dim() == 2) {
    const bool given = offs && offs->defined();
    count = a2 && b2 ? offs->size(0) : a2 ? b.size(0) : a.size(0);
    TORCH_CHECK(!given || offs->size(0) == count, "matrix batch sizes have to match");
    TORCH_CHECK(given || b.size(0) == count, "batched dimension has to match");
    if (given) ends = group_ends(*offs, !b2 ? a.size(0) : a2 ? a.size(1) : b.size(1));
  }
  int64_t begin(int64_t g) const { return ends.empty() || g == 0 ? 0 : ends[g - 1]; }
  int64_t size(int64_t g) const { return ends.empty() ? 0 : ends[g] - begin(g); }
  at::Tensor left(int64_t g) const { return a2 ? a.narrow(b2 ? 1 : 0, begin(g), size(g)) : a.select(0, g); }
  at::Tensor right(int64_t g) const { return b2 ? b.narrow(a2 ? 0 : 1, begin(g), size(g)) : b.select(0, g); }
  at::Tensor part(const at::Tensor& out, int64_t g) const {
    return a2 == b2 ? out.select(0, g) : out.narrow(a2 ? 0 : 1, begin(g), size(g));
  }
  // Zero where no group reaches.
  at::Tensor new_out(at::ScalarType type) const {
    const int64_t m = a.size(-2), n = b.size(-1);
    at::Tensor out = a2 != b2 ? new_empty({m, n}, type) : new_empty({count, m, n}, type);
    if (a2 != b2) {
      const int64_t dim = a2 ? 0 : 1, end = ends.empty() ? 0 : ends.back();
      if (end < out.size(dim)) out.narrow(dim, end, out.size(dim) - end).zero_();
    }
    return out;
  }
};

void check_group_scale(const char* name, const at::Tensor& scale, const at::Tensor& mat, int64_t dim, int64_t times) {
  if (mat.dim() == 2) {
    TORCH_CHECK(scale.is_contiguous(), "Expected ", name, " to be contiguous.");
    TORCH_CHECK(scale.dim() == 1, "Expected ", name, " to be 1D tensor, but got ", scale.dim(), "D tensor.");
    TORCH_CHECK(scale.size(0) == mat.size(dim) * times, "Expected ", name, " to have ", mat.size(dim) * times,
                " elements, got ", scale.size(0), " elements.");
  } else {
    TORCH_CHECK(scale.dim() == 2, "Expected ", name, " to be 2D tensor, but got ", scale.dim(), "D tensor.");
    TORCH_CHECK(scale.stride(1) == 1, "Expected ", name, " to be contiguous in the last dimension.");
    TORCH_CHECK(scale.size(0) == mat.size(0), "Expected ", name, " batch dimension to be ", mat.size(0), ", got ",
                scale.size(0), ".");
    TORCH_CHECK(scale.size(1) == mat.size(1 + dim), "Expected ", name, " non-batch dimension to be ", mat.size(1 + dim),
                ", got ", scale.size(1), ".");
  }
}

void check_scaled_groups(const at::Tensor& a, const at::Tensor& b, const std::optional<at::Tensor>& offs,
                         const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> out_dtype) {
  const bool a2 = a.dim() == 2, b2 = b.dim() == 2, given = offs && offs->defined();
  TORCH_CHECK((a2 || a.dim() == 3) && (b2 || b.dim() == 3),
              "Multiplicands must be 2D or 3D but got mat_a.dim()=", a.dim(), " and mat_b.dim()=", b.dim());
  TORCH_CHECK(a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
  TORCH_CHECK(given || !(a2 || b2), "Offsets tensor not provided, but is needed for ", a.dim(), "D/", b.dim(),
              "D multiplicand layouts.");
  TORCH_CHECK(!given || a2 || b2, "Offsets tensor provided, but is not needed for 3D/3D multiplicand layouts.");
  if (given) {
    TORCH_CHECK(offs->dim() == 1, "Offsets tensor must be 1D, but got offs.dim()=", offs->dim(), ".");
    TORCH_CHECK(offs->scalar_type() == at::kInt, "Offsets tensor must be integer (int32) tensor, but got ",
                offs->scalar_type(), ".");
  }
  TORCH_CHECK(!bias || !bias->defined(), "Bias tensor provided, but it is not supported yet.");
  TORCH_CHECK(!out_dtype || *out_dtype == at::kBFloat16, "If output dtype provided, it must be torch.bfloat16.");
}

// The swizzled scales of each group's rows of an operand: tiles of a batch have a row of the tensor, tiles of a matrix
// that is cut follow one another, each group padded to whole tiles.
class GroupScales {
 public:
  GroupScales(const char* name, const at::Tensor& scale, const Groups& groups, bool left, int64_t block)
      : scale_(scale) {
    const at::Tensor& mat = left ? groups.a : groups.b;
    const bool matrix = mat.dim() == 2;
    const int64_t rows = mat.size(left ? -2 : -1),
                  k = mat.size(left ? -1 : -2) * (is_float4(mat.scalar_type()) ? 2 : 1);
    const auto tiles = [&](int64_t r, int64_t values) {
      return at::round_up<int64_t>(r, 128) * at::round_up(at::ceil_div(values, block), int64_t{4});
    };
    TORCH_CHECK_VALUE(scale.is_contiguous(), name, " must be contiguous");
    TORCH_CHECK_VALUE(scale.dim() == 2, "for block-scaled groups ", name, " must have 2 dimensions, but got ",
                      scale.dim());
    for (int64_t g = 0; g <= groups.count; ++g) {
      begins_.push_back(g ? begins_.back() + sizes_.back() : 0);
      if (g == groups.count) break;
      sizes_.push_back(!matrix                  ? tiles(rows, k)
                       : groups.a2 && groups.b2 ? tiles(rows, groups.size(g))
                                                : tiles(groups.size(g), k));
    }
    TORCH_CHECK_VALUE(
        matrix ? scale.numel() >= begins_.back() : scale.size(0) == groups.count && scale.numel() == begins_.back(),
        "for block-scaled groups ", name, " must have ", matrix ? "at least " : "", begins_.back(),
        " elements, but got shape ", scale.sizes());
  }
  at::Tensor of(int64_t g) const { return scale_.reshape({-1}).narrow(0, begins_[g], sizes_[g]); }

 private:
  at::Tensor scale_;
  std::vector<int64_t> begins_, sizes_;
};

at::Tensor block_groups(const at::Tensor& a, const at::Tensor& b, at::TensorList scale_a, at::IntArrayRef recipe_a,
                        at::IntArrayRef swizzle_a, at::TensorList scale_b, at::IntArrayRef recipe_b,
                        at::IntArrayRef swizzle_b, const std::optional<at::Tensor>& offs) {
  const auto tiled = [](at::IntArrayRef s) { return !s.empty() && s[0] == 1; };
  TORCH_CHECK_NOT_IMPLEMENTED(tiled(swizzle_a) && tiled(swizzle_b),
                              "_scaled_grouped_mm_v2: scales of blocks must be swizzled by 32_4_4 on xpu");
  TORCH_CHECK_NOT_IMPLEMENTED(!is_float4(a.scalar_type()) || a.dim() == 3 || b.dim() == 3,
                              "_scaled_grouped_mm_v2: no groups of two matrices of float4 on xpu");
  const Groups groups(a, b, offs);
  const int64_t block = recipe_a[0] == static_cast<int64_t>(Recipe::by_1x16) ? 16 : 32;
  const GroupScales of_a("scale_a", scale_a[0], groups, true, block), of_b("scale_b", scale_b[0], groups, false, block);
  const auto scales = [&](const GroupScales& blocks, at::TensorList given, int64_t g) {
    std::vector<at::Tensor> list{blocks.of(g)};
    for (const at::Tensor& more : given.slice(1)) {
      TORCH_CHECK_VALUE(more.numel() == 1 || more.numel() == groups.count, "global scales must have 1 or ",
                        groups.count, " Float elements, got ", more.numel());
      list.push_back(more.numel() == 1 ? more : more.reshape({-1}).select(0, g));
    }
    return list;
  };
  const at::Tensor out = groups.new_out(at::kBFloat16);
  for (int64_t g = 0; g < groups.count; ++g) {
    const at::Tensor part = groups.part(out, g);
    if (part.numel() == 0) continue;
    const std::vector<at::Tensor> sa = scales(of_a, scale_a, g), sb = scales(of_b, scale_b, g);
    const at::Tensor left = groups.left(g), right = groups.right(g);
    check_block_product(left, right, is_float4(a.scalar_type()) ? 2 : 1, false, {}, at::kBFloat16);
    block_product(named_operands(left, right, sa, recipe_a, swizzle_a, sb, recipe_b, swizzle_b), {}, part);
  }
  return out;
}

}  // namespace

at::Tensor _grouped_mm(const at::Tensor& self, const at::Tensor& mat2, const std::optional<at::Tensor>& offs,
                       const std::optional<at::Tensor>& bias, std::optional<at::ScalarType> out_dtype) {
  const at::Tensor &a = self, &b = mat2;
  for (const auto& [name, mat] : {std::pair("mat_a", &a), std::pair("mat_b", &b)}) {
    TORCH_CHECK(onednn_float(mat->scalar_type()), "Expected ", name, " to be Float32, BFloat16 or Float16 matrix, got ",
                mat->scalar_type());
    TORCH_CHECK(mat->dim() == 2 || mat->dim() == 3, name, " has to be 2 or 3d");
  }
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "expected m1 and m2 to have the same dtype, but got: ", a.scalar_type(), " != ", b.scalar_type());
  const bool given = offs && offs->defined();
  TORCH_CHECK(a.size(-1) == b.size(-2), "contraction dimension of mat_a and mat_b must match");
  TORCH_CHECK(given == (a.dim() == 2 || b.dim() == 2),
              "Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d");
  TORCH_CHECK(!given || offs->dim() == 1, "offs has to be 1D");
  TORCH_CHECK(!given || offs->scalar_type() == at::kInt, "Offsets have to be int32");
  TORCH_CHECK(!bias || !bias->defined(), "Bias not supported yet");
  TORCH_CHECK(!out_dtype || *out_dtype == a.scalar_type(), "Grouped gemm output dtype must match `mat_a` dtype");
  const Groups groups(a, b, offs);
  if (!given) return at::bmm(a, b);
  const at::Tensor out = groups.new_out(a.scalar_type());
  for (int64_t g = 0; g < groups.count; ++g) {
    at::Tensor part = groups.part(out, g);
    if (part.numel()) at::mm_out(part, groups.left(g), groups.right(g));
  }
  return out;
}

at::Tensor _scaled_grouped_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                              const at::Tensor& scale_b, const std::optional<at::Tensor>& offs,
                              const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& scale_result,
                              std::optional<at::ScalarType> out_dtype, bool) {
  const at::Tensor &a = self, &b = mat2;
  TORCH_CHECK(a.scalar_type() == at::kFloat8_e4m3fn && b.scalar_type() == at::kFloat8_e4m3fn,
              "Expected inputs of E4M3 FP8 type but got mat_a.dtype=", a.scalar_type(),
              " and mat_b.dtype=", b.scalar_type(), ".");
  const bool mx = scale_a.scalar_type() == at::kFloat8_e8m0fnu && scale_b.scalar_type() == at::kFloat8_e8m0fnu;
  TORCH_CHECK(mx || (scale_a.scalar_type() == at::kFloat && scale_b.scalar_type() == at::kFloat),
              "For FP8 scales must both be float32. Got scale_a.dtype=", scale_a.scalar_type(),
              " and scale_b.dtype=", scale_b.scalar_type(), ".");
  check_scaled_groups(a, b, offs, bias, out_dtype);
  TORCH_CHECK(!scale_result || !scale_result->defined(), "Scale result tensor provided, but it is not supported yet.");
  if (mx) {
    const int64_t recipe[] = {static_cast<int64_t>(Recipe::by_1x32)}, swizzle[] = {1};
    return block_groups(a, b, scale_a, recipe, swizzle, scale_b, recipe, swizzle, offs);
  }
  const Groups groups(a, b, offs);
  const bool a2 = groups.a2, b2 = groups.b2;
  const int64_t times = a2 && b2 ? groups.count : 1, m = a.size(-2), n = b.size(-1);
  check_group_scale("scale_a", scale_a, a, 0, times);
  check_group_scale("scale_b", scale_b, b, 1, times);
  const at::Tensor out = groups.new_out(at::kBFloat16);
  for (int64_t g = 0; g < groups.count; ++g) {
    const int64_t begin = groups.begin(g), size = groups.size(g);
    const at::Tensor sa = !a2  ? scale_a.select(0, g)
                          : b2 ? scale_a.narrow(0, g * m, m)
                               : scale_a.narrow(0, begin, size);
    const at::Tensor sb = !b2  ? scale_b.select(0, g)
                          : a2 ? scale_b.narrow(0, g * n, n)
                               : scale_b.narrow(0, begin, size);
    scaled_product(groups.left(g), groups.right(g), sa.reshape({-1, 1}), sb.reshape({1, -1}), {}, groups.part(out, g));
  }
  return out;
}

at::Tensor _scaled_grouped_mm_v2(const at::Tensor& self, const at::Tensor& mat2, at::TensorList scale_a,
                                 at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                                 at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                                 const std::optional<at::Tensor>& offs, const std::optional<at::Tensor>& bias,
                                 std::optional<at::ScalarType> out_dtype, at::IntArrayRef contraction_dim,
                                 bool use_fast_accum) {
  TORCH_CHECK_VALUE(
      contraction_dim.empty() || (contraction_dim.size() == 2 && contraction_dim[0] == -1 && contraction_dim[1] == -2),
      "Curently contraction dims must be (-1, -2) only");
  TORCH_CHECK_VALUE(!scale_a.empty() && !scale_b.empty() && !recipe_a.empty() && !recipe_b.empty(),
                    "_scaled_grouped_mm_v2: both operands need a scale");
  const auto is = [&](Recipe r) {
    return recipe_a[0] == static_cast<int64_t>(r) && recipe_b[0] == static_cast<int64_t>(r);
  };
  if (is(Recipe::row) && scale_a.size() == 1 && scale_b.size() == 1)
    return _scaled_grouped_mm(self, mat2, scale_a[0], scale_b[0], offs, bias, std::nullopt, out_dtype, use_fast_accum);
  TORCH_CHECK_VALUE(is(Recipe::by_1x32) || is(Recipe::by_1x16), "No gemm implementation was found");
  check_scaled_groups(self, mat2, offs, bias, out_dtype);
  return block_groups(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b, swizzle_b, offs);
}

}  // namespace xpu_ops::aten
