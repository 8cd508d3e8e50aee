// Loads a package and runs it on the xpu device: libtorch and xpu_ops, no Python in the process.
//   run_model model.pt2 [runs] [device index]
#include <ATen/ATen.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: run_model model.pt2 [runs] [device index]\n";
    return 2;
  }
  const int runs = argc > 2 ? std::atoi(argv[2]) : 1, index = argc > 3 ? std::atoi(argv[3]) : 0;
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto milliseconds = [](auto from, auto to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
  };
  try {
    const auto begin = now();
    torch::inductor::AOTIModelPackageLoader model(argv[1], "model", false, 1, static_cast<c10::DeviceIndex>(index));
    // The input that export.py gave the model: ones of 4 rows.
    const at::Tensor x = at::ones({4, 64}, at::TensorOptions().device(at::kXPU, index));
    at::Tensor y = model.run({x}).at(0).cpu();
    const auto first = now();
    for (int i = 1; i < runs; ++i) y = model.run({x}).at(0).cpu();
    std::cout << "sum " << y.sum().item<double>() << "\nload to first result " << milliseconds(begin, first) << " ms\n";
    if (runs > 1) std::cout << "each run " << milliseconds(first, now()) / (runs - 1) << " ms\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
