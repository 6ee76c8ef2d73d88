// Steps of scattering paths where a grid fits into the shared memory of a block: one block does all of a step, from
// reading a spectrum to writing the averages and the next spectrum. A grid of 48 x 48 takes 19 KB in float32.
//
// Neighbouring blocks take the filters of one input, whose spectrum stays in L1 and L2. Threads take frequencies in
// their order in memory, so that spectra and coefficients are read in whole lines.
//
// Estimated limit: shared memory in the transforms, about 70% of the time (7 stages of 48 x 48 numbers, read and
// written); then the reads of spectra and coefficients from L2, 12 bytes a term in float32.
#pragma once

#include "scattering_parts.cuh"

namespace fastdl::scattering::cuda {

// A grid in shared memory, with the roots of its axes, and room for averages of its columns.
template <class T>
struct Room {
  Complex<T>* data;
  T* averages;
  int rows, columns, pitch, size, roots_first, roots_second;

  __device__ Room(const Grid<T>& grid, Complex<T>* memory)
      : data(memory), rows(grid.first.n), columns(grid.second.n), pitch(grid.second.n | 1), size(int(grid.size)) {
    roots_first = rows * pitch;
    roots_second = roots_first + rows;
    averages = reinterpret_cast<T*>(data + roots_second + columns);
    for (int i = int(threadIdx.x); i < rows; i += int(blockDim.x)) data[roots_first + i] = grid.first.roots[i];
    for (int i = int(threadIdx.x); i < columns; i += int(blockDim.x)) data[roots_second + i] = grid.second.roots[i];
  }

  // The place of sample i.
  __device__ __forceinline__ int sample(const Divider& by_column, int i) const {
    const int row = by_column.quotient(i);
    return row * pitch + by_column.remainder(i, row);
  }
};

// Numbers of T that a Room takes.
template <class T>
Index room_of(const Grid<T>& grid, const Averages<T>& down) {
  const Index rows = grid.first.n, columns = grid.second.n;
  return 2 * (rows * (columns | 1) + rows + columns) + Index(down.count) * grid.nx();
}

// Where a frequency stands in a Room.
template <class T>
class Frequencies {
 public:
  __device__ explicit Frequencies(const Grid<T>& grid)
      : grid_(grid), by_(grid.twist ? grid.first.n : grid.second.n), pitch_(grid.second.n | 1) {}
  // f(frequency as it is numbered in memory, its row and column in the spectrum, place)
  template <class Function>
  __device__ __forceinline__ void each(const Function& f) const {
    for (int k = int(threadIdx.x); k < int(grid_.size); k += int(blockDim.x)) {
      const int quotient = by_.quotient(k), remainder = by_.remainder(k, quotient);
      if (grid_.twist)
        f(k, k, 0, grid_.first.place[remainder] * pitch_ + grid_.second.place[quotient]);
      else
        f(k, quotient, remainder, grid_.first.place[quotient] * pitch_ + grid_.second.place[remainder]);
    }
  }

