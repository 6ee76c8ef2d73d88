// Hopfield networks, compiled once per instruction-set level: storage, energy and crosstalk are products of the engine;
// recall takes the fields of all states from fields.hpp, in every sweep if units are set together. If one after the
// other, it keeps them: a unit that turns over adds a column of the weights to the fields of its state. Few do.
#include "gemm/engine.hpp"
#include "hebbian/fields.hpp"
#include "hebbian/orders.hpp"

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
  Asynchronous(const Matrix<const T>& w, Index max_sweeps, const Orders& orders)
      : n_(w.rows), max_sweeps_(max_sweeps), orders_(orders), in_order_(orders.natural(w.rows)) {
    columns_ = w.data;
    if (w.row_stride != 1 || w.col_stride != n_) {
      T* turned = scratch_.array<T>(n_, n_);
      turn(w, turned);
      columns_ = turned;
    }
  }

  void run(T* field, T* state) const {
    orders_.run(max_sweeps_, [&](const Index* order) {
      bool turned = false;
      if (in_order_) {
        Index i = 0;
        for (; i + step<T> <= n_; i += step<T>)
          if (simd::any((simd::load(field + i) >= Vec<T>{}) != (simd::load(state + i) >= Vec<T>{})))
            for (Index j = i; j < i + step<T>; ++j) turned |= ask(j, field, state);
        for (; i < n_; ++i) turned |= ask(i, field, state);
      } else {
        for (Index i = 0; i < orders_.asked; ++i) turned |= ask(order[i], field, state);
      }
      return turned;
    });
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
  Orders orders_;
  bool in_order_;
  core::Scratch scratch_;
  const T* columns_;
};

inline bool equal(const Code* a, const Code* b, Index count) { return std::memcmp(a, b, std::size_t(count)) == 0; }

template <class T>
void encode_states(const Matrix<T>& s, Code* to) {
  const Index length = Coding<T>::length(s.cols);
  const int threads = double(s.rows) * double(s.cols) < 1e5 ? 1 : core::thread_count();
  core::parallel_for(divide_up(s.rows, 16), threads, [&](Index part) {
    for (Index i = part * 16; i < at_most(s.rows, part * 16 + 16); ++i)
      Coding<T>::encode_row(s.data + i * s.row_stride, s.col_stride, s.cols, to + i * length);
  });
}

// All units at once, again and again. States that stay are left; those that come back to where they were two sweeps
// ago go on so, and end where an even or odd number of further sweeps leads to. States are codes all the while.
template <class T>
void synchronous(const Fields<T>& fields, const T* threshold, Index max_sweeps, const Matrix<T>& s) {
  using Of = Coding<T>;
  const Index length = Of::length(s.cols);
  Index count = s.rows;
  core::Scratch scratch;
  Code* now = scratch.array<Code>(count, length);
  Code* next = scratch.array<Code>(count, length);
  Code* before = scratch.array<Code>(count, length);
  Index* which = scratch.array<Index>(count);
  encode_states(s, now);
  for (Index i = 0; i < count; ++i) which[i] = i;
  for (Index sweep = 1; sweep <= max_sweeps && count > 0; ++sweep) {
    fields.compute(now, count, [&](Index i, Index first, const auto& field) {
      Of::encode([&](int b) { return field[b] - simd::load(threshold + first + b * step<T>) >= Vec<T>{}; },
                 next + i * length + first / Of::bits);
    });
    Index going = 0;
    for (Index i = 0; i < count; ++i) {
      Code *of_now = now + i * length, *of_next = next + i * length, *of_before = before + i * length;
      const bool stays = equal(of_now, of_next, length), returns = sweep > 1 && equal(of_before, of_next, length);
      const bool even = (max_sweeps - sweep) % 2 == 0;
      if (stays || returns || sweep == max_sweeps) {
        Of::decode_row(stays || even ? of_next : of_now, s.cols, s.data + which[i] * s.row_stride, s.col_stride);
        continue;
      }
      if (going < i) {
        std::memcpy(now + going * length, of_now, std::size_t(length));
        std::memcpy(next + going * length, of_next, std::size_t(length));
      }
      which[going++] = which[i];
    }
    count = going;
    Code* free = before;
    before = now;
    now = next;
    next = free;
  }
}

// The fields of all states at once, and then a state by itself.
template <class T>
void asynchronous(const Fields<T>& fields, const T* threshold, const Asynchronous<T>& one_by_one, const Matrix<T>& s) {
  const Index n = s.cols, stride = round_up(n, fields.strip);
  core::Scratch scratch;
  Code* codes = scratch.array<Code>(s.rows, Coding<T>::length(n));
  T* all = scratch.array<T>(s.rows, stride);
  encode_states(s, codes);
  fields.compute(codes, s.rows, [&](Index i, Index first, const auto& field) {
#pragma GCC unroll 4
    for (int v = 0; v < fields.vectors; ++v) {
      const Index at = first + v * step<T>;
      simd::store(all + i * stride + at, field[v] - simd::load(threshold + at));
    }
  });
  const int threads = double(s.rows) * double(n) < 1e5 ? 1 : core::thread_count();
  core::parallel_for(s.rows, threads, [&](Index i) {
    T* state = s.data + i * s.row_stride;
    if (s.col_stride == 1) return one_by_one.run(all + i * stride, state);
    core::Scratch own;
    T* packed = own.array<T>(n);
    for (Index j = 0; j < n; ++j) packed[j] = state[j * s.col_stride];
    one_by_one.run(all + i * stride, packed);
    for (Index j = 0; j < n; ++j) state[j * s.col_stride] = packed[j];
  });
}

template <class T>
void recall_of(const Matrix<const T>& w, const Matrix<const T>& b, bool together, Index max_sweeps, const Index* orders,
               Index sweeps, Index units, const Matrix<T>& s) {
  const Index n = w.rows;
  if (n == 0 || s.rows == 0 || max_sweeps == 0) return;
  core::Scratch scratch;
  // Beyond the last unit: so high that none is ever +1 there, and codes of equal states are equal.
  T* threshold = scratch.array<T>(round_up(n, Fields<T>::strip));
  for (Index i = 0; i < round_up(n, Fields<T>::strip); ++i)
    threshold[i] = i >= n ? T(__builtin_inf()) : b.data ? b.data[i * b.row_stride] : T(0);
  const Fields<T> fields(w);
  const Index most = at_most(states_together<T>(n), s.rows);
  const auto each = [&](const auto& run) {
    for (Index first = 0; first < s.rows; first += most)
      run(Matrix<T>{s.data + first * s.row_stride, at_most(most, s.rows - first), n, s.row_stride, s.col_stride});
  };
  if (together) return each([&](const Matrix<T>& part) { synchronous(fields, threshold, max_sweeps, part); });
  const Asynchronous<T> one_by_one(w, max_sweeps, {orders, sweeps, units, n});
  each([&](const Matrix<T>& part) { asynchronous(fields, threshold, one_by_one, part); });
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
