// What the fuzz targets of the families share. Bytes become the descriptors of a call; every array gets a buffer of
// exactly the size that its descriptor says, so that AddressSanitizer sees a byte too far; afterwards it is looked at
// what the library said and what it wrote.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "fastdl/fastdl.h"

// The function for the type T of the two that a name stands for.
#define FUZZ_BY_TYPE(T, function)           \
  [](auto... arguments) {                   \
    if constexpr (std::is_same_v<T, float>) \
      return function##_f32(arguments...);  \
    else                                    \
      return function##_f64(arguments...);  \
  }

namespace fuzz {

using Index = std::int64_t;
__extension__ using Wide = __int128;  // products that the library may not form in 64 bits

template <class T>
using Matrix = std::conditional_t<std::is_same_v<T, float>, fastdl_matrix_f32, fastdl_matrix_f64>;

// input: only read. output: written. both: read and written. spins: both, of +1 and -1.
enum class Role { input, output, both, spins };

// A product of extents, which is held to where another factor cannot overflow it.
inline Wide product(std::initializer_list<Wide> factors) {
  constexpr Wide most = Wide{1} << 63;
  const auto held = [](Wide value) { return value > most ? most : value < -most ? -most : value; };
  Wide result = 1;
  for (Wide factor : factors)
    if (factor == 0) return 0;
  for (Wide factor : factors) result = held(result * held(factor));
  return result;
}

// How calls ended, for standalone.cpp to print: a target of which all calls are refused tests little.
struct Counts {
  long succeeded = 0, refused = 0, other = 0, skipped = 0;
};
Counts& counts_of(const char* name);
void print_counts();

class Case {
 public:
  Case(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) { wild_ = below(3) == 2; }
  ~Case() {
    for (const Buffer& buffer : buffers_) std::free(buffer.data);
  }
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  // ---- decisions; without bytes left they are 0 and false ----
  std::uint8_t byte() { return size_ == 0 ? 0 : (--size_, *data_++); }
  int below(int n) { return byte() % n; }
  bool chance(int one_in) { return below(one_in) == one_in - 1; }
  // Whether this part of a call shall be other than it should be.
  bool wild(int one_in) { return wild_ && chance(one_in); }

  // The library must not accept the call.
  void refuse() { refused_ = true; }
  // Multiply-adds and the like of the call: too many and it is not made, so that cases stay quick.
  void work(Wide steps) { too_long_ |= steps > (Wide{1} << 17); }
  void work(std::initializer_list<Wide> factors) { work(product(factors)); }
  // The call is not made: it would be the caller's lie, which the library cannot see.
  void skip() { skipped_ = true; }

  Index special() {
    static constexpr Index values[] = {-1,
                                       INT64_MIN,
                                       INT64_MAX,
                                       INT64_MAX - 1,
                                       INT64_MAX / 8,
                                       Index{1} << 62,
                                       Index{1} << 61,
                                       Index{1} << 60,
                                       Index{1} << 59,
                                       3037000500,
                                       Index{1} << 40,
                                       Index{1} << 32,
                                       Index{1} << 31,
                                       INT32_MAX,
                                       -7,
                                       INT32_MIN};
    return values[below(std::size(values))];
  }
  Index extent(int most = 12) {
    if (wild(16)) return special();
    const int choice = byte();
    return choice % 32 == 31 ? 0 : 1 + choice % most;
  }
  // From `least` to `most`, or another number at times.
  Index number(int least, int most, int one_in = 16) {
    return wild(one_in) ? special() : least + below(most - least + 1);
  }
  // An enumerator; one that there is not must be refused.
  template <class Enum>
  Enum choice(int count) {
    if (!wild(24)) return static_cast<Enum>(below(count));
    static constexpr int values[] = {-1, INT32_MAX, INT32_MIN};
    const int which = below(4);
    refuse();
    return static_cast<Enum>(which == 3 ? count : values[which]);
  }
  double real(double usual) {
    if (!wild(8)) return usual;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    static constexpr double values[] = {0,    -0.0,  0.5,  1,        2,         2.5,        1.5,
                                        3,    1e300, 1e9,  infinity, -infinity, 4294967296, 1e-310,
                                        -1.0, 1e-9,  1000, 1001,     9.3e18,    -9.3e18,    0.999999};
    const int which = below(int(std::size(values)) + 1);
    return which == int(std::size(values)) ? std::numeric_limits<double>::quiet_NaN() : values[which];
  }

