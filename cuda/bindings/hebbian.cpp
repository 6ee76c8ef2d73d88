#include "bindings/hebbian_arrays.hpp"

namespace fastdl::cuda::bindings {

namespace {

using hebbian::cuda::Learning;
using hebbian::cuda::Rule;

template <class T>
using Steps = py::array_t<T, py::array::c_style | py::array::forcecast>;

// What a call that learns returned, as Python has it.
void raise_on_divergence(const char* name, std::int64_t diverged) {
  if (diverged == hebbian::cuda::all_finite) return;
  if (diverged == hebbian::cuda::bad_from_the_start)
    throw py::value_error("[" + std::string(name) + "] expected finite weights to begin with, got some that are not");
  PyErr_SetString(PyExc_FloatingPointError,
                  ("[" + std::string(name) + "] expected weights that stay finite, got one that is not after sample " +
                   std::to_string(diverged))
                      .c_str());
  throw py::error_already_set();
}

template <class T>
Scratch<T> steps_of(const char* name, const py::array& lr, std::int64_t count) {
  const Steps<T> steps(lr);
  if (steps.ndim() != 1 || steps.shape(0) != count)
    throw py::value_error("lr: expected one for each sample, got " + std::to_string(steps.size()));
  return uploaded<T>(name, steps);
}

template <class T>
void learn(Learning how, const std::string& mode, const Array& W, const Array& X, const py::array& lr,
           const Array* theta, const Array& out, const Array* theta_out) {
  const Contiguous<T> w(W, "W");
  const auto x = samples_of<T>(X, "X");
  const Result<T> to(out, "out");
  check_shape(X, "X", {x.count, samples_of<T>(W, "W").features});
  check_shape(out, "out", W.shape());
  const Scratch<T> steps = steps_of<T>(how.name, lr, x.count);
  const Steps<T> given(lr);
  for (std::int64_t t = 0; t < x.count; ++t) how.falls |= given.data()[t] < T(0);
  std::optional<Result<T>> thresholds;
  Scratch<T> changing;  // written only if all is finite
  if (theta) {
    for (const Array* vector : {theta, theta_out}) check_shape(*vector, "theta", {W.shape(0)});
    check_type<T>(*theta, "theta");
    thresholds.emplace(*theta_out, "theta");
    changing = Scratch<T>(how.name, W.shape(0), stream());
    gather(how.name, theta->data<const T>(), theta->layout(), changing.data(), stream());
  }
  std::int64_t diverged;
  {
    const WithoutGil release;
    if (mode == "batch") {
      diverged = hebbian::cuda::learn_together(how, w.data(), w.shape(0), x, steps.data(), to.data(), stream());
    } else {
      diverged = hebbian::cuda::learn(how, w.data(), w.shape(0), x, steps.data(), changing.data(), to.data(), stream());
    }
    if (diverged == hebbian::cuda::all_finite) {
      to.finish();
      if (changing.count() > 0) {
        copy_on_device(how.name, thresholds->data(), changing.data(), changing.bytes(), stream());
        thresholds->finish();
      }
    }
  }
  raise_on_divergence(how.name, diverged);
}

void learn_any(const Learning& how, const std::string& mode, const Array& W, const Array& X, const py::array& lr,
               const Array* theta, const Array& out, const Array* theta_out = nullptr) {
  in_type_of(W, [&](auto zero) { learn<decltype(zero)>(how, mode, W, X, lr, theta, out, theta_out); });
}

// With few samples a block does not pay for its three launches.
bool takes_blocks(const std::string& mode, const std::string& algorithm, const Array& X) {
  if (mode != "sequential" && mode != "batch") throw py::value_error("mode: expected sequential or batch, got " + mode);
  if (algorithm == "auto") return X.ndim() > 0 && X.shape(0) >= 16;
  return chosen<bool>("algorithm", algorithm, {{"auto", true}, {"loop", false}, {"blocks", true}});
}

template <class T>
void foldiak(const hebbian::cuda::Settling& how, const Array& W, const Array& X, const Array& lateral,
             const Array& threshold, const py::array& lr, const Array& out, const Array& after,
             const Array& thresholds) {
  constexpr const char* name = "hebbian.foldiak";
  const Contiguous<T> w(W, "W"), between(lateral, "lateral"), bar(threshold, "threshold");
  const auto x = samples_of<T>(X, "X");
  const Result<T> to(out, "out"), to_lateral(after, "lateral"), to_threshold(thresholds, "threshold");
  const std::int64_t k = samples_of<T>(W, "W").count;
  check_shape(X, "X", {x.count, samples_of<T>(W, "W").features});
  check_shape(out, "out", W.shape());
  for (const Array* square : {&lateral, &after}) check_shape(*square, "lateral", {k, k});
  for (const Array* vector : {&threshold, &thresholds}) check_shape(*vector, "threshold", {k});
  const Scratch<T> steps = steps_of<T>(name, lr, x.count);
  std::int64_t diverged;
  {
    const WithoutGil release;
    diverged = hebbian::cuda::foldiak(how, w.data(), k, x, steps.data(), between.data(), bar.data(), to.data(),
                                      to_lateral.data(), to_threshold.data(), stream());
    if (diverged == hebbian::cuda::all_finite)
      for (const Result<T>* result : {&to, &to_lateral, &to_threshold}) result->finish();
  }
  raise_on_divergence(name, diverged);
}

template <class T>
void ccipca(const Array& V, const Array& X, std::int64_t count, double amnesic, const Array& out) {
  const Contiguous<T> v(V, "V");
  const auto x = samples_of<T>(X, "X");
  const Result<T> to(out, "out");
  check_shape(X, "X", {x.count, samples_of<T>(V, "V").features});
  check_shape(out, "out", V.shape());
  std::int64_t diverged;
  {
    const WithoutGil release;
    diverged = hebbian::cuda::ccipca(v.data(), v.shape(0), x, count, amnesic, to.data(), stream());
    if (diverged == hebbian::cuda::all_finite) to.finish();
  }
  raise_on_divergence("hebbian.ccipca", diverged);
}

template <class T>
void center(const Array& X, const Array& mean, std::int64_t count, const Array& after, const Array& out) {
  const auto x = samples_of<T>(X, "X");
  const Contiguous<double> before(mean, "mean");
  const Result<double> last(after, "after");
  const Result<T> to(out, "out");
  check_shape(mean, "mean", {x.features});
  check_shape(after, "after", {x.features});
  check_shape(out, "out", X.shape());
  const WithoutGil release;
  hebbian::cuda::center(x, before.data(), count, last.data(), to.data(), stream());
  last.finish();
  to.finish();
}

}  // namespace

void register_hebbian(py::module_& module) {
  py::module_ hebbian = module.def_submodule("hebbian");
  const auto define = [&](const char* function, const char* name, Rule rule) {
    hebbian.def(function, [name, rule](const Array& W, const Array& X, const py::array& lr, const std::string& mode,
                                       const std::string& algorithm, const Array& out) {
      Learning how{name, rule};
      how.blocks = takes_blocks(mode, algorithm, X);
      learn_any(how, mode, W, X, lr, nullptr, out);
    });
  };
  define("oja", "hebbian.oja", Rule::oja);
  define("sanger", "hebbian.sanger", Rule::sanger);
  define("subspace", "hebbian.subspace", Rule::subspace);
  register_hebbian_memory(hebbian);
  hebbian.def("hebb", [](const Array& W, const Array& X, const py::array& lr, const std::string& mode,
                         const std::string& algorithm, bool normalize, const Array& out) {
    Learning how{"hebbian.hebb", normalize ? Rule::normalized : Rule::hebb};
    how.blocks = takes_blocks(mode, algorithm, X);
    learn_any(how, mode, W, X, lr, nullptr, out);
  });
  hebbian.def("bcm", [](const Array& W, const Array& X, const Array& theta, const py::array& lr, double tau,
                        const Array& out, const Array& thresholds) {
    Learning how{"hebbian.bcm", Rule::bcm};
    how.tau = tau;
    learn_any(how, "sequential", W, X, lr, &theta, out, &thresholds);
  });
  hebbian.def("krotov", [](const Array& W, const Array& X, const py::array& lr, double p, double delta,
                           std::int64_t rank, const Array& out) {
    Learning how{"hebbian.krotov", Rule::krotov};
    how.norm = p;
    how.delta = delta;
    how.rank = rank;
    learn_any(how, "sequential", W, X, lr, nullptr, out);
  });
  hebbian.def("soft_hebb",
              [](const Array& W, const Array& X, const py::array& lr, double temperature, const Array& out) {
                Learning how{"hebbian.soft_hebb", Rule::soft};
                how.temperature = temperature;
                learn_any(how, "sequential", W, X, lr, nullptr, out);
              });
  hebbian.def(
      "foldiak", [](const Array& W, const Array& X, const Array& lateral, const Array& threshold, const py::array& lr,
                    double lateral_lr, double threshold_lr, double activity, double steepness, std::int64_t steps,
                    const Array& out, const Array& after, const Array& thresholds) {
        const hebbian::cuda::Settling how{lateral_lr, threshold_lr, activity, steepness, steps};
        in_type_of(
            W, [&](auto zero) { foldiak<decltype(zero)>(how, W, X, lateral, threshold, lr, out, after, thresholds); });
      });
  hebbian.def("ccipca", [](const Array& V, const Array& X, std::int64_t count, double amnesic, const Array& out) {
    in_type_of(V, [&](auto zero) { ccipca<decltype(zero)>(V, X, count, amnesic, out); });
  });
  hebbian.def("center",
              [](const Array& X, const Array& mean, std::int64_t count, const Array& after, const Array& out) {
                in_type_of(X, [&](auto zero) { center<decltype(zero)>(X, mean, count, after, out); });
              });
}

}  // namespace fastdl::cuda::bindings
