// Hopfield networks, compiled once per instruction-set level: storage, energy and crosstalk are products of the engine,
// and so is synchronous recall. Asynchronous recall takes the fields of all states from one product, and then keeps
// them: a unit that turns over adds a column of the weights to the fields of its state. Few do.
#include "gemm/engine.hpp"
#include "hebbian/strips.hpp"

namespace fastdl::hebbian::FASTDL_LEVEL {
namespace {

// States whose fields are there at a time: 16 MB of them.
template <class T>
Index states_together(Index units) {
  const Index fit = (Index{16} << 20) / Index(sizeof(T)) / (units + 1);
  return fit < 1 ? 1 : fit;
}

template <class T>
gemm::Strided<T> rows_of(const Matrix<const T>& m) {
  return {m.data, m.row_stride, m.col_stride};
}

template <class T>
gemm::Strided<T> columns_of(const Matrix<const T>& m) {
  return {m.data, m.col_stride, m.row_stride};
}

template <class T>
struct Times {
  T factor;
  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index, Index) const { return sum * factor; }
};

// The thresholds by whole vectors, zeros without any.
template <class T>
T* thresholds(const Matrix<const T>& b, Index units, core::Scratch& scratch) {
  T* to = scratch.array<T>(units + simd::lanes<T>);
  for (Index i = 0; i < units + simd::lanes<T>; ++i) to[i] = b.data && i < units ? b.data[i * b.row_stride] : T(0);
  return to;
}

template <class T>
struct Field {
  const T* threshold;
  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index, Index column) const {
    return sum - simd::load(threshold + column);
  }
};

template <class T>
struct Sign {
  const T* threshold;
  FASTDL_INLINE Vec<T> operator()(Vec<T> sum, Index, Index column) const {
    return simd::select(sum - simd::load(threshold + column) >= Vec<T>{}, broadcast(T(1)), broadcast(T(-1)));
  }
};

// to[i][j] = w[j][i]
template <class T>
void turn(const Matrix<const T>& w, T* to) {
  constexpr Index side = 32;
  const Index n = w.rows, blocks = divide_up(n, side);
  core::parallel_for(blocks, n < 256 ? 1 : core::thread_count(), [&](Index block) {
    for (Index j = 0; j < n; j += side)
      for (Index i = block * side; i < at_most(n, (block + 1) * side); ++i)
        for (Index k = j; k < at_most(n, j + side); ++k) to[i * n + k] = w.data[k * w.row_stride + i * w.col_stride];
  });
}

template <class T>
class Asynchronous {
 public:
  Asynchronous(const Matrix<const T>& w, Index max_sweeps, const Index* orders, Index sweeps, Index units)
      : n_(w.rows), max_sweeps_(max_sweeps), orders_(orders), sweeps_(sweeps), units_(units) {
    columns_ = w.data;
    if (w.row_stride != 1 || w.col_stride != n_) {
      T* turned = scratch_.array<T>(n_, n_);
      turn(w, turned);
      columns_ = turned;
    }
    in_order_ = sweeps == 1 && units == n_;
    for (Index i = 0; in_order_ && i < units; ++i) in_order_ = orders[i] == i;
    patience_ = 1;
    bool* asked = scratch_.array<bool>(n_);
    for (Index sweep = 0; sweep < sweeps && !in_order_; ++sweep) {
      for (Index i = 0; i < n_; ++i) asked[i] = false;
      for (Index i = 0; i < units; ++i) asked[orders[sweep * units + i]] = true;
      for (Index i = 0; i < n_; ++i)
        if (!asked[i]) patience_ = sweeps;
    }
  }

  void run(T* field, T* state) const {
    for (Index sweep = 0, quiet = 0; sweep < max_sweeps_ && quiet < patience_; ++sweep) {
      bool turned = false;
      if (in_order_) {
        Index i = 0;
        for (; i + step<T> <= n_; i += step<T>)
          if (simd::any((simd::load(field + i) >= Vec<T>{}) != (simd::load(state + i) >= Vec<T>{})))
            for (Index j = i; j < i + step<T>; ++j) turned |= ask(j, field, state);
        for (; i < n_; ++i) turned |= ask(i, field, state);
      } else {
        const Index* order = orders_ + sweep % sweeps_ * units_;
        for (Index i = 0; i < units_; ++i) turned |= ask(order[i], field, state);
      }
      quiet = turned ? 0 : quiet + 1;
    }
  }