  // ---- memory ----
  // A descriptor that lives as long as the case.
  template <class Struct>
  Struct* keep(const Struct& value) {
    auto kept = std::make_shared<Struct>(value);
    kept_.push_back(kept);
    return kept.get();
  }

  template <class T>
  T* room(Index count, Role role) {
    const std::size_t bytes = std::size_t(count) * sizeof(T);
    T* data = static_cast<T*>(std::malloc(bytes));
    buffers_.push_back({data, bytes, role != Role::input});
    fill(data, count, role);
    return data;
  }

  // A contiguous array; `optional` means that null stands for something.
  template <class T>
  T* array(std::initializer_list<Wide> extents, Role role, bool optional = false) {
    for (Wide extent : extents)
      if (extent < 0) {
        refuse();
        return room<T>(0, role);
      }
    const Wide count = product(extents);
    if (count == 0) return chance(2) ? nullptr : room<T>(0, role);
    if (count * Wide(sizeof(T)) > INT64_MAX) {
      refuse();
      return room<T>(0, role);
    }
    if (wild(24)) {
      if (!optional) refuse();
      return nullptr;
    }
    if (count > most_elements) {
      skip();
      return nullptr;
    }
    return room<T>(Index(count), role);
  }

  // The first element of an array with strides. What lies beyond all addresses must be refused, or, if `lenient`, be
  // left alone: the entry may see first that there is nothing to do.
  template <class T>
  T* strided(const Index* extents, const Index* strides, int axes, Role role, bool lenient = false) {
    Wide low = 0, high = 0, elements = 1;
    bool empty = false;
    for (int a = 0; a < axes; ++a) {
      if (extents[a] < 0) {
        refuse();
        return room<T>(0, role);
      }
      empty |= extents[a] == 0;
      const Wide way = empty ? 0 : product({Wide(extents[a]) - 1, strides[a]});
      (way < 0 ? low : high) += way;
      elements = product({elements, extents[a]});
    }
    if (empty) return chance(2) ? nullptr : room<T>(0, role);
    if ((high - low) * Wide(sizeof(T)) > INT64_MAX) {
      if (!lenient) refuse();
      return room<T>(0, role);
    }
    if (wild(24)) {
      refuse();
      return nullptr;
    }
    if (high - low >= most_elements || elements > 16 * most_elements) {
      skip();
      return nullptr;
    }
    return room<T>(Index(high - low) + 1, role) - Index(low);
  }

  // Strides of an array of these extents, of one of several sorts.
  void choose_strides(const Index* extents, int axes, bool output, Index* strides) {
    const int sort = below(output ? 4 : 6);
    Index step = 1;
    for (int i = 0; i < axes; ++i) {
      const int a = sort == 1 ? i : axes - 1 - i;  // 1: the first axis is the innermost one
      strides[a] = sort == 3 ? -step : step;
      if (sort == 4) strides[a] = 0;
      if (sort == 5) strides[a] = below(11) - 5;
      if (wild(32)) strides[a] = special();
      Index next = 0;
      if (!__builtin_mul_overflow(step, extents[a] < 1 ? 1 : extents[a], &next) && next < INT64_MAX / 4) step = next;
      if (sort == 2) step += below(3);  // gaps
    }
  }

  template <class T>
  const Matrix<T>* matrix(Index rows, Index cols, Role role, bool optional = false) {
    if (wild(24)) {
      if (!optional) refuse();
      return nullptr;
    }
    if (wild(16)) rows = extent();
    if (wild(16)) cols = extent();
    const Index extents[] = {rows, cols};
    Index strides[2];
    choose_strides(extents, 2, role != Role::input, strides);
    T* data = strided<T>(extents, strides, 2, role);
    if (product({rows == 0 ? 1 : rows, cols == 0 ? 1 : cols, Wide(sizeof(T))}) > INT64_MAX) refuse();
    return keep(Matrix<T>{data, rows, cols, strides[0], strides[1]});
  }

