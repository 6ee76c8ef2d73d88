#include "fft/plan.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "fft/codelet_lengths.hpp"

#if !defined(_WIN32)
#include <pthread.h>
#endif

namespace fastdl::fft {
namespace {

using Wide = long double;
using Root = std::complex<Wide>;

// exp(-2 pi i e / n), from an angle of at most pi/4.
Root root(Index e, Index n) {  // 0 <= e < n < 2^60
  constexpr Wide pi = 3.14159265358979323846264338327950288L;
  const auto eighth = static_cast<int>(8 * e / n);
  const Index from = eighth % 2 == 0 ? 0 : 1;
  // In units of 1/(8n) of a turn: the distance from the nearer multiple of a quarter.
  const Index offset = 8 * e - (eighth + from) * n;
  const Wide angle = 2 * pi * static_cast<Wide>(offset) / (8 * static_cast<Wide>(n));
  const Wide c = std::cos(angle), s = std::sin(angle);
  switch ((eighth + from) / 2 % 4) {
    case 0:
      return {c, -s};
    case 1:
      return {-s, -c};
    case 2:
      return {-c, s};
    default:
      return {s, c};
  }
}

// The radices of n. Fours, and one eight where the power of two is odd: eights alone are fewer passes, but with 16
// registers the time of 256 goes from 1.55 to 1.9 us, of 4096 from 45 to 54.
std::vector<Index> radices(Index n) {
  std::vector<Index> found;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  if (twos % 2 == 1 && twos > 1) {
    found.push_back(8);
    twos -= 3;
  }
  for (; twos >= 2; twos -= 2) found.push_back(4);
  if (twos == 1) found.push_back(2);
  for (Index p = 3; p * p <= n; p += 2)
    for (; n % p == 0; n /= p) found.push_back(p);
  if (n > 1) found.push_back(n);
  return found;
}

// The time of a pass in ns an element, measured with vectors of 32 bytes on Zen 3, from L1.
double cost_of(Index radix) {
  switch (radix) {
    case 2:
      return 1.1;
    case 3:
      return 1.5;
    case 4:
      return 1.5;
    case 5:
      return 1.9;
    case 8:
      return 2.2;
    default:
      return 1 + 0.4 * static_cast<double>(radix);
  }
}

// Of a transform of 2^twos 3^threes 5^fives.
double cost_of_powers(int twos, int threes, int fives) {
  const double in_and_out = 0.5, odd = threes * cost_of(3) + fives * cost_of(5);
  if (twos == 1) return in_and_out + odd + cost_of(2);
  if (twos % 2 == 1) return in_and_out + odd + cost_of(8) + (twos - 3) / 2 * cost_of(4);
  return in_and_out + odd + twos / 2 * cost_of(4);
}

template <class T>
void put(std::vector<T>& to, Root value) {
  to.push_back(static_cast<T>(value.real()));
  to.push_back(static_cast<T>(value.imag()));
}

Index bluestein_size(Index n) { return good_size(2 * n - 1); }

// Of a convolution of the length, with the way in and out.
double cost_of_convolution(Index n) { return 2 * cost(n) + 2 * static_cast<double>(n); }

// Whether the convolution of a prime goes by Rader's algorithm, in lanes: while they stay in L2, and where its length
// has no large prime factor, by which tables would take long to make.
bool goes_by_powers(Index prime) {
  return prime <= longest_in_lanes && radices(prime - 1).back() <= largest_radix &&
         cost_of_convolution(prime - 1) < cost_of_convolution(bluestein_size(prime));
}

// Whether a length goes by Bluestein's algorithm, all of it: a large prime, or one that is too large for a pass.
bool goes_by_chirp(Index n, const std::vector<Index>& factors) {
  return !factors.empty() &&
         (factors.back() > longest_in_lanes || (factors.size() == 1 && n > largest_radix && !goes_by_powers(n)));
}

// The powers of the least generator of the numbers modulo a prime.
std::vector<std::int32_t> powers_of_generator(Index prime) {
  std::vector<std::int32_t> powers;
  for (Index generator = 2; std::ssize(powers) < prime; ++generator) {
    powers.assign(1, 1);
    do powers.push_back(static_cast<std::int32_t>(powers.back() * generator % prime));
    while (powers.back() != 1);
  }
  return powers;
}

// The transform of x in long double, for tables only; roots are those of an order that is `step` times x's length.
std::vector<Root> transform(const std::vector<Root>& x, const std::vector<Root>& roots, std::size_t step = 1) {
  const std::size_t n = x.size();
  if (n == 1) return x;
  std::size_t p = 2;
  while (n % p != 0) ++p;
  std::vector<Root> result(n);
  for (std::size_t k = 0; k < p; ++k) {
    std::vector<Root> part;
    for (std::size_t i = k; i < n; i += p) part.push_back(x[i]);
    part = transform(part, roots, step * p);
    for (std::size_t j = 0; j < n; ++j) result[j] += part[j % part.size()] * roots[j * k % n * step];
  }
  return result;
}

template <class T>
struct Tables {
  static constexpr int keep_up_to = 18;  // a few MB of tables
  Plan<T> value{};
  std::vector<T> numbers[40], half_turns;
  std::vector<std::int32_t> powers;
  std::vector<std::unique_ptr<SharedPlan<T>>> others;

