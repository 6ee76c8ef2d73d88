// Transforms of volumes between two layouts, with the work between them done in L1.
//
// A grid is z by y by groups of x, a group's lanes being as many x: transforms along z and y need no shuffles. Along x
// the lanes are as many y, `rows` of nx elements: what is done to the numbers of a volume is done to these rows.
#pragma once

#include "fft/rows.hpp"
#include "scattering/lanes.hpp"
#include "scattering/plan.hpp"

namespace fastdl::scattering {
namespace {

using fft::Complex;
using fft::load_element;
using fft::store_element;
using fft::transform;
using fft::width;

template <class T>
struct Box {
  Index nz, ny, nx, groups, bands;  // bands: lane-fulls of y
  const fft::Plan<T>&z, &y, &x;

  Box(const Index* size, const fft::Plan<T>& z_, const fft::Plan<T>& y_, const fft::Plan<T>& x_)
      : nz(size[0]),
        ny(size[1]),
        nx(size[2]),
        groups((size[2] + lanes<T> - 1) / lanes<T>),
        bands((size[1] + lanes<T> - 1) / lanes<T>),
        z(z_),
        y(y_),
        x(x_) {}

  Index elements() const { return nz * ny * groups; }
  Index row_elements() const { return nz * bands * nx; }  // of all rows of a volume
  Index voxels() const { return nz * ny * nx; }
  int rows_of(Index band) const { return int(ny - band * lanes<T> < lanes<T> ? ny - band * lanes<T> : lanes<T>); }
  Index scratch() const {
    Index most = z.scratch;
    for (const Index one : {y.scratch, x.scratch}) most = most < one ? one : most;
    return most + groups * nz + 2 * nx;
  }
};

// `count` complex numbers, real part first, as two vectors.
template <class T>
FASTDL_INLINE Complex<T> load_numbers(const T* p, int count) {
  constexpr int w = lanes<T>;
  if (count == w) {
    const Vec<T> a = load(p), b = load(p + w);
    return {simd::even_lanes<T>(a, b), simd::odd_lanes<T>(a, b)};
  }
  const Vec<T> a = simd::load_first(p, 2 * count < w ? 2 * count : w);
  const Vec<T> b = 2 * count > w ? simd::load_first(p + w, 2 * count - w) : Vec<T>{};
  return {simd::even_lanes<T>(a, b), simd::odd_lanes<T>(a, b)};
}

// Transforms along z go by all columns of one y: elements that follow each other in memory are read and written
// together, where a single column has a page for every element.
template <class T>
void transform_columns(const Box<T>& box, bool inverse, T* columns, T* rest) {
  for (Index g = 0; g < box.groups; ++g) {
    T* column = columns + g * box.nz * width<T>;
    transform(box.z, inverse, column, 1, column, 1, rest);
  }
}
template <class T>
void put_columns(const Box<T>& box, const T* columns, Index y, T* grid) {
  for (Index z = 0; z < box.nz; ++z)
    for (Index g = 0; g < box.groups; ++g)
      store_element(grid + ((z * box.ny + y) * box.groups + g) * width<T>,
                    load_element(columns + (g * box.nz + z) * width<T>));
}
template <class T>
void along_z(const Box<T>& box, bool inverse, T* grid, T* scratch) {
  T* rest = scratch + box.groups * box.nz * width<T>;
  for (Index y = 0; y < box.ny; ++y) {
    for (Index z = 0; z < box.nz; ++z)
      for (Index g = 0; g < box.groups; ++g)
        store_element(scratch + (g * box.nz + z) * width<T>,
                      load_element(grid + ((z * box.ny + y) * box.groups + g) * width<T>));
    transform_columns(box, inverse, scratch, rest);
    put_columns(box, scratch, y, grid);
  }
}

// Rows of the inverse transform of spectrum * filter, without its factor: consume(number of rows before, row, how many
// of its lanes count). `grid` is room for a volume.
template <class T, class Consume>
void filtered_rows(const Box<T>& box, const T* spectrum, const T* filter, T* grid, T* scratch, const Consume& consume) {
  constexpr int w = lanes<T>;
  const Index plane = box.ny * box.groups;
  T* columns = scratch;
  T* row = columns + box.groups * box.nz * width<T>;
  T* rest = row + box.nx * width<T>;
  for (Index y = 0; y < box.ny; ++y) {
    for (Index z = 0; z < box.nz; ++z)
      for (Index g = 0; g < box.groups; ++g) {
        const int count = int(box.nx - g * w < w ? box.nx - g * w : w);
        const Complex<T> psi = load_numbers(filter + 2 * ((z * box.ny + y) * box.nx + g * w), count);
        const Complex<T> value = load_element(spectrum + (z * plane + y * box.groups + g) * width<T>);
        store_element(columns + (g * box.nz + z) * width<T>, value * psi);
      }
    transform_columns(box, true, columns, rest);
    put_columns(box, columns, y, grid);
  }
  for (Index z = 0; z < box.nz; ++z) {
    T* here = grid + z * plane * width<T>;
    for (Index g = 0; g < box.groups; ++g)
      transform(box.y, true, here + g * width<T>, box.groups, here + g * width<T>, box.groups, rest);
    for (Index band = 0; band < box.bands; ++band) {
      const T* rows = here + band * w * box.groups * width<T>;
      fft::load_rows<T>(fft::grid_rows(rows, box.groups * width<T>), box.rows_of(band), box.nx, row, fft::NoTwiddles{});
      transform(box.x, true, row, 1, row, 1, rest);
      consume((z * box.bands + band) * box.nx, row, box.rows_of(band));
    }
  }
}

// The spectrum of a volume whose rows produce(number of rows before, row, lanes that count) makes.
template <class T, class Produce>
void spectrum_of_rows(const Box<T>& box, T* grid, T* scratch, const Produce& produce) {
  constexpr int w = lanes<T>;
  const Index plane = box.ny * box.groups;
  T* row = scratch;
  T* rest = row + box.nx * width<T>;
  for (Index z = 0; z < box.nz; ++z) {
    T* here = grid + z * plane * width<T>;
    for (Index band = 0; band < box.bands; ++band) {
      produce((z * box.bands + band) * box.nx, row, box.rows_of(band));
      transform(box.x, false, row, 1, row, 1, rest);
      T* rows = here + band * w * box.groups * width<T>;
      fft::store_rows<T>(fft::grid_rows(rows, box.groups * width<T>), box.rows_of(band), 0, box.nx, row,
                         fft::NoTwiddles{});
    }
    for (Index g = 0; g < box.groups; ++g)
      transform(box.y, false, here + g * width<T>, box.groups, here + g * width<T>, box.groups, rest);
  }
  along_z(box, false, grid, scratch);
}

// Lanes beyond a volume's last x hold what a partial store left there; they must be numbers.
template <class T>
void clear_grid(const Box<T>& box, T* grid) {
  if (box.nx % lanes<T> == 0) return;
  for (Index i = 0; i < box.elements(); ++i) store_element(grid + i * width<T>, Complex<T>{});
}

}  // namespace
}  // namespace fastdl::scattering
