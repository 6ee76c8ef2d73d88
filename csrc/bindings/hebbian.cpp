#include "fastdl/hebbian.hpp"

#include <pybind11/stl.h>  // std::optional

#include <algorithm>
#include <optional>

#include "bindings/bindings.hpp"

namespace fastdl::bindings {
namespace {

using Other = std::optional<py::array>;
using Orders = py::array_t<std::int64_t, py::array::c_style>;

// The status of a call made without the GIL, as Python has it.
void raise_on_error(fastdl_status status) {
  if (status == FASTDL_NOT_FINITE) {
    PyErr_SetString(PyExc_FloatingPointError, fastdl_last_error());
    throw py::error_already_set();
  }
  throw_on_error(status);
}

template <class T>
void learn(const hebbian::Rule& rule, const py::array& W, const py::array& X, const py::array& lr,
           const py::array* theta, const py::array& out) {
  const auto w = matrix<const T>(W, "W").plain(), x = matrix<const T>(X, "X").plain(),
             to = matrix<T>(out, "out").plain();
  const auto steps = matrix<const T>(lr, "lr", 1);
  if (steps.rows != x.rows)
    throw py::value_error("lr: expected one for each sample, got " + std::to_string(steps.rows));
  T* thresholds = nullptr;
  if (theta) {
    const auto given = matrix<T>(*theta, "theta", 1);
    if (given.rows != w.rows || (given.rows > 1 && given.row_stride != 1))
      throw py::value_error("theta: expected one for each unit, contiguous, got " + described(*theta));
    thresholds = given.data;
  }
  fastdl_status status;
  {
    const WithoutGil release;
    if constexpr (sizeof(T) == 4)
      status = fastdl_hebbian_learn_f32(&rule, &w, &x, steps.data, steps.row_stride, thresholds, &to);
    else
      status = fastdl_hebbian_learn_f64(&rule, &w, &x, steps.data, steps.row_stride, thresholds, &to);
  }
  raise_on_error(status);
}

void learn_any(const hebbian::Rule& rule, const py::array& W, const py::array& X, const py::array& lr,
               const py::array* theta, const py::array& out) {
  in_type_of(W, [&](auto zero) { learn<decltype(zero)>(rule, W, X, lr, theta, out); });
}

void set_algorithm(hebbian::Rule& rule, const std::string& mode, const std::string& algorithm) {
  if (mode != "sequential" && mode != "batch") throw py::value_error("mode: expected sequential or batch, got " + mode);
  rule.together = mode == "batch";
  if (algorithm == "loop")
    rule.algorithm = FASTDL_HEBBIAN_LOOP;
  else if (algorithm == "blocks")
    rule.algorithm = FASTDL_HEBBIAN_BLOCKS;
  else if (algorithm != "auto")
    throw py::value_error("algorithm: expected auto, loop or blocks, got " + algorithm);
}

template <class T>
void foldiak(const hebbian::Settling& how, const py::array& W, const py::array& X, const py::array& lr,
             const py::array& lateral, const py::array& threshold, const py::array& out) {
  const auto w = matrix<const T>(W, "W").plain(), x = matrix<const T>(X, "X").plain(),
             to = matrix<T>(out, "out").plain(), between = matrix<T>(lateral, "lateral").plain();
  const auto steps = matrix<const T>(lr, "lr", 1);
  const auto thresholds = matrix<T>(threshold, "threshold", 1);
  if (steps.rows != x.rows || thresholds.rows != w.rows || (thresholds.rows > 1 && thresholds.row_stride != 1))
    throw py::value_error("expected lr for each sample and a threshold for each unit, contiguous");
  fastdl_status status;
  {
    const WithoutGil release;
    if constexpr (sizeof(T) == 4)
      status = fastdl_hebbian_foldiak_f32(&how, &w, &x, steps.data, steps.row_stride, &between, thresholds.data, &to);
    else
      status = fastdl_hebbian_foldiak_f64(&how, &w, &x, steps.data, steps.row_stride, &between, thresholds.data, &to);
  }
  raise_on_error(status);
}

template <class T>
void ccipca(const py::array& V, const py::array& X, std::int64_t count, double amnesic, const py::array& out) {
  const auto v = matrix<const T>(V, "V").plain(), x = matrix<const T>(X, "X").plain(),
             to = matrix<T>(out, "out").plain();
  fastdl_status status;
  {
    const WithoutGil release;
    if constexpr (sizeof(T) == 4)
      status = fastdl_hebbian_ccipca_f32(&v, &x, count, amnesic, &to);
    else
      status = fastdl_hebbian_ccipca_f64(&v, &x, count, amnesic, &to);
  }
  raise_on_error(status);
}

template <class T>
void center(const py::array& X, const py::array& mean, std::int64_t count, const py::array& after,
            const py::array& out) {
  const auto x = matrix<const T>(X, "X");
  const auto to = matrix<T>(out, "out");
  const auto before = matrix<const double>(mean, "mean", 1);
  const auto last = matrix<double>(after, "after", 1);
  const auto fits = [&](std::int64_t rows, std::int64_t stride) { return rows == x.cols && (rows < 2 || stride == 1); };
  if (!fits(before.rows, before.row_stride) || !fits(last.rows, last.row_stride))
    throw py::value_error("mean and after: expected one for each feature, contiguous, got " + described(mean) +
                          " and " + described(after));
  const WithoutGil release;
  hebbian::center(x, before.data, count, last.data, to);
}

template <class T>
MatrixView<const T> thresholds(const Other& b) {
  return b ? matrix<const T>(*b, "b", 1) : MatrixView<const T>{};
}

template <class T>
void hopfield_energy(const py::array& W, const py::array& s, const Other& b, const py::array& out) {
  const auto w = matrix<const T>(W, "W"), states = matrix<const T>(s, "s"), bias = thresholds<T>(b);
  const auto to = matrix<T>(out, "out", 1);
  const WithoutGil release;
  hebbian::hopfield_energy(w, states, bias, to);
}

// What every recall takes beside the network, checked: recall(together, orders, their number, units of each, out) is
// called without the GIL, with the states s in `out`.
template <class T, class Recall>
void run_recall(const py::array& s, const std::string& mode, const Orders& orders, const py::array& out,
                const Recall& recall) {
  const auto from = matrix<const T>(s, "s");
  const auto to = matrix<T>(out, "out");
  if (from.rows != to.rows || from.cols != to.cols)
    throw py::value_error("out: expected the shape of s, got " + described(out));
  if (orders.ndim() != 2) throw py::value_error("orders: expected 2 dimensions, got " + std::to_string(orders.ndim()));
  if (mode != "async" && mode != "sync") throw py::value_error("mode: expected async or sync, got " + mode);
  const std::int64_t *asked = orders.data(), sweeps = orders.shape(0), units = orders.shape(1);
  const WithoutGil release;
  for (std::int64_t i = 0; i < to.rows; ++i) {
    T* row = to.data + i * to.row_stride;
    const T* source = from.data + i * from.row_stride;
    if (to.col_stride == 1 && from.col_stride == 1)
      std::copy_n(source, to.cols, row);
    else
      for (std::int64_t j = 0; j < to.cols; ++j) row[j * to.col_stride] = source[j * from.col_stride];
  }
  recall(mode == "sync", asked, sweeps, units, to);
}

template <class T>
void hopfield_recall(const py::array& W, const py::array& s, const Other& b, const std::string& mode,
                     std::int64_t max_sweeps, const Orders& orders, const py::array& out) {
  const auto w = matrix<const T>(W, "W"), bias = thresholds<T>(b);
  run_recall<T>(s, mode, orders, out, [&](bool together, auto asked, auto sweeps, auto units, auto to) {
    hebbian::hopfield_recall(w, bias, together, max_sweeps, asked, sweeps, units, to);
  });
}

template <class T>
void dense_hopfield(const py::array& P, const py::array& s, double degree, const std::string& mode,
                    std::int64_t max_sweeps, const Orders& orders, const py::array& out) {
  const auto p = matrix<const T>(P, "P");
  run_recall<T>(s, mode, orders, out, [&](bool together, auto asked, auto sweeps, auto units, auto to) {
    hebbian::dense_hopfield(p, degree, together, max_sweeps, asked, sweeps, units, to);
  });
}

template <class T>
void dense_hopfield_energy(const py::array& P, const py::array& s, double degree, const py::array& out) {
  const auto p = matrix<const T>(P, "P"), states = matrix<const T>(s, "s");
  const auto to = matrix<T>(out, "out", 1);
  const WithoutGil release;
  hebbian::dense_hopfield_energy(p, states, degree, to);
}

template <class T>
void hopfield_weights(const py::array& P, bool zero_diagonal, const py::array& out) {
  const auto p = matrix<const T>(P, "P");
  const auto w = matrix<T>(out, "out");
  const WithoutGil release;
  hebbian::hopfield_weights(p, zero_diagonal, w);
}

template <class T>
void crosstalk(const py::array& P, const py::array& out) {
  const auto p = matrix<const T>(P, "P");
  const auto to = matrix<T>(out, "out");
  const WithoutGil release;
  hebbian::crosstalk(p, to);
}

}  // namespace

void register_hebbian(py::module_& module) {
  auto hebbian = module.def_submodule("hebbian", "Hebbian learning and associative memories");
  const auto define = [&](const char* name, fastdl_hebbian_kind kind) {
    hebbian.def(name, [kind](const py::array& W, const py::array& X, const py::array& lr, const std::string& mode,
                             const std::string& algorithm, const py::array& out) {
      hebbian::Rule rule = hebbian::rule(kind);
      set_algorithm(rule, mode, algorithm);
      learn_any(rule, W, X, lr, nullptr, out);
    });
  };
  define("oja", FASTDL_HEBBIAN_OJA);
  define("sanger", FASTDL_HEBBIAN_SANGER);
  define("subspace", FASTDL_HEBBIAN_SUBSPACE);
  hebbian.def("hebb", [](const py::array& W, const py::array& X, const py::array& lr, const std::string& mode,
                         const std::string& algorithm, bool normalize, const py::array& out) {
    hebbian::Rule rule = hebbian::rule(normalize ? FASTDL_HEBBIAN_NORMALIZED : FASTDL_HEBBIAN_HEBB);
    set_algorithm(rule, mode, algorithm);
    learn_any(rule, W, X, lr, nullptr, out);
  });
  hebbian.def("bcm", [](const py::array& W, const py::array& X, const py::array& theta, const py::array& lr, double tau,
                        const py::array& out, const py::array& thresholds) {
    hebbian::Rule rule = hebbian::rule(FASTDL_HEBBIAN_BCM);
    rule.tau = tau;
    thresholds[py::ellipsis()] = theta;
    learn_any(rule, W, X, lr, &thresholds, out);
  });
  hebbian.def("krotov", [](const py::array& W, const py::array& X, const py::array& lr, double p, double delta,
                           std::int64_t rank, const py::array& out) {
    hebbian::Rule rule = hebbian::rule(FASTDL_HEBBIAN_KROTOV);
    rule.delta = delta;
    rule.rank = rank;
    rule.norm = p;
    learn_any(rule, W, X, lr, nullptr, out);
  });
  hebbian.def("soft_hebb", [](const py::array& W, const py::array& X, const py::array& lr, double temperature,
                              const py::array& out) {
    hebbian::Rule rule = hebbian::rule(FASTDL_HEBBIAN_SOFT);
    rule.temperature = temperature;
    learn_any(rule, W, X, lr, nullptr, out);
  });
  hebbian.def("foldiak",
              [](const py::array& W, const py::array& X, const py::array& lateral, const py::array& threshold,
                 const py::array& lr, double lateral_lr, double threshold_lr, double activity, double steepness,
                 std::int64_t steps, const py::array& out, const py::array& after, const py::array& thresholds) {
                after[py::ellipsis()] = lateral;
                thresholds[py::ellipsis()] = threshold;
                const hebbian::Settling how{lateral_lr, threshold_lr, activity, steepness, steps};
                in_type_of(W, [&](auto zero) { foldiak<decltype(zero)>(how, W, X, lr, after, thresholds, out); });
              });
  hebbian.def("ccipca",
              [](const py::array& V, const py::array& X, std::int64_t count, double amnesic, const py::array& out) {
                in_type_of(V, [&](auto zero) { ccipca<decltype(zero)>(V, X, count, amnesic, out); });
              });
  hebbian.def("center", [](const py::array& X, const py::array& mean, std::int64_t count, const py::array& after,
                           const py::array& out) {
    in_type_of(X, [&](auto zero) { center<decltype(zero)>(X, mean, count, after, out); });
  });
  hebbian.def("hopfield_weights", [](const py::array& P, bool zero_diagonal, const py::array& out) {
    in_type_of(P, [&](auto zero) { hopfield_weights<decltype(zero)>(P, zero_diagonal, out); });
  });
  hebbian.def("hopfield_energy", [](const py::array& W, const py::array& s, const Other& b, const py::array& out) {
    in_type_of(W, [&](auto zero) { hopfield_energy<decltype(zero)>(W, s, b, out); });
  });
  hebbian.def("hopfield_recall", [](const py::array& W, const py::array& s, const Other& b, const std::string& mode,
                                    std::int64_t max_sweeps, const Orders& orders, const py::array& out) {
    in_type_of(W, [&](auto zero) { hopfield_recall<decltype(zero)>(W, s, b, mode, max_sweeps, orders, out); });
  });
  hebbian.def("dense_hopfield", [](const py::array& P, const py::array& s, double degree, const std::string& mode,
                                   std::int64_t max_sweeps, const Orders& orders, const py::array& out) {
    in_type_of(P, [&](auto zero) { dense_hopfield<decltype(zero)>(P, s, degree, mode, max_sweeps, orders, out); });
  });
  hebbian.def("dense_hopfield_energy", [](const py::array& P, const py::array& s, double degree, const py::array& out) {
    in_type_of(P, [&](auto zero) { dense_hopfield_energy<decltype(zero)>(P, s, degree, out); });
  });
  hebbian.def("crosstalk", [](const py::array& P, const py::array& out) {
    in_type_of(P, [&](auto zero) { crosstalk<decltype(zero)>(P, out); });
  });
}

}  // namespace fastdl::bindings
