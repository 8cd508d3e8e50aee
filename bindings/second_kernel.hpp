// Registering a kernel where torch has one already.
#pragma once
#include <c10/util/Exception.h>

namespace xpu_ops {

// While it lives, torch does not warn of a second kernel for an operator: the warning is for developers.
class SecondKernel {
  struct Silent final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  };
  Silent silent_;
  c10::WarningUtils::WarningHandlerGuard guard_{&silent_};
};

}  // namespace xpu_ops
