#include "../xpu_shim.hpp"
