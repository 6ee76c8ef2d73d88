#include "bindings/conv_shapes.hpp"

#include <algorithm>

namespace fastdl::cuda::bindings {
namespace {

// Both are correlations of one signal with another one's elements, turned for the convolution, from `lower` before the
// first on; these are the filter.
template <class T>
void signal(const char* name, bool turned, const Array& f, const Array& h, const std::string& mode,
            const std::string& method, const Array& out) {
  if (f.ndim() < 1 || f.ndim() > conv::cuda::axes || h.ndim() != f.ndim() || out.ndim() != f.ndim())
    throw py::value_error("expected signals of 1 to 3 axes, got " + f.described() + " and " + h.described());
  if (method != "auto" && method != "direct")
    throw py::value_error("method: expected one of auto, direct, got " + method);
  chosen<int>("mode", mode, {{"full", 0}, {"same", 1}, {"valid", 2}, {"circular", 3}});
  const bool circular = mode == "circular";
  // The smaller one is the filter: h * f = f * h, and a correlation with the signals exchanged comes out turned.
  const bool exchanged = turned && !circular && f.size() < h.size();
  const Array &longer = exchanged ? h : f, &shorter = exchanged ? f : h;
  const auto axes_of = [&](const Array& array) {
    Sizes shape{1, 1};
    shape.insert(shape.end(), array.shape().begin(), array.shape().end());
    return shape;
  };
  const Sizes ones(std::size_t(f.ndim()), 1);
  Sizes lower;
  for (std::int64_t axis = 0; axis < f.ndim(); ++axis) {
    const std::int64_t taps = shorter.shape(axis), full = f.shape(axis) + h.shape(axis) - 1;
    const std::int64_t first = mode == "full" || circular ? 0 : (full - out.shape(axis)) / 2;
    lower.push_back(circular && !turned ? 0 : taps - 1 - first);
  }
  auto g = geometry_of(axes_of(longer), axes_of(out), shorter.shape(), ones, Sizes(ones.size(), 0), ones, 1);
  std::copy(lower.begin(), lower.end(), g.lower + conv::cuda::axes - lower.size());
  check_positions(g);
  const Contiguous<T> x(longer, "f"), w(shorter, "h");
  const Result<T> result(out, "out");
  const auto padding = circular ? conv::cuda::Padding::circular : conv::cuda::Padding::zeros;
  const WithoutGil release;
  conv::cuda::correlate(name, g, padding, turned, x.data(), w.data(), result.data(), stream());
  result.finish();
}

}  // namespace

void register_conv_signal(py::module_& family) {
  family.def("convolve", [](const Array& f, const Array& h, const std::string& mode, const std::string& method,
                            const Array& out) {
    in_type_of(f, [&](auto zero) { signal<decltype(zero)>("conv.convolve", true, f, h, mode, method, out); });
  });
  family.def("correlate", [](const Array& f, const Array& h, const std::string& mode, const std::string& method,
                             const Array& out) {
    in_type_of(f, [&](auto zero) { signal<decltype(zero)>("conv.correlate", false, f, h, mode, method, out); });
  });
}

}  // namespace fastdl::cuda::bindings