  explicit Tables(Index n) {
    value.length = n;
    for (Index k = 0; 2 * k <= n; ++k) put(half_turns, root(k, 2 * n));
    value.half_turns = half_turns.data();
    const std::vector<Index> found = radices(n);
    if (goes_by_chirp(n, found)) {
      bluestein(n);
      return;
    }
    if (found.size() == 1 && n > largest_radix) {
      rader(n);
      return;
    }
    Index count = n, stride = 1;
    value.scratch = 2 * n;
    for (Index radix : found) {
      count /= radix;
      std::vector<T>& to = numbers[value.passes];
      for (Index p = 0; p < count && count > 1; ++p)
        for (Index j = 1; j < radix; ++j) put(to, root(j * p, count * radix));
      const std::size_t twiddles = to.size();
      const Plan<T>* prime = radix > largest_radix ? other(radix) : nullptr;
      for (Index j = 0; j < radix && !prime; ++j) put(to, root(j, radix));
      if (prime) value.scratch = std::max(value.scratch, 2 * n + radix + prime->scratch);
      value.pass[value.passes++] = {radix, count, stride, to.data(), to.data() + twiddles, prime};
      stride *= radix;
    }
  }

 private:
  const Plan<T>* other(Index length) {
    others.push_back(std::make_unique<SharedPlan<T>>(length));
    return &others.back()->plan();
  }

  // The convolution with numbers that go round a circle.
  void convolution(const std::vector<Root>& with) {
    const auto m = static_cast<Index>(with.size());
    std::vector<Root> roots;
    for (Index e = 0; e < m; ++e) roots.push_back(root(e, m));
    for (Root number : transform(with, roots)) put(numbers[1], number / static_cast<Wide>(m));
    value.inner = other(m);
    value.response = numbers[1].data();
    value.scratch = m + value.inner->scratch;
  }

  void rader(Index n) {
    powers = powers_of_generator(n);
    value.power = powers.data();
    std::vector<Root> with;
    for (Index j = 0; j < n - 1; ++j) with.push_back(root(powers[static_cast<std::size_t>(n - 1 - j)], n));
    convolution(with);
  }

