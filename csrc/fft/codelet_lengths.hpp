// The lengths A*B of the codelets in two steps (codelets.hpp), besides 8.
#pragma once

// Against passes, rows of a batch of complex64 on Zen 4 take 0.67 of the time at 192, 0.73 at 240 and 0.75 at 60, with
// the way in and out; 25 and 30 are sides of the grids of 1000 and 720.
#define FASTDL_FFT_CODELETS(codelet)                                                                                   \
  codelet(2, 3) codelet(3, 3) codelet(2, 5) codelet(3, 4) codelet(4, 4) codelet(3, 6) codelet(5, 4) codelet(3, 8)      \
      codelet(5, 5) codelet(5, 6) codelet(4, 8) codelet(9, 4) codelet(5, 8) codelet(6, 8) codelet(5, 12) codelet(8, 8) \
          codelet(8, 9) codelet(5, 16) codelet(6, 16) codelet(10, 10) codelet(8, 15) codelet(8, 16) codelet(9, 16)     \
              codelet(12, 16) codelet(15, 16) codelet(16, 16) codelet(16, 18) codelet(16, 32) codelet(24, 24)
