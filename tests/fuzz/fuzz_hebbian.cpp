// Calls of the Hebbian family.
#include "fuzz.hpp"

namespace fuzz {
namespace {

const fastdl_hebbian_rule* rule(Case& c) {
  if (c.wild(32)) {
    c.refuse();
    return nullptr;
  }
  fastdl_hebbian_rule r{};
  r.kind = c.choice<fastdl_hebbian_kind>(8);
  r.algorithm = c.choice<fastdl_hebbian_algorithm>(3);
  r.together = r.kind <= FASTDL_HEBBIAN_SUBSPACE && c.chance(3);
  if (c.wild(16)) r.together = 1;
  r.tau = c.real(10);
  r.delta = c.real(0.4);
  r.temperature = c.real(1);
  r.rank = c.number(2, 5);
  r.norm = c.real(c.chance(3) ? 3.0 : 2.0);
  return c.keep(r);
}

// Steps, one for each of the samples.
template <class T>
const T* steps(Case& c, const Matrix<T>* X, Index& stride) {
  const Index samples = X ? X->rows : 1;
  c.choose_strides(&samples, 1, false, &stride);
  T* lr = c.strided<T>(&samples, &stride, 1, Role::input);
  // Finite ones, but for some.
  if (!lr || samples < 1 || samples > 64 || c.wild(8) || stride > 64 || stride < -64) return lr;
  for (Index t = 0; t < samples; ++t) lr[t * stride] = T(0.01);
  return lr;
}

template <class T>
void learning(Case& c, int function) {
  const Index k = c.extent(20), d = c.extent(30), n = c.extent(40);
  const fastdl_hebbian_rule* r = function == 0 ? rule(c) : nullptr;
  const bool in_place = c.chance(4);
  const auto* W = c.matrix<T>(k, d, in_place ? Role::both : Role::input);
  const auto* X = c.matrix<T>(n, d, Role::input);
  const auto* out = in_place ? W : c.matrix<T>(k, d, Role::output);
  Index stride = 1;
  const T* lr = steps<T>(c, X, stride);
  const Wide units = W ? W->rows : 1;
  if (function == 0) {
    T* theta = r && r->kind == FASTDL_HEBBIAN_BCM ? c.array<T>({units}, Role::both) : nullptr;
    c.work({k, n, Wide(d) + k});
    c.call("hebbian_learn", [&] { return FUZZ_BY_TYPE(T, fastdl_hebbian_learn)(r, W, X, lr, stride, theta, out); });
  } else {
    fastdl_hebbian_settling how{c.real(0.1), c.real(0.02), c.real(0.1), c.real(10), c.below(20)};
    if (c.wild(8)) how.steps = -1 - c.below(3);
    const auto* settling = c.wild(32) ? (c.refuse(), nullptr) : c.keep(how);
    const auto* lateral = c.matrix<T>(k, k, Role::both);
    T* threshold = c.array<T>({units}, Role::both);
    c.work({k, n, Wide(d) + Wide(k) * (how.steps + 1)});
    c.call("hebbian_foldiak", [&] {
      return FUZZ_BY_TYPE(T, fastdl_hebbian_foldiak)(settling, W, X, lr, stride, lateral, threshold, out);
    });
  }
}

template <class T>
void recall(Case& c, bool dense) {
  const Index d = c.extent(20), states = c.extent(12), n = c.extent(12);
  const auto* W = c.matrix<T>(dense ? n : d, d, Role::input);
  const auto* b = dense || c.chance(2) ? nullptr : c.matrix<T>(d, 1, Role::input, true);
  const double degree = c.real(c.chance(3) ? std::numeric_limits<double>::infinity() : 1 + c.below(5));
  const auto* S = c.matrix<T>(states, d, Role::spins);
  const int together = c.below(2);
  // Sweeps go on until nothing changes, which may be never.
  const Index most = c.wild(16) ? -1 - c.below(2) : c.below(6);
  const Index sweeps = c.number(1, 3), units = c.chance(2) ? d : c.extent(12);
  const Index* orders = nullptr;
  const bool ordered = !together;
  // Orders are not looked at for all units together, whatever is said of them.
  if (ordered) orders = c.places({sweeps, units}, W ? W->cols : 1);
  c.work({states, Wide(units) + d, Wide(d) + n, Wide(most) + 1});
  if (dense)
    c.call("hebbian_dense_hopfield", [&] {
      return FUZZ_BY_TYPE(T, fastdl_hebbian_dense_hopfield)(W, degree, together, most, orders, sweeps, units, S);
    });
  else
    c.call("hebbian_hopfield_recall", [&] {
      return FUZZ_BY_TYPE(T, fastdl_hebbian_hopfield_recall)(W, b, together, most, orders, sweeps, units, S);
    });
}

template <class T>
void any(Case& c) {
  const int function = c.below(11);
  if (function <= 2) return learning<T>(c, function == 2);
  if (function == 3) return recall<T>(c, false);
  if (function == 4) return recall<T>(c, true);
  const Index n = c.extent(20), d = c.extent(20), k = c.extent(12);
  c.work({Wide(n) + 1, Wide(d) + 1, Wide(k) + n + d});
  const Index count = c.number(0, 9, 4);
  switch (function) {
    case 5: {
      const auto *V = c.matrix<T>(k, d, Role::input), *X = c.matrix<T>(n, d, Role::input);
      const auto* out = c.matrix<T>(k, d, Role::output);
      const double amnesic = c.real(2);
      if (count < 0) c.refuse();
      c.call("hebbian_ccipca", [&] { return FUZZ_BY_TYPE(T, fastdl_hebbian_ccipca)(V, X, count, amnesic, out); });
      break;
    }
    case 6: {
      const auto *X = c.matrix<T>(n, d, Role::input), *out = c.matrix<T>(n, d, Role::output);
      const Wide features = X ? X->cols : 1;
      const double* mean = c.array<double>({features}, Role::input);
      double* after = c.array<double>({features}, Role::output);
      if (count < 0) c.refuse();
      c.call("hebbian_center", [&] { return FUZZ_BY_TYPE(T, fastdl_hebbian_center)(X, mean, count, after, out); });
      break;
    }
    case 7: {
      const auto *P = c.matrix<T>(n, d, Role::input), *W = c.matrix<T>(d, d, Role::output);
      const int zero_diagonal = c.below(2);
      c.call("hebbian_hopfield_weights",
             [&] { return FUZZ_BY_TYPE(T, fastdl_hebbian_hopfield_weights)(P, zero_diagonal, W); });
      break;
    }
    case 8: {
      const auto *W = c.matrix<T>(d, d, Role::input), *S = c.matrix<T>(n, d, Role::input);
      const auto *b = c.chance(2) ? nullptr : c.matrix<T>(d, 1, Role::input, true),
                 *out = c.matrix<T>(n, 1, Role::output);
      c.call("hebbian_hopfield_energy", [&] { return FUZZ_BY_TYPE(T, fastdl_hebbian_hopfield_energy)(W, S, b, out); });
      break;
    }
    case 9: {
      const auto *P = c.matrix<T>(k, d, Role::input), *S = c.matrix<T>(n, d, Role::input);
      const auto* out = c.matrix<T>(n, 1, Role::output);
      const double degree = c.real(c.chance(3) ? std::numeric_limits<double>::infinity() : 1 + c.below(5));
      c.call("hebbian_dense_hopfield_energy",
             [&] { return FUZZ_BY_TYPE(T, fastdl_hebbian_dense_hopfield_energy)(P, S, degree, out); });
      break;
    }
    default: {
      const auto *P = c.matrix<T>(n, d, Role::input), *out = c.matrix<T>(n, d, Role::output);
      c.call("hebbian_crosstalk", [&] { return FUZZ_BY_TYPE(T, fastdl_hebbian_crosstalk)(P, out); });
    }
  }
}

}  // namespace

void hebbian_case(Case& c) { c.chance(2) ? any<double>(c) : any<float>(c); }

}  // namespace fuzz
