// Transforms along one axis of arrays in global memory: a block takes some lines of a task to shared memory, transforms
// them, and writes them. What is read and written is said by two functors, so that filters, moduli and twists cost no
// pass of their own:
//
//   load.enter(task); value = load(line, element)
//   store.enter(task); store(line, element, value)
//
// each in the order of its member lines_first: whether neighbouring lines lie side by side in memory, or neighbouring
// elements.
//
// Estimated limit: memory, one read and one write of a number a pass; lines of 512 are taken 8 at a time, which is runs
// of 64 bytes in float32 where lines lie side by side.
#pragma once

#include <algorithm>

#include "fft.cuh"

namespace fastdl::fft::cuda {

constexpr int line_threads = 256;

// Complex numbers of tasks that are `size` apart, or in groups that are `group_stride` apart; element e of line l at
// (l / inner) outer_stride + (l % inner) line_stride + e element_stride. When stored, they may be multiplied by root
// l e of `twist`.
template <class T>
struct Numbers {
  Complex<T>* data;
  Index size, line_stride, element_stride;
  bool lines_first;
  const Complex<T>* twist = nullptr;
  bool conjugated = false;
  int inner = 0x7fffffff;
  Index outer_stride = 0;
  int group = 0;
  Index group_stride = 0;

  __device__ __forceinline__ void enter(Index task) {
    data += group ? task / group * group_stride + task % group * size : task * size;
  }
  __device__ __forceinline__ Complex<T>& at(int line, int element) const {
    const int outer = line / inner;
    return data[outer * outer_stride + (line - outer * inner) * line_stride + element * element_stride];
  }
  __device__ __forceinline__ Complex<T> operator()(int line, int element) const { return at(line, element); }
  __device__ __forceinline__ void operator()(int line, int element, Complex<T> value) const {
    if (twist) {
      const Complex<T> root = twist[Index(line) * element];
      value = value * (conjugated ? conjugate(root) : root);
    }
    at(line, element) = value;
  }
};

// Real numbers, read.
template <class T>
struct RealNumbers {
  const T* data;
  Index size, line_stride, element_stride;
  bool lines_first;
  __device__ __forceinline__ void enter(Index task) { data += task * size; }
  __device__ __forceinline__ Complex<T> operator()(int line, int element) const {
    return {data[line * line_stride + element * element_stride], T(0)};
  }
};

template <bool Inverse, class T, class Load, class Store>
__global__ void __launch_bounds__(line_threads, sizeof(T) == 4 ? 3 : 2)
    lines_kernel(Axis<T> axis, int lines, int lines_a_block, int blocks_a_task, Load load, Store store) {
  FASTDL_DYNAMIC_SHARED(Complex<T>, memory);
  const int pitch = axis.n | 1;
  const int first_root = lines_a_block * pitch;
  const Index task = blockIdx.x / unsigned(blocks_a_task);
  const int first = int(blockIdx.x % unsigned(blocks_a_task)) * lines_a_block;
  const int count = lines - first < lines_a_block ? lines - first : lines_a_block, numbers = count * axis.n;
  for (int i = int(threadIdx.x); i < axis.n; i += int(blockDim.x)) memory[first_root + i] = axis.roots[i];
  load.enter(task);
  store.enter(task);
  const Divider by_element(axis.n), by_line(count);
  for (int i = int(threadIdx.x); i < numbers; i += int(blockDim.x)) {
    int line, element;
    if (load.lines_first)
      element = by_line.quotient(i), line = by_line.remainder(i, element);
    else
      line = by_element.quotient(i), element = by_element.remainder(i, line);
    memory[line * pitch + (Inverse ? axis.place[element] : element)] = load(first + line, element);
  }
  __syncthreads();
  transform<Inverse>(axis, first_root, Lines{0, count, pitch, 1});
  for (int i = int(threadIdx.x); i < numbers; i += int(blockDim.x)) {
    int line, element;
    if (store.lines_first)
      element = by_line.quotient(i), line = by_line.remainder(i, element);
    else
      line = by_element.quotient(i), element = by_element.remainder(i, line);
    store(first + line, element, memory[line * pitch + (Inverse ? element : axis.place[element])]);
  }
}

constexpr Index shared_bytes = 48 << 10;  // that every device gives a block without being asked

// Whether a line fits.
template <class T>
bool line_fits(Index n) {
  return ((n | 1) + n) * Index(sizeof(Complex<T>)) <= shared_bytes;
}

// All lines of all tasks.
template <bool Inverse, class T, class Load, class Store>
void transform_lines(const char* name, const Axis<T>& axis, Index tasks, Index lines, const Load& load,
                     const Store& store, Stream stream) {
  if (tasks == 0 || lines == 0) return;
  const Index line = Index(axis.n | 1) * Index(sizeof(Complex<T>)), roots = axis.n * Index(sizeof(Complex<T>));
  // As many as fit into half of the memory, so that three blocks share a multiprocessor; not more than 32.
  const Index fitting = std::clamp<Index>((shared_bytes / 2 - roots) / line, 1, 32);
  const Index a_block = std::min(fitting, lines), a_task = (lines + a_block - 1) / a_block;
  const Index threads = std::clamp<Index>((a_block * axis.n / 4 + 31) / 32 * 32, 32, line_threads);
  // Callers take no more tasks at a time than a grid has blocks for.
  fastdl::cuda::launch(
      name, lines_kernel<Inverse, T, Load, Store>,
      {dim3(unsigned(tasks * a_task)), dim3(unsigned(threads)), std::size_t(a_block * line + roots), stream}, axis,
      int(lines), int(a_block), int(a_task), load, store);
}

// The common ones, compiled once.
template <class T>
void transform_numbers(const char* name, bool inverse, const Axis<T>& axis, Index tasks, Index lines,
                       const Numbers<T>& from, const Numbers<T>& to, Stream stream);
template <class T>
void transform_real(const char* name, const Axis<T>& axis, Index tasks, Index lines, const RealNumbers<T>& from,
                    const Numbers<T>& to, Stream stream);

}  // namespace fastdl::fft::cuda
