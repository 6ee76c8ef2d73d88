// Calls of the Gram family.
#include "fuzz.hpp"

namespace fuzz {
namespace {

template <class T>
using Sparse = std::conditional_t<std::is_same_v<T, float>, fastdl_sparse_f32, fastdl_sparse_f64>;

const fastdl_kernel* kernel(Case& c, Index d, bool sparse_rows) {
  if (c.wild(32)) {
    c.refuse();
    return nullptr;
  }
  fastdl_kernel k = fastdl_kernel_default(c.choice<fastdl_kernel_kind>(14), d);
  static constexpr fastdl_kernel_kind of_sparse[] = {FASTDL_LINEAR, FASTDL_POLYNOMIAL, FASTDL_RBF, FASTDL_COSINE};
  if (sparse_rows && !c.wild(4)) k.kind = k.kind >= 0 && k.kind < 14 ? of_sparse[k.kind % 4] : k.kind;
  static constexpr double orders[] = {0.5, 1.5, 2.5, std::numeric_limits<double>::infinity()};
  k.gamma = c.real(k.gamma);
  k.coef0 = c.real(k.coef0);
  k.degree = c.real(1 + c.below(6) / 2.0);
  k.length_scale = c.real(k.length_scale);
  k.nu = c.real(orders[c.below(4)]);
  k.alpha = c.real(k.alpha);
  k.omega = c.real(k.omega);
  k.w_std = c.real(k.w_std);
  k.b_std = c.real(k.b_std);
  // More layers than these are only more of the same.
  k.depth = c.wild(8) ? -c.below(3) : c.below(5);
  k.normalize = c.below(2);
  k.order = c.wild(8) ? int(c.special()) : c.below(3);
  if (k.kind == FASTDL_MATERN && c.chance(2)) {
    double* scales = c.array<double>({d}, Role::input, true);
    const bool sound = !c.wild(4);
    for (Index f = 0; scales && sound && d <= 64 && f < d; ++f) scales[f] = 0.5 + double(f);
    k.length_scales = scales;
  }
  return c.keep(k);
}

template <class T>
const Sparse<T>* sparse(Case& c, Index rows, Index cols) {
  if (c.wild(32)) {
    c.refuse();
    return nullptr;
  }
  if (c.wild(16)) rows = c.extent();
  if (c.wild(16)) cols = c.extent();
  Sparse<T> result{rows, cols, nullptr, nullptr, nullptr};
  Index* offsets = c.array<Index>({rows < 0 ? rows : Wide(rows) + 1}, Role::input);
  result.offsets = offsets;
  if (cols < 0) c.refuse();
  if (!offsets || rows < 0 || cols < 0 || rows > 64) return c.keep(result);
  std::vector<Index> entries;
  offsets[0] = 0;
  for (Index i = 0; i < rows; ++i) {
    for (Index column = c.below(4); column < cols && column < 256; column += 1 + c.below(16)) entries.push_back(column);
    offsets[i + 1] = Index(entries.size());
  }
  if (c.wild(8)) {  // offsets that do not ascend, or reach beyond all addresses
    static constexpr Index values[] = {-1, INT64_MIN, INT64_MAX, Index{1} << 61};
    offsets[c.byte() % (rows + 1)] = values[c.below(4)];
    c.refuse();
  }
  const bool none = entries.empty();
  Index* indices = c.array<Index>({Wide(entries.size())}, Role::input);
  if (indices && !none) {
    std::memcpy(indices, entries.data(), entries.size() * sizeof(Index));
    if (c.wild(8)) {
      const Index values[] = {-1, INT64_MIN, INT64_MAX, cols};
      indices[std::size_t(c.byte()) % entries.size()] = values[c.below(4)];
      c.refuse();
    }
  }
  result.indices = indices;
  result.values = c.array<T>({Wide(entries.size())}, Role::input);
  return c.keep(result);
}

template <class T>
void cntk(Case& c) {
  const Index n = c.extent(4), channels = c.extent(5), height = c.extent(6), width = c.extent(6);
  const bool symmetric = c.chance(3);
  const Index m = symmetric && !c.wild(8) ? n : c.extent(4);
  static constexpr int sizes[] = {-1, 0, 1000, INT32_MAX, INT32_MIN};
  const int depth = c.wild(16) ? -c.below(3) : c.below(5);
  const int kernel_size = c.wild(8) ? sizes[c.below(5)] : 1 + c.below(5);
  const T* x = c.array<T>({n, channels, height, width}, Role::input);
  const T* y = symmetric ? nullptr : c.array<T>({m, channels, height, width}, Role::input, true);
  T* k = c.array<T>({n, m}, Role::output);
  const Wide pixels = product({height, width});
  c.work({n, m, pixels, pixels, Wide(channels) + 4 * depth});
  const int mean_pooling = c.below(2);
  c.call("gram_cntk", [&] {
    return FUZZ_BY_TYPE(T, fastdl_gram_cntk)(x, n, y, m, channels, height, width, depth, kernel_size, mean_pooling, k);
  });
}

template <class T>
void feature_gram(Case& c) {
  const Index samples = c.extent(5), channels = c.extent(), positions = c.extent(30);
  const T* x = c.array<T>({samples, channels, positions}, Role::input);
  T* out = c.array<T>({samples, channels, channels}, Role::output);
  c.work({samples, channels, channels, positions});
  const int center = c.below(2);
  c.call("gram_feature_gram",
         [&] { return FUZZ_BY_TYPE(T, fastdl_gram_feature_gram)(x, samples, channels, positions, center, out); });
}

template <class T>
void any(Case& c) {
  const int function = c.below(16);
  if (function == 14) return cntk<T>(c);
  if (function == 15) return feature_gram<T>(c);
  const Index n = c.extent(40), d = c.extent(30), p = c.extent(6);
  const bool alone = c.chance(3);  // Y is X
  const Index m = alone ? n : c.extent(40);
  const auto input = [&](Index rows, Index cols) { return c.matrix<T>(rows, cols, Role::input); };
  const auto output = [&](Index rows, Index cols) { return c.matrix<T>(rows, cols, Role::output); };
  const auto other = [&] { return alone ? nullptr : c.matrix<T>(m, d, Role::input, true); };
  // Only functions that take a kernel must refuse one that there is not.
  const bool none = function == 0 || function == 5 || function >= 10;
  const fastdl_kernel* k = none ? nullptr : kernel(c, d, function == 4);
  c.work({n, m, Wide(d) + p + 4});
  switch (function) {
    case 0: {
      const auto *X = input(n, d), *Y = other(), *K = output(n, m);
      c.call("gram_linear", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_linear)(X, Y, K); });
      break;
    }
    case 1: {
      const auto* X = input(n, d);
      if (alone && c.chance(2)) {
        const Index row = c.extent(40), column = c.extent(40);
        const auto* K = output(c.extent(40), c.extent(40));
        c.call("gram_part", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_part)(k, X, row, column, K); });
        break;
      }
      const auto *Y = other(), *K = output(n, m);
      c.call("gram", [&] { return FUZZ_BY_TYPE(T, fastdl_gram)(k, X, Y, K); });
      break;
    }
    case 2: {
      const auto *X = input(n, d), *out = output(n, 1);
      c.call("gram_diag", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_diag)(k, X, out); });
      break;
    }
    case 3: {
      const auto *X = input(n, d), *Y = other(), *v = input(m, p), *out = output(n, p);
      c.call("gram_matvec", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_matvec)(k, X, Y, v, out); });
      break;
    }
    case 4: {
      const auto *X = sparse<T>(c, n, d), *Y = sparse<T>(c, d, m);
      const auto* K = output(n, m);
      const int symmetric = alone || c.wild(4);
      c.call("gram_sparse", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_sparse)(k, X, Y, symmetric, K); });
      break;
    }
    case 5: {
      const auto *Q = input(n, d), *K = input(m, d), *V = input(m, p), *out = output(n, p);
      const double scale = c.real(0.5);
      c.call("gram_softmax_matvec", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_softmax_matvec)(Q, K, V, scale, out); });
      break;
    }
    case 6: {
      const auto *X = input(n, d), *Y = other(), *grad = input(n, m), *dX = output(n, d);
      const auto* dY = alone ? nullptr : c.matrix<T>(m, d, Role::output, true);
      double* gamma = c.array<double>({1}, Role::output, true);
      c.work({n, m, Wide(d) * 4 + 16});
      c.call("gram_vjp", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_vjp)(k, X, Y, grad, dX, dY, gamma); });
      break;
    }
    case 7: {
      const auto *X = input(n, d), *Y = other(), *v = input(m, p), *grad = input(n, p), *dX = output(n, d);
      const auto* dY = alone ? nullptr : c.matrix<T>(m, d, Role::output, true);
      const auto* dv = output(m, p);
      double* gamma = c.array<double>({1}, Role::output, true);
      c.work({n, m, Wide(d) * 4 + 4 * Wide(p) + 16});
      c.call("gram_matvec_vjp",
             [&] { return FUZZ_BY_TYPE(T, fastdl_gram_matvec_vjp)(k, X, Y, v, grad, dX, dY, dv, gamma); });
      break;
    }
    case 8: {
      const auto *X = input(n, d), *Y = other(), *out = output(n, m);
      c.call("gram_distance", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_distance)(k, X, Y, out); });
      break;
    }
    case 9: {
      const auto *X = input(n, d), *Y = other(), *K = output(n, m);
      const Index order = c.extent(5);
      const Index* permutations = c.places({order, d}, d);
      const int group = c.below(2);
      c.work({n, m, order, order, Wide(d) + 4});
      c.call("gram_invariant",
             [&] { return FUZZ_BY_TYPE(T, fastdl_gram_invariant)(k, X, Y, permutations, order, group, K); });
      break;
    }
    case 10: {
      const auto *K = input(n, n), *out = output(n, n);
      c.call("gram_center", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_center)(K, out); });
      break;
    }
    case 11:
    case 12: {
      const auto *K = input(n, n), *L = input(n, n);
      T* out = c.array<T>({1}, Role::output);
      const int unbiased = c.below(2);
      if (function == 11)
        c.call("gram_hsic", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_hsic)(K, L, unbiased, out); });
      else
        c.call("gram_cka", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_cka)(K, L, unbiased, out); });
      break;
    }
    default: {
      const auto *J1 = input(n, d), *J2 = other(), *K = output(n, m);
      c.call("gram_empirical_ntk", [&] { return FUZZ_BY_TYPE(T, fastdl_gram_empirical_ntk)(J1, J2, K); });
    }
  }
}

}  // namespace

void gram_case(Case& c) { c.chance(2) ? any<double>(c) : any<float>(c); }

}  // namespace fuzz