 private:
  FASTDL_INLINE bool ask(Index i, T* field, T* state) const {
    const T wanted = field[i] >= T(0) ? T(1) : T(-1);
    if (state[i] == wanted) return false;
    state[i] = wanted;
    add(field, columns_ + i * n_, wanted + wanted);
    return true;
  }

  __attribute__((noinline)) void add(T* field, const T* column, T factor) const {
    const Vec<T> f = broadcast(factor);
    Index j = 0;
    for (; j + step<T> <= n_; j += step<T>)
      simd::store(field + j, simd::fma(f, simd::load(column + j), simd::load(field + j)));
    if (const int rest = int(n_ - j); rest > 0)
      simd::store_first(field + j, simd::fma(f, simd::load_first(column + j, rest), simd::load_first(field + j, rest)),
                        rest);
  }

  Index n_, max_sweeps_;
  const Index* orders_;
  Index sweeps_, units_;
  Index patience_;  // sweeps without a change after which there can be none: one, if all units are asked in it
  bool in_order_;
  core::Scratch scratch_;
  const T* columns_;
};

template <class T>
bool equal(const T* a, const T* b, Index count) {
  for (Index i = 0; i < count; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

// All units at once, again and again. States that stay are left; those that come back to where they were two sweeps
// ago go on so, and end where an even or odd number of further sweeps leads to.
template <class T>
void synchronous(const Matrix<const T>& w, const T* threshold, Index max_sweeps, T* states, Index count) {
  const Index n = w.rows;
  core::Scratch scratch;
  T* now = scratch.array<T>(count, n);
  T* next = scratch.array<T>(count, n);
  T* before = scratch.array<T>(count, n);
  Index* which = scratch.array<Index>(count);
  std::memcpy(now, states, sizeof(T) * std::size_t(count * n));
  for (Index i = 0; i < count; ++i) which[i] = i;
  for (Index sweep = 1; sweep <= max_sweeps && count > 0; ++sweep) {
    gemm::multiply<T>({count, n, n}, false, gemm::MultiplyAdd{}, gemm::Strided<T>{now, n, 1}, rows_of(w), {next, n, 1},
                      Sign<T>{threshold});
    Index going = 0;
    for (Index i = 0; i < count; ++i) {
      T *of_now = now + i * n, *of_next = next + i * n, *of_before = before + i * n;
      const bool stays = equal(of_now, of_next, n), returns = sweep > 1 && equal(of_before, of_next, n);
      const bool even = (max_sweeps - sweep) % 2 == 0;
      if (stays || returns || sweep == max_sweeps) {
        std::memcpy(states + which[i] * n, stays || even ? of_next : of_now, sizeof(T) * std::size_t(n));
        continue;
      }
      if (going < i) {
        std::memcpy(now + going * n, of_now, sizeof(T) * std::size_t(n));
        std::memcpy(next + going * n, of_next, sizeof(T) * std::size_t(n));
      }
      which[going++] = which[i];
    }
    count = going;
    T* free = before;
    before = now;
    now = next;
    next = free;
  }
}

template <class T>
void recall_of(const Matrix<const T>& w, const Matrix<const T>& b, bool together, Index max_sweeps, const Index* orders,
               Index sweeps, Index units, const Matrix<T>& s) {
  const Index n = w.rows;
  if (n == 0 || s.rows == 0 || max_sweeps == 0) return;
  core::Scratch scratch;
  const T* threshold = thresholds(b, n, scratch);
  const Index most = at_most(states_together<T>(n), s.rows);
  T* states = scratch.array<T>(most, n);
  const auto each = [&](const auto& run) {
    for (Index first = 0; first < s.rows; first += most) {
      const Index count = at_most(most, s.rows - first);
      const Matrix<T> part{s.data + first * s.row_stride, count, n, s.row_stride, s.col_stride};
      for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < n; ++j) states[i * n + j] = part.data[i * part.row_stride + j * part.col_stride];
      run(count);
      for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < n; ++j) part.data[i * part.row_stride + j * part.col_stride] = states[i * n + j];
    }
  };
  if (together) return each([&](Index count) { synchronous(w, threshold, max_sweeps, states, count); });
  const Asynchronous<T> one_by_one(w, max_sweeps, orders, sweeps, units);
  T* fields = scratch.array<T>(most, n);
  each([&](Index count) {
    gemm::multiply<T>({count, n, n}, false, gemm::MultiplyAdd{}, gemm::Strided<T>{states, n, 1}, rows_of(w),
                      {fields, n, 1}, Field<T>{threshold});
    const int threads = double(count) * double(n) < 1e5 ? 1 : core::thread_count();
    core::parallel_for(count, threads, [&](Index i) { one_by_one.run(fields + i * n, states + i * n); });
  });
}

