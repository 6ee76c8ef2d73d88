// k(x, x) of every row.
#pragma once

#include "gram/bodies.hpp"
#include "gram/kernels.hpp"

namespace fastdl::gram {
namespace {

// One row against itself, in the first lane of a vector.
template <class T>
void diagonal_of(const Kernel& kernel, const Matrix<const T>& x, T* out, Index stride) {
  Rows<T> rows(x, x, true);
  with_kernel(kernel, rows, [&](const auto& rule, const auto&, const auto&, const auto& epilogue) {
    using Rule = std::decay_t<decltype(rule)>;
    using Epilogue = std::decay_t<decltype(epilogue)>;
    for (Index i = 0; i < x.rows; ++i) {
      const T* row = x.data + i * x.row_stride;
      T sum = T(Rule::start);
      if constexpr (requires { epilogue.own_product(i); })
        sum = epilogue.own_product(i);
      else if constexpr (std::is_same_v<Rule, gemm::MultiplyAdd>)
        sum =
            T(sum_over(x.cols, [&](Index f) { return double(row[f * x.col_stride]) * double(row[f * x.col_stride]); }));
      else
        for (Index f = 0; f < x.cols; ++f) {
          const simd::Vec<T> value = simd::broadcast(row[f * x.col_stride]);
          sum = rule.step(simd::broadcast(sum), value, value)[0];
        }
      if constexpr (!std::is_same_v<Epilogue, gemm::Identity>) sum = epilogue(simd::broadcast(sum), i, i)[0];
      out[i * stride] = sum;
    }
  });
}

}  // namespace
}  // namespace fastdl::gram
