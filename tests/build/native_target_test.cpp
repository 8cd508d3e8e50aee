// Which native code which processor takes.
#include "kernels/runtime/module/native_target.hpp"

#include "tests/build/plan_check.hpp"

namespace plan_test {

void test_native_target() {
  using runtime::isa_of_target;
  using runtime::spare_sets;
  const std::string driver = "cpu backend=1 driver=2026.22.10 sycl=20260930 isa=";
  auto key = [&](const char* target) { return driver + std::string(isa_of_target(target)); };
  const std::vector<std::string> rising = {key("corei7"), key("corei7-avx"),  key("core-avx2"),
                                           key("skx"),    key("cascadelake"), key("sapphirerapids")};

  for (size_t made = 0; made < rising.size(); ++made)
    for (size_t here = 0; here < rising.size(); ++here) {
      at("native target: made, here", made, here);
      CHECK(spare_sets(rising[made], rising[here]).has_value() == (made <= here));
      CHECK(spare_sets(rising[made], rising[here]).value_or(99) == 0 || made != here);
    }

  at("native target: the nearest has the fewest sets to spare");
  CHECK(spare_sets(key("core-avx2"), key("sapphirerapids")) == 8u);
  CHECK(spare_sets(key("skx"), key("sapphirerapids")) == 4u);

  at("native target: sets count by name, not by order");
  CHECK(spare_sets(driver + "avx+sse42", driver + "sse42+avx+avx2") == 1u);
  CHECK(!spare_sets(driver + "avx512f+avx512bf16", key("cascadelake")));
  CHECK(!spare_sets(driver + "avx51", key("cascadelake")));

  at("native target: another driver, device or build never");
  CHECK(!spare_sets("cpu backend=1 driver=2026.21.1 sycl=20260930 isa=sse42", key("skx")));
  CHECK(!spare_sets("gpu backend=2 driver=1 sycl=20260930 device=A/1", key("skx")));
  CHECK(!spare_sets("gpu backend=2 driver=1 sycl=1 device=A/1", "gpu backend=2 driver=1 sycl=1 device=B/1"));
  CHECK(spare_sets("gpu backend=2 driver=1 sycl=1 device=A/1", "gpu backend=2 driver=1 sycl=1 device=A/1") == 0u);
  CHECK(!spare_sets("", key("skx")));
  CHECK(!spare_sets(driver, key("skx")));
  CHECK(!spare_sets(key("skx"), driver));

  at("native target: which one the runtime is told");
  using runtime::NativeClass;
  using runtime::target_to_name;
  const std::string low = key("core-avx2"), middle = key("skx"), high = key("sapphirerapids");
  const std::vector<NativeClass> release = {{low, "core-avx2"}, {middle, "skx"}, {high, "sapphirerapids"}};
  const auto told = [&](const std::vector<NativeClass>& natives, const char* processor, const char* more = "") {
    return target_to_name(natives, std::string(isa_of_target(processor)) + more);
  };
  CHECK(told(release, "corei7") == "" && told(release, "core-avx2") == "core-avx2");
  CHECK(told(release, "skx") == "skx" && told(release, "icelake-server") == "skx");
  CHECK(told(release, "cascadelake", "+avx512bf16") == "skx");
  CHECK(told(release, "sapphirerapids") == "sapphirerapids");
  CHECK(told({{middle, ""}}, "skx") == "" && told({{middle, ""}}, "sapphirerapids") == "sapphirerapids");
  CHECK(told({{middle, ""}}, "cascadelake") == "" && told({}, "skx") == "");
  CHECK(told({{low, ""}}, "core-avx2") == "" && told({{key("corei7"), ""}}, "core-avx2") == "");
  for (const char* processor : {"skx", "cascadelake", "sapphirerapids"})
    for (const char* made : {"corei7", "corei7-avx", "core-avx2"}) CHECK(told({{key(made), ""}}, processor) == made);
  CHECK(told({{driver + "sse42+avx+avx2", ""}}, "skx") == "corei7-avx");
  CHECK(told({{driver + "avx2", ""}}, "skx") == "");

  at("native target: no code without AVX-512 beside code with it");
  using runtime::isa_has;
  using runtime::same_width;
  for (const std::string& made : rising)
    for (const std::string& here : rising)
      CHECK(same_width(made, here) == (isa_has(made, "avx512vl") == isa_has(here, "avx512vl")));

  at("native target: a forced target of no known sets is only itself");
  CHECK(isa_of_target("").empty() && isa_of_target("skylake").empty());
  CHECK(!spare_sets(key("core-avx2"), key("skx") + " forced=other"));
  CHECK(!spare_sets(key("skx") + " forced=other", key("sapphirerapids")));
  CHECK(spare_sets(key("skx") + " forced=other", key("skx") + " forced=other") == 0u);
}

}  // namespace plan_test
