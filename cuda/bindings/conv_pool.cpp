#include "bindings/conv_shapes.hpp"

namespace fastdl::cuda::bindings {
namespace {

conv::cuda::Geometry pool_geometry(const Array& in, const Array& out, const Sizes& kernel, const Sizes& stride,
                                   const Sizes& lower) {
  if (in.ndim() < 3 || out.ndim() != in.ndim() || in.shape(1) != out.shape(1))
    throw py::value_error("expected arrays (N, C, ...) of one C, got " + in.described() + " and " + out.described());
  const auto g = geometry_of(in.shape(), out.shape(), kernel, stride, lower, Sizes(kernel.size(), 1), 1);
  check_positions(g);
  return g;
}

void check_places(const Array& indices, const Array& like) {
  if (indices.shape() != like.shape())
    throw py::value_error("indices: expected one for each value of " + like.described() + ", got " +
                          indices.described());
}

template <class T>
void max_pool(const Array& x, const Sizes& kernel, const Sizes& stride, const Sizes& lower, const Optional& indices,
              const Array& out) {
  const auto g = pool_geometry(x, out, kernel, stride, lower);
  const Contiguous<T> images(x, "x");
  const Result<T> result(out, "out");
  std::optional<Result<std::int64_t>> places;
  if (indices) {
    check_places(*indices, out);
    places.emplace(*indices, "indices");
  }
  const WithoutGil release;
  conv::cuda::max_pool("conv.max_pool", g, images.data(), result.data(), places ? places->data() : nullptr, stream());
  result.finish();
  if (places) places->finish();
}

template <class T>
void avg_pool(const Array& x, const Sizes& kernel, const Sizes& stride, const Sizes& lower, bool padding_counts,
              const Array& out) {
  const auto g = pool_geometry(x, out, kernel, stride, lower);
  const Contiguous<T> images(x, "x");
  const Result<T> result(out, "out");
  const WithoutGil release;
  conv::cuda::avg_pool("conv.avg_pool", g, images.data(), padding_counts, result.data(), stream());
  result.finish();
}

template <class T>
void max_pool_gradient(const Array& grad, const Array& indices, const Array& out) {
  const Sizes ones(std::size_t(grad.ndim() < 2 ? 0 : grad.ndim() - 2), 1), none(ones.size(), 0);
  const auto g = pool_geometry(out, grad, ones, ones, none);
  check_places(indices, grad);
  const Contiguous<T> gradient(grad, "grad");
  const Contiguous<std::int64_t> places(indices, "indices");
  const Result<T> result(out, "out");
  const WithoutGil release;
  conv::cuda::max_pool_gradient("conv.max_pool_grad", g, gradient.data(), places.data(), result.data(), stream());
  result.finish();
}

template <class T>
void avg_pool_gradient(const Array& grad, const Sizes& kernel, const Sizes& stride, const Sizes& lower,
                       bool padding_counts, const Array& out) {
  const auto g = pool_geometry(out, grad, kernel, stride, lower);
  const Contiguous<T> gradient(grad, "grad");
  const Result<T> result(out, "out");
  const WithoutGil release;
  conv::cuda::avg_pool_gradient("conv.avg_pool_grad", g, gradient.data(), padding_counts, result.data(), stream());
  result.finish();
}

}  // namespace

void register_conv_pool(py::module_& family) {
  for (const char* axes : {"1d", "2d", "3d"}) {
    const auto name = [&](const char* stem, const char* end = "") { return std::string(stem) + axes + end; };
    family.def(name("max_pool").c_str(), [](const Array& x, const Sizes& kernel, const Sizes& stride,
                                            const Sizes& lower, const Optional& indices, const Array& out) {
      in_type_of(x, [&](auto zero) { max_pool<decltype(zero)>(x, kernel, stride, lower, indices, out); });
    });
    family.def(name("avg_pool").c_str(), [](const Array& x, const Sizes& kernel, const Sizes& stride,
                                            const Sizes& lower, bool padding_counts, const Array& out) {
      in_type_of(x, [&](auto zero) { avg_pool<decltype(zero)>(x, kernel, stride, lower, padding_counts, out); });
    });
    family.def(name("max_pool", "_grad").c_str(), [](const Array& grad, const Array& indices, const Array& out) {
      in_type_of(grad, [&](auto zero) { max_pool_gradient<decltype(zero)>(grad, indices, out); });
    });
    family.def(name("avg_pool", "_grad").c_str(), [](const Array& grad, const Sizes& kernel, const Sizes& stride,
                                                     const Sizes& lower, bool padding_counts, const Array& out) {
      in_type_of(grad, [&](auto zero) {
        avg_pool_gradient<decltype(zero)>(grad, kernel, stride, lower, padding_counts, out);
      });
    });
  }
}

}  // namespace fastdl::cuda::bindings