template <class T>
void weights_of(const Matrix<const T>& p, bool zero_diagonal, const Matrix<T>& out) {
  const Index d = p.cols;
  gemm::multiply<T>({d, d, p.rows}, true, gemm::MultiplyAdd{}, columns_of(p), columns_of(p),
                    {out.data, out.row_stride, out.col_stride}, Times<T>{T(1.0 / double(d > 0 ? d : 1))});
  if (zero_diagonal)
    for (Index i = 0; i < d; ++i) out.data[i * (out.row_stride + out.col_stride)] = 0;
}

template <class T>
void energy_of(const Matrix<const T>& w, const Matrix<const T>& s, const Matrix<const T>& b, T* out, Index stride) {
  const Index n = w.rows, most = at_most(states_together<T>(n), s.rows);
  core::Scratch scratch;
  T* fields = scratch.array<T>(most, n);
  for (Index first = 0; first < s.rows; first += most) {
    const Index count = at_most(most, s.rows - first);
    const T* states = s.data + first * s.row_stride;
    gemm::multiply<T>({count, n, n}, false, gemm::MultiplyAdd{}, gemm::Strided<T>{states, s.row_stride, s.col_stride},
                      rows_of(w), {fields, n, 1}, gemm::Identity{});
    for (Index i = 0; i < count; ++i) {
      double total = 0;
      for (Index j = 0; j < n; ++j) {
        const double state = double(states[i * s.row_stride + j * s.col_stride]);
        total -= state * double(fields[i * n + j]) / 2;
        if (b.data) total += state * double(b.data[j * b.row_stride]);
      }
      out[(first + i) * stride] = T(total);
    }
  }
}

template <class T>
void crosstalk_of(const Matrix<const T>& p, const Matrix<T>& out) {
  const Index n = p.rows, d = p.cols, most = at_most(states_together<T>(n), n);
  core::Scratch scratch;
  T* g = scratch.array<T>(most, n);
  for (Index first = 0; first < n; first += most) {
    const Index count = at_most(most, n - first);
    const gemm::Strided<T> rows{p.data + first * p.row_stride, p.row_stride, p.col_stride};
    gemm::multiply<T>({count, n, d}, false, gemm::MultiplyAdd{}, rows, rows_of(p), {g, n, 1},
                      Times<T>{T(1.0 / double(d > 0 ? d : 1))});
    for (Index i = 0; i < count; ++i) g[i * n + first + i] = 0;
    gemm::multiply<T>({count, d, n}, false, gemm::MultiplyAdd{}, gemm::Strided<T>{g, n, 1}, columns_of(p),
                      {out.data + first * out.row_stride, out.row_stride, out.col_stride}, gemm::Identity{});
  }
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                               \
  void weights(const Matrix<const T>& p, bool zero_diagonal, const Matrix<T>& out) {                      \
    weights_of<T>(p, zero_diagonal, out);                                                                 \
  }                                                                                                       \
  void energy(const Matrix<const T>& w, const Matrix<const T>& s, const Matrix<const T>& b, T* out,       \
              std::int64_t stride) {                                                                      \
    energy_of<T>(w, s, b, out, stride);                                                                   \
  }                                                                                                       \
  void recall(const Matrix<const T>& w, const Matrix<const T>& b, bool together, std::int64_t max_sweeps, \
              const std::int64_t* orders, std::int64_t sweeps, std::int64_t units, const Matrix<T>& s) {  \
    recall_of<T>(w, b, together, max_sweeps, orders, sweeps, units, s);                                   \
  }                                                                                                       \
  void crosstalk(const Matrix<const T>& p, const Matrix<T>& out) { crosstalk_of<T>(p, out); }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::hebbian::FASTDL_LEVEL