  void bluestein(Index n) {
    const Index m = bluestein_size(n);
    std::vector<Root> with(static_cast<std::size_t>(m));
    Index square = 0;  // j^2 modulo 2n, as the chirp repeats
    for (Index j = 0; j < n; square = (square + 2 * j + 1) % (2 * n), ++j) {
      const Root chirp = root(square, 2 * n);
      put(numbers[0], chirp);
      with[static_cast<std::size_t>(j)] = std::conj(chirp);
      if (j > 0) with[static_cast<std::size_t>(m - j)] = std::conj(chirp);
    }
    value.chirp = numbers[0].data();
    convolution(with);
  }
};

bool has_codelet(Index n) {
  switch (n) {
    case 8:
#define FASTDL_CODELET(A, B) case A* B:
      FASTDL_FFT_CODELETS(FASTDL_CODELET)
#undef FASTDL_CODELET
      return true;
    default:
      return false;
  }
}

// The rows and columns of a grid with the least cost, of whole blocks in both steps; 1 row if there are none.
void grid_of(Index n, Index& rows, Index& columns) {
  rows = 1;
  columns = n;
  double least = HUGE_VAL;
  const auto blocks = [](Index lanes) { return static_cast<double>((lanes + 15) / 16); };
  const auto price_of = [](Index length) { return cost(length) * (has_codelet(length) ? 0.5 : 1); };
  const auto consider = [&](Index r) {
    const double price = price_of(r) * blocks(n / r) + price_of(n / r) * blocks(r);
    if (price < least) {
      least = price;
      rows = r;
      columns = n / r;
    }
  };
  for (Index r = 8; r * r <= n; ++r)
    if (n % r == 0 && n / r >= 8) consider(r), consider(n / r);
}

template <class T>
struct GridTables {
  static constexpr int keep_up_to = 18;
  Grid<T> value{};
  std::vector<T> twiddles;

  explicit GridTables(Index n) {
    constexpr Index block = Grid<T>::block;
    grid_of(n, value.rows, value.columns);
    if (n > Grid<T>::largest_table) return;
    const Index blocks = (value.rows + block - 1) / block;
    twiddles.resize(static_cast<std::size_t>(2 * block * blocks * value.columns));
    for (Index r = 0; r < value.rows; ++r)
      for (Index c = 0; c < value.columns; ++c) {
        const Root factor = root(r * c % n, n);
        T* at = twiddles.data() + 2 * block * (r / block * value.columns + c) + r % block;
        at[0] = static_cast<T>(factor.real());
        at[block] = static_cast<T>(factor.imag());
      }
    value.twiddles = twiddles.data();
  }
};

struct TurnTables {
  static constexpr int keep_up_to = 34;  // the same: there are about twice the root of the order
  Turns value{};
  std::vector<double> coarse, fine;

  explicit TurnTables(Index order) {
    int shift = 0;
    while ((Index{1} << 2 * shift) < order) ++shift;
    for (Index e = 0; e < order; e += Index{1} << shift) put(coarse, root(e, order));
    for (Index e = 0; e < std::min(order, Index{1} << shift); ++e) put(fine, root(e, order));
    value = {order, shift, coarse.data(), fine.data()};
  }
};

// The tables lately used, by size, but for very large ones. One in use is never dropped, so pointers into it stay
// valid.
template <class Built>
class Cache {
 public:
  auto take(Index size) {
    {
      const std::lock_guard lock(mutex_);
      if (Entry* entry = find(size)) return hold(*entry);
    }
    auto built = std::make_unique<Built>(size);  // not under the lock: it may take others, and long
    const std::lock_guard lock(mutex_);
    if (Entry* entry = find(size)) return hold(*entry);
    entries_.push_front({size, 0, std::move(built)});
    return hold(entries_.front());
  }

  template <class Value>
  void give_back(const Value* value) {
    std::unique_ptr<Built> dropped[2];  // destroyed after the lock, as their plans are given back in turn
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(entries_.begin(), entries_.end(), [&](Entry& e) { return &e.built->value == value; });
    if (at == entries_.end()) return;  // of before a fork: the child began with an empty cache
    if (--at->users == 0 && at->size > largest) drop(at, dropped[0]);
    if (entries_.size() <= most) return;
    // The one of longest ago that nobody holds: a plan's inner plans lie behind it.
    const auto last = std::find_if(entries_.rbegin(), entries_.rend(), [](Entry& e) { return e.users == 0; });
    if (last != entries_.rend()) drop(std::prev(last.base()), dropped[1]);
  }

 private:
  static constexpr std::size_t most = 64;
  static constexpr Index largest = Index{1} << Built::keep_up_to;

  struct Entry {
    Index size;
    int users;
    std::unique_ptr<Built> built;
  };

  void drop(typename std::list<Entry>::iterator entry, std::unique_ptr<Built>& to) {
    to = std::move(entry->built);
    entries_.erase(entry);
  }

  Entry* find(Index size) {
    const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.size == size; });
    if (at == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, at);
    return &entries_.front();
  }

