// Products of the family: one instantiation of the engine for all that are not symmetric, one for those that are.
#include "hebbian_products.hpp"

#include "gemm.cuh"

namespace fastdl::hebbian::cuda {
namespace {

using gemm::cuda::Shape;

// A part of the depth for every product of a batch: the last may be shorter. With `part` 0 all take the whole depth.
template <class T>
struct Part {
  using Element = T;
  gemm::cuda::Operand<T> operand;
  Index rows;
  int depth, part;

  class Reader {
   public:
    __device__ __forceinline__ Reader(const Part& from, Index first_row, Index batch)
        : reader_(from.operand, first_row, batch), left_(from.depth - int(batch) * from.part) {}
    __device__ __forceinline__ void read(int depth) {
      reader_.read(depth < left_ ? depth : left_);
      left_ -= Shape<T>::depth;
    }
    __device__ __forceinline__ void write(T (*slice)[Shape<T>::pitch]) const { reader_.write(slice); }

   private:
    typename gemm::cuda::Operand<T>::Reader reader_;
    int left_;  // of the depth; what is below 0 counts as zeros
  };
};

template <class T>
Part<T> part_of(const Factor<T>& factor, Index depth, Index part) {
  const Index batch_stride = part > 0 ? part * factor.depth_stride : factor.batch_stride;
  return {gemm::cuda::operand(factor.data, factor.rows, part > 0 ? part : depth, factor.row_stride, factor.depth_stride,
                              batch_stride),
          factor.rows, int(depth), int(part)};
}

template <class T>
struct Coupling {
  T factor;
  bool zero_diagonal;
  __device__ __forceinline__ T operator()(T sum, Index row, Index column) const {
    return zero_diagonal && row == column ? T(0) : sum * factor;
  }
};

}  // namespace

template <class T>
void multiply(const char* name, const Factor<T>& a, const Factor<T>& b, Index depth, T* c, Index row_stride,
              Stream stream, Index batches, Index batch_stride) {
  gemm::cuda::multiply_batch(name, batches, part_of(a, depth, 0), part_of(b, depth, 0), depth,
                             gemm::cuda::result(c, a.rows, b.rows, row_stride, batch_stride), gemm::cuda::Identity{},
                             stream);
}

template <class T>
Parts parts_of(Index rows, Index columns, Index depth) {
  constexpr Index side = Shape<T>::side, least = 64, round = 32, enough = 96;
  const Index tiles = ((rows + side - 1) / side) * ((columns + side - 1) / side);
  const Index fit = (depth + least - 1) / least, wanted = tiles < enough ? enough / (tiles > 0 ? tiles : 1) : 1;
  const Index count = fit < wanted ? fit : wanted;
  if (count <= 1) return {1, depth > 0 ? depth : 1};
  const Index part = ((depth + count - 1) / count + round - 1) / round * round;
  return {(depth + part - 1) / part, part};
}

template <class T>
void multiply_in_parts(const char* name, const Factor<T>& a, const Factor<T>& b, Index depth, Parts parts, T* c,
                       Index row_stride, Index part_stride, Stream stream) {
  gemm::cuda::multiply_batch(name, parts.count, part_of(a, depth, parts.depth), part_of(b, depth, parts.depth),
                             depth < parts.depth ? depth : parts.depth,
                             gemm::cuda::result(c, a.rows, b.rows, row_stride, part_stride), gemm::cuda::Identity{},
                             stream);
}

template <class T>
void couplings(const char* name, const Factor<T>& a, Index depth, T factor, bool zero_diagonal, T* c, Stream stream) {
  gemm::cuda::multiply_symmetric(name, gemm::cuda::operand(a.data, a.rows, depth, a.row_stride, a.depth_stride), depth,
                                 gemm::cuda::result(c, a.rows, a.rows, a.rows), Coupling<T>{factor, zero_diagonal},
                                 stream);
}

#define FASTDL_PRODUCTS(T)                                                                                         \
  template void multiply(const char*, const Factor<T>&, const Factor<T>&, Index, T*, Index, Stream, Index, Index); \
  template Parts parts_of<T>(Index, Index, Index);                                                                 \
  template void multiply_in_parts(const char*, const Factor<T>&, const Factor<T>&, Index, Parts, T*, Index, Index, \
                                  Stream);                                                                         \
  template void couplings(const char*, const Factor<T>&, Index, T, bool, T*, Stream);
FASTDL_PRODUCTS(float)
FASTDL_PRODUCTS(double)
#undef FASTDL_PRODUCTS

}  // namespace fastdl::hebbian::cuda
