// Gram matrix of three points in the plane, and an error that comes back as an exception.
#include <fastdl/gram.hpp>

#include <cstdio>
#include <vector>

int main() {
  const std::vector<double> points{1, 0, 0, 2, 3, 4};
  std::vector<double> gram(9);
  fastdl::gram::linear({points.data(), 3, 2}, fastdl::MatrixView<double>{gram.data(), 3, 3});
  for (int i = 0; i < 3; ++i) std::printf("%g %g %g\n", gram[3 * i], gram[3 * i + 1], gram[3 * i + 2]);

  try {
    fastdl::gram::linear({points.data(), 3, 2}, fastdl::MatrixView<double>{gram.data(), 2, 2});
  } catch (const std::invalid_argument& error) {
    std::printf("%s\n", error.what());
    return 0;
  }
  return 1;
}