  // Numbers from 0 to limit - 1, of which one may be none; where they are looked at that must be refused.
  Index* places(std::initializer_list<Wide> extents, Index limit, bool looked_at = true) {
    Index* to = array<Index>(extents, Role::input, !looked_at);
    if (!to || buffers_.back().bytes == 0) return to;
    const Index count = Index(buffers_.back().bytes / sizeof(Index));
    const Index most = limit < 1 ? 1 : limit;
    const int step = 1 + below(7);
    for (Index i = 0; i < count; ++i) to[i] = (i * step) % most;
    if (wild(8)) {
      static constexpr Index values[] = {-1, INT64_MIN, INT64_MAX};
      const int which = below(4);
      to[byte() % count] = which == 3 ? most : values[which];
      if (looked_at) refuse();
    }
    return to;
  }

  // ---- the call ----
  // Returns whether it was made and succeeded.
  template <class Function>
  bool call(const char* name, const Function& function) {
    Counts& counts = counts_of(name);
    if (skipped_ || (too_long_ && !refused_)) {
      ++counts.skipped;
      return false;
    }
    std::vector<std::vector<unsigned char>> before;
    for (const Buffer& buffer : buffers_) {
      const auto* bytes = static_cast<const unsigned char*>(buffer.data);
      before.emplace_back(bytes, bytes + buffer.bytes);
    }
    const fastdl_status status = function();
    const bool succeeded = status == FASTDL_OK;
    ++(succeeded ? counts.succeeded : status == FASTDL_INVALID_ARGUMENT ? counts.refused : counts.other);
    if (succeeded && refused_) fail(name, "an invalid call succeeded");
    if (status == FASTDL_INTERNAL) fail(name, "an internal error");
    const std::string message = fastdl_last_error();
    if (status == FASTDL_INVALID_ARGUMENT &&
        (message.empty() || message[0] != '[' || message.find("] expected ") == std::string::npos ||
         (message.size() < 511 && message.find(", got ") == std::string::npos)))
      fail(name, "a message of another form");
    // Memory may run out when some results are written.
    const bool untouched = status == FASTDL_INVALID_ARGUMENT || status == FASTDL_NOT_FINITE;
    for (std::size_t i = 0; i < before.size(); ++i)
      if ((untouched || !buffers_[i].written) && buffers_[i].bytes > 0 &&
          std::memcmp(before[i].data(), buffers_[i].data, buffers_[i].bytes) != 0)
        fail(name, untouched ? "a call that failed wrote" : "an input was written");
    return succeeded;
  }

 private:
  static constexpr Index most_elements = 1 << 14;

  struct Buffer {
    void* data;
    std::size_t bytes;
    bool written;
  };

  [[noreturn]] static void fail(const char* name, const char* what) {
    std::fprintf(stderr, "%s: %s; the last message is \"%s\"\n", name, what, fastdl_last_error());
    std::abort();
  }

  template <class T>
  void fill(T* data, Index count, Role role) {
    if constexpr (!std::is_arithmetic_v<T>) {  // descriptors, which are set one by one
      std::memset(static_cast<void*>(data), 0, std::size_t(count) * sizeof(T));
      return;
    } else {
      fill_numbers(data, count, role);
    }
  }

  template <class T>
  void fill_numbers(T* data, Index count, Role role) {
    const int sort = below(5);
    std::uint32_t state = 1 + byte();
    for (Index i = 0; i < count; ++i) {
      state = state * 1664525 + 1013904223;
      const int number = int(state >> 24);
      if constexpr (std::is_integral_v<T>) {
        data[i] = T(number % 4);
      } else {
        static constexpr T odd[] = {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity(),
                                    -std::numeric_limits<T>::infinity(), std::numeric_limits<T>::max(),
                                    std::numeric_limits<T>::lowest(),    std::numeric_limits<T>::denorm_min(),
                                    std::numeric_limits<T>::min(),       T(-0.0)};
        data[i] = T(number - 128) / 64;
        if (sort == 1) data[i] = std::abs(data[i]);
        if (sort == 2) data[i] = 0;
        if (sort == 3 && number % 8 == 0) data[i] = odd[number / 8 % 8];
        if (role == Role::spins) data[i] = number % 2 ? T(1) : T(-1);
        if (role == Role::spins && number == 77 && wild(8)) data[i] = odd[number % 8];
      }
    }
  }

  const std::uint8_t* data_;
  std::size_t size_;
  bool wild_ = false, refused_ = false, skipped_ = false, too_long_ = false;
  std::deque<Buffer> buffers_;
  std::vector<std::shared_ptr<void>> kept_;
};

void gram_case(Case& c);
void conv_case(Case& c);
void group_case(Case& c);
void hebbian_case(Case& c);
void scattering_case(Case& c);

}  // namespace fuzz