 private:
  const Grid<T>& grid_;
  Divider by_;
  int pitch_;
};

// Between the transforms of columns and of rows, for a signal. Rows stand where the transform of columns has them.
template <bool Inverse, class T>
__device__ __forceinline__ void twist(const Grid<T>& grid, const Room<T>& room) {
  if (!grid.twist) return;
  const Divider by_column(room.columns);
  for (int i = int(threadIdx.x); i < room.size; i += int(blockDim.x)) {
    const int k = by_column.quotient(i), column = by_column.remainder(i, k);
    Complex<T>& value = room.data[grid.first.place[k] * room.pitch + column];
    value = value * fft::cuda::root_of<Inverse>(grid.twist, k * column);
  }
  __syncthreads();
}

// A barrier is before and after.
template <class T>
__device__ __forceinline__ void to_spectrum(const Grid<T>& grid, const Room<T>& room) {
  fft::cuda::transform<false>(grid.first, room.roots_first, {0, room.columns, 1, room.pitch});
  twist<false>(grid, room);
  fft::cuda::transform<false>(grid.second, room.roots_second, {0, room.rows, room.pitch, 1});
}
template <class T>
__device__ __forceinline__ void to_samples(const Grid<T>& grid, const Room<T>& room) {
  fft::cuda::transform<true>(grid.second, room.roots_second, {0, room.rows, room.pitch, 1});
  twist<true>(grid, room);
  fft::cuda::transform<true>(grid.first, room.roots_first, {0, room.columns, 1, room.pitch});
}

// The averages of the real parts: down the columns, then across. A signal has one column.
template <class T>
__device__ __forceinline__ void average(const Grid<T>& grid, const Room<T>& room, const Channels<T>& channels, T* out,
                                        int exponent) {
  const Averages<T>&down = channels.down, &across = channels.across;
  const int nx = columns_of(grid);
  const Divider by_column(room.columns), by_nx(nx), by_count(across.count);
  sum_all<T>(
      down.count * nx, down.length,
      [&](int output, int i, T sum) {
        const int p = by_nx.quotient(output), x = by_nx.remainder(output, p), y = sample_of(down, p, i);
        const T value = grid.twist ? room.data[room.sample(by_column, y)].re : room.data[y * room.pitch + x].re;
        return multiply_add(value, down.taps[i], sum);
      },
      [&](int output, T sum) { room.averages[output] = sum; });
  __syncthreads();
  sum_all<T>(
      down.count * across.count, across.length,
      [&](int output, int i, T sum) {
        const int p = by_count.quotient(output), q = by_count.remainder(output, p);
        return multiply_add(room.averages[p * nx + sample_of(across, q, i)], across.taps[i], sum);
      },
      [&](int output, T sum) { out[output] = exponent ? std::ldexp(sum, exponent) : sum; });
}

// room.averages = gradients of averages, spread across; a barrier must follow.
template <class T>
__device__ __forceinline__ void spread_across(const Grid<T>& grid, const Room<T>& room, const Channels<T>& channels,
                                              const T* from) {
  const int nx = columns_of(grid);
  const Divider by_nx(nx);
  for (int i = int(threadIdx.x); i < channels.down.count * nx; i += int(blockDim.x)) {
    const int p = by_nx.quotient(i);
    room.averages[i] = spread(channels.across, from + p * channels.across.count, 1, by_nx.remainder(i, p));
  }
}

// What goes back to sample i after that.
template <class T>
__device__ __forceinline__ T spread_down(const Grid<T>& grid, const Room<T>& room, const Channels<T>& channels,
                                         const Divider& by_column, int i) {
  if (grid.twist) return spread(channels.down, room.averages, 1, i);
  const int y = by_column.quotient(i), x = by_column.remainder(i, y);
  return spread(channels.down, room.averages + x, room.columns, y);
}

template <class T>
__device__ __forceinline__ void write_spectrum(const Grid<T>& grid, const Room<T>& room, Complex<T>* to) {
  Frequencies<T>(grid).each([&](int k, int, int, int place) { to[k] = room.data[place]; });
}

// ---- kernels: a block a task ----

// Blocks that a multiprocessor is to have room for: leaves the registers that the stages of radix 8 need.
template <class T>
constexpr int least_blocks = sizeof(T) == 4 ? 3 : 2;

template <class T>
struct Padding {
  const T* images;
  const int *place_y, *place_x, *exponent;
  int height, width;
};

// The spectrum of a padded image, and its averages where they are wanted.
template <class T>
__global__ void __launch_bounds__(most_threads, least_blocks<T>)
    image_kernel(Grid<T> grid, Padding<T> padding, Channels<T> channels, Complex<T>* spectra) {
  FASTDL_DYNAMIC_SHARED(Complex<T>, memory);
  const Room<T> room(grid, memory);
  const Index image = blockIdx.x;
  const int nx = columns_of(grid), exponent = padding.exponent[image];
  const Divider by_column(room.columns), by_nx(nx);
  const T* const from = padding.images + image * padding.height * padding.width;
  for (int i = int(threadIdx.x); i < room.size; i += int(blockDim.x)) {
    const int y = by_nx.quotient(i), x = by_nx.remainder(i, y);
    const T value = from[Index(padding.place_y[y]) * padding.width + padding.place_x[x]];
    room.data[room.sample(by_column, i)] = {exponent ? std::ldexp(value, -exponent) : value, T(0)};
  }
  __syncthreads();
  if (channels.values) {
    average(grid, room, channels, channels.values + image * channels.channels * channels.size, exponent);
    __syncthreads();
  }
  to_spectrum(grid, room);
  write_spectrum(grid, room, spectra + image * grid.size);
}

// A step of a path: the convolution with a filter, the averages of its modulus, and the spectrum of that; each where it
// is wanted. A task is an input and a filter.
template <class T>
struct Step {
  Grid<T> grid;
  Filters<T> filters;
  const Complex<T>* spectra;  // of the inputs
  Channels<T> channels;       // nothing where values is null
  Complex<T>* waves;          // the convolutions
  Complex<T>* next;           // the spectra of the moduli
};

template <class T>
__device__ __forceinline__ void convolve(const Grid<T>& grid, const Room<T>& room, const Filters<T>& filters,
                                         const Complex<T>* spectra, Index task) {
  const Window window = filters.window[task % filters.count];
  const Complex<T>* const from = spectra + task / filters.count * (Index(filters.rows) * filters.columns);
  Frequencies<T>(grid).each(
      [&](int, int y, int x, int place) { room.data[place] = folded(filters, window, from, y, x); });
  __syncthreads();
  to_samples(grid, room);
}

template <class T>
__global__ void __launch_bounds__(most_threads, least_blocks<T>) step_kernel(Step<T> step) {
  FASTDL_DYNAMIC_SHARED(Complex<T>, memory);
  const Grid<T>& grid = step.grid;
  const Room<T> room(grid, memory);
  const Index task = blockIdx.x;
  convolve(grid, room, step.filters, step.spectra, task);
  const Divider by_column(room.columns);
  for (int i = int(threadIdx.x); i < room.size; i += int(blockDim.x)) {
    Complex<T>& z = room.data[room.sample(by_column, i)];
    if (step.waves) step.waves[task * grid.size + i] = z;
    z = {modulus_of(z), T(0)};
  }
  __syncthreads();
  if (step.channels.values) {
    Index image = 0;
    T* const out = channel_of(step.channels, task, step.filters.count, &image);
    average(grid, room, step.channels, out, step.channels.exponent[image]);
    __syncthreads();
  }
  if (step.next) {
    to_spectrum(grid, room);
    write_spectrum(grid, room, step.next + task * grid.size);
  }
}

// The end of a path backwards: the convolution again, its direction times the gradient of its averages, and the
// spectrum of that, which goes where the filter's window says, among `stride` numbers of an input.
template <class T>
struct Return {
  Grid<T> grid;
  Filters<T> filters;
  const Complex<T>* spectra;
  Channels<T> channels;
  Complex<T>* gradients;
  Index stride;
};

template <class T>
__device__ __forceinline__ Complex<T>* gradient_of(const Return<T>& back, Index task) {
  const Index input = task / back.filters.count;
  return back.gradients + input * back.stride + back.filters.window[task % back.filters.count].spectrum;
}

template <class T>
__global__ void __launch_bounds__(most_threads, least_blocks<T>) return_kernel(Return<T> back) {
  FASTDL_DYNAMIC_SHARED(Complex<T>, memory);
  const Grid<T>& grid = back.grid;
  const Room<T> room(grid, memory);
  const Index task = blockIdx.x;
  Index image = 0;
  spread_across(grid, room, back.channels, channel_of(back.channels, task, back.filters.count, &image));
  convolve(grid, room, back.filters, back.spectra, task);
  const Divider by_column(room.columns);
  for (int i = int(threadIdx.x); i < room.size; i += int(blockDim.x)) {
    Complex<T>& z = room.data[room.sample(by_column, i)];
    z = directed(spread_down(grid, room, back.channels, by_column, i), z);
  }
  __syncthreads();
  to_spectrum(grid, room);
  write_spectrum(grid, room, gradient_of(back, task));
}

// The same for a wavelet of the first order that others follow: what comes back from these, by their spectra, is added
// to the gradient of its own averages. `waves` are its convolutions.
template <class T>
struct Inner {
  Filters<T> followers;
  const Complex<T>* gradients;
  Index stride;
  const Complex<T>* waves;
};

template <class T>
__global__ void __launch_bounds__(most_threads, least_blocks<T>) return_inner_kernel(Return<T> back, Inner<T> inner) {
  FASTDL_DYNAMIC_SHARED(Complex<T>, memory);
  const Grid<T>& grid = back.grid;
  const Room<T> room(grid, memory);
  const Index task = blockIdx.x;
  Index image = 0;
  spread_across(grid, room, back.channels, channel_of(back.channels, task, back.filters.count, &image));
  const Complex<T>* const from = inner.gradients + task * inner.stride;
  Frequencies<T>(grid).each(
      [&](int, int y, int x, int place) { room.data[place] = unfolded(inner.followers, from, y, x); });
  __syncthreads();
  to_samples(grid, room);
  const Divider by_column(room.columns);
  for (int i = int(threadIdx.x); i < room.size; i += int(blockDim.x)) {
    Complex<T>& value = room.data[room.sample(by_column, i)];
    value =
        directed(value.re + spread_down(grid, room, back.channels, by_column, i), inner.waves[task * grid.size + i]);
  }
  __syncthreads();
  to_spectrum(grid, room);
  write_spectrum(grid, room, gradient_of(back, task));
}

// The gradient for padded images from the spectra of those of all wavelets of the first order, and from that of their
// own averages, channel 0.
template <class T>
__global__ void __launch_bounds__(most_threads, least_blocks<T>)
    return_image_kernel(Grid<T> grid, Filters<T> filters, const Complex<T>* gradients, Index stride,
                        Channels<T> channels, T* padded) {
  FASTDL_DYNAMIC_SHARED(Complex<T>, memory);
  const Room<T> room(grid, memory);
  const Index image = blockIdx.x;
  spread_across(grid, room, channels, channels.values + image * channels.channels * channels.size);
  const Complex<T>* const from = gradients + image * stride;
  Frequencies<T>(grid).each([&](int, int y, int x, int place) { room.data[place] = unfolded(filters, from, y, x); });
  __syncthreads();
  to_samples(grid, room);
  const Divider by_column(room.columns);
  for (int i = int(threadIdx.x); i < room.size; i += int(blockDim.x))
    padded[image * grid.size + i] =
        room.data[room.sample(by_column, i)].re + spread_down(grid, room, channels, by_column, i);
}

}  // namespace fastdl::scattering::cuda