  static auto hold(Entry& entry) {
    ++entry.users;
    return &entry.built->value;
  }

  std::mutex mutex_;
  std::list<Entry> entries_;
};

// Never destroyed: a thread may still run while the process exits. A forked child starts over, since the mutex may have
// been held by a thread that it does not have.
template <class Built>
Cache<Built>& cache() {
  static auto* one = new Cache<Built>;
#if !defined(_WIN32)
  static const int once = pthread_atfork(nullptr, nullptr, [] { one = new Cache<Built>; });
  (void)once;
#endif
  return *one;
}

}  // namespace

template <class T>
SharedPlan<T>::SharedPlan(Index length) : plan_(cache<Tables<T>>().take(length)) {}
template <class T>
SharedPlan<T>::~SharedPlan() {
  cache<Tables<T>>().give_back(plan_);
}
template class SharedPlan<float>;
template class SharedPlan<double>;

template <class T>
SharedGrid<T>::SharedGrid(Index length) : grid_(cache<GridTables<T>>().take(length)) {}
template <class T>
SharedGrid<T>::~SharedGrid() {
  cache<GridTables<T>>().give_back(grid_);
}
template class SharedGrid<float>;
template class SharedGrid<double>;

bool goes_as_grid(Index length) {
  // From L2 a row of 256 complex64 takes 0.26 us on Zen 4 and 0.23 as a lane of 16; one of 384 takes 0.45 and 0.56. A
  // single one is then 16 times as fast.
  constexpr Index shortest = 384;
  Index rows, columns;
  if (length < shortest) return false;
  grid_of(length, rows, columns);
  return rows > 1;
}

SharedTurns::SharedTurns(Index order) : turns_(cache<TurnTables>().take(order)) {}
SharedTurns::~SharedTurns() { cache<TurnTables>().give_back(turns_); }

double cost(Index length) {
  int of[6] = {};  // how often 2, 3 and 5 divide the length
  Index rest = length;
  for (int p : {2, 3, 5})
    for (; rest % p == 0; rest /= p) ++of[p];
  double sum = cost_of_powers(of[2], of[3], of[5]);
  const std::vector<Index> others = radices(rest);
  if (rest > 1 && (others.back() > longest_in_lanes || (rest == length && goes_by_chirp(length, others))))
    return cost_of_convolution(bluestein_size(length));
  for (Index prime : others) {
    if (prime <= largest_radix)
      sum += cost_of(prime);
    else
      sum += cost_of_convolution(goes_by_powers(prime) ? prime - 1 : bluestein_size(prime)) / double(prime);
  }
  return static_cast<double>(length) * sum;
}

Index good_size(Index n) {
  Index best = 1;
  double least = HUGE_VAL;
  int fives = 0;
  for (Index power = 1; power < 2 * n; power *= 5, ++fives) {
    int threes = 0;
    for (Index odd = power; odd < 2 * n; odd *= 3, ++threes) {
      Index size = odd;
      int twos = 0;
      for (; size < n; size *= 2) ++twos;
      const double price = static_cast<double>(size) * cost_of_powers(twos, threes, fives);
      if (price < least || (price == least && size < best)) {
        best = size;
        least = price;
      }
    }
  }
  return best;
}

void split(Index n, Index& rows, Index& columns) {
  rows = 1;
  for (Index d = 2; d * d <= n; ++d)
    if (n % d == 0) rows = d;
  columns = n / rows;
}

void good_split(Index n, Index& rows, Index& columns) {
  double least = HUGE_VAL;
  for (Index unit : {16, 48, 80, 144})
    for (Index c = unit; c == unit || c * c <= 8 * n; c *= 2) {
      if (8 * c * c < n) continue;
      const Index r = good_size((n + c - 1) / c);
      // Both steps work best in cache, on lengths alike.
      const double uneven = static_cast<double>(std::max(r, c)) / 4096;
      const double price = (cost(r) * static_cast<double>(c) + cost(c) * static_cast<double>(r)) * (1 + uneven);
      if (price < least) {
        least = price;
        rows = r;
        columns = c;
      }
    }
}

}  // namespace fastdl::fft
