// One rule and one class of functions with every task there is for them.
#pragma once

#include "gram_matrix.cuh"
#include "gram_matvec.cuh"

namespace fastdl::gram::cuda {

template <class T, class Rule, class Function>
void run_task(const Pairs<T>& pairs, const Task<T>& task) {
  const Rule rule{{pairs.parameters}};
  const Function function{pairs.parameters};
  switch (task.job) {
    case Job::matrix:
      return launch_matrix<false>(pairs, task, rule, function);
    case Job::symmetric_matrix:
      return launch_matrix<true>(pairs, task, rule, function);
    case Job::product:
      return launch_product(pairs, task, rule, function);
    case Job::diagonal:
      return launch_diagonal(pairs, task, rule, function);
    case Job::slopes:
      if constexpr (!Rule::zeros_count) return launch_slopes(pairs, task, rule, function);
  }
}

#define FASTDL_GRAM_TASKS(name, Rule, Function)                \
  template <class T>                                           \
  void name(const Pairs<T>& pairs, const Task<T>& task) {      \
    run_task<T, Rule<T>, Function<T>>(pairs, task);            \
  }                                                            \
  template void name(const Pairs<float>&, const Task<float>&); \
  template void name(const Pairs<double>&, const Task<double>&);

}  // namespace fastdl::gram::cuda
