#pragma once

namespace xpu_ops::runtime {

// Unmaps the pages of code and constants that starting the OpenCL CPU driver read: 77 MiB of relocations and
// constructors that nothing runs again. What is read again comes from the page cache.
void release_driver_pages();

}  // namespace xpu_ops::runtime
