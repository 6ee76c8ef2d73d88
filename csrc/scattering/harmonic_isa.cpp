// Solid harmonic scattering of volumes, compiled once per instruction-set level. A task is a volume with a degree and a
// first scale; its convolutions are computed one after the other, and only sums of their squares are kept.
#include "core/interrupt.hpp"
#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "scattering/bodies.hpp"
#include "scattering/volumes.hpp"

namespace fastdl::scattering::FASTDL_LEVEL {
namespace {

template <class T>
FASTDL_INLINE Vec<T> powered(Vec<T> u, double power) {
  if (power == 1) return u;
  if (power == 2) return u * u;
  if (power == 0.5) return simd::sqrt(u);
  for (int l = 0; l < lanes<T>; ++l) u[l] = T(__builtin_pow(double(u[l]), power));
  return u;
}

// The slope of u^power; 0 at 0.
template <class T>
FASTDL_INLINE Vec<T> slope(Vec<T> u, double power) {
  const auto zero = u == Vec<T>{};
  const Vec<T> positive = simd::select(zero, broadcast(T(1)), u);
  return simd::select(zero, Vec<T>{}, powered<T>(positive, power - 1) * T(power));
}

template <class T>
struct Volume {
  const Harmonic<T>& h;
  const Box<T>& box;
  T *grid, *scratch;

  const T* filter(Index degree, Index scale, Index m) const {
    return h.filters[degree] + 2 * (scale * h.shape.harmonics[degree] + m) * box.voxels();
  }

  // moduli = the root of the sum over m of |spectrum * filter|^2, rows of all of the volume.
  void moduli(const T* spectrum, Index degree, Index scale, T* u) const {
    const T factor = T(1.0 / double(box.voxels()));
    const Index harmonics = h.shape.harmonics[degree];
    for (Index m = 0; m < harmonics; ++m) {
      core::check_interrupt();
      const bool first = m == 0, last = m == harmonics - 1;
      filtered_rows(box, spectrum, filter(degree, scale, m), grid, scratch, [&](Index before, const T* row, int) {
        for (Index x = 0; x < box.nx; ++x) {
          const Complex<T> z = fft::scaled(load_element(row + x * width<T>), factor);
          T* at = u + (before + x) * lanes<T>;
          Vec<T> sum = fma(z.re, z.re, z.im * z.im);
          if (!first) sum = sum + load(at);
          store(at, last ? simd::sqrt(sum) : sum);
        }
      });
    }
  }

  void sums(const T* u, T* out) const {
    double total[most_powers] = {};
    for (Index z = 0; z < box.nz; ++z)
      for (Index band = 0; band < box.bands; ++band) {
        const int count = box.rows_of(band);
        const T* row = u + (z * box.bands + band) * box.nx * lanes<T>;
        for (Index p = 0; p < h.shape.powers; ++p) {
          Vec<T> sum{};
          for (Index x = 0; x < box.nx; ++x) sum = sum + powered<T>(load(row + x * lanes<T>), h.shape.power[p]);
          for (int l = 0; l < count; ++l) total[p] += double(sum[l]);
        }
      }
    for (Index p = 0; p < h.shape.powers; ++p) out[p] = T(total[p]);
  }

  void real_spectrum(const T* u, T* to) const {
    clear_grid(box, to);
    spectrum_of_rows(box, to, scratch, [&](Index before, T* row, int) {
      for (Index x = 0; x < box.nx; ++x)
        store_element(row + x * width<T>, Complex<T>{load(u + (before + x) * lanes<T>), Vec<T>{}});
    });
  }

  void image_spectrum(const T* x, T* to) const {
    clear_grid(box, to);
    spectrum_of_rows(box, to, scratch, [&](Index before, T* row, int count) {
      const Index z = before / (box.bands * box.nx), band = before / box.nx % box.bands;
      const T* from[lanes<T>];
      for (int l = 0; l < lanes<T>; ++l)
        from[l] = l < count ? x + (z * box.ny + band * lanes<T> + l) * box.nx : nullptr;
      T* real = row + box.nx * width<T> / 2;  // spread out from the front
      gather(from, box.nx, real);
      for (Index i = 0; i < box.nx; ++i)
        store_element(row + i * width<T>, Complex<T>{load(real + i * lanes<T>), Vec<T>{}});
    });
  }

  // The gradient for moduli u from that for the sums of their powers.
  void sums_back(const T* u, const T* grad, T* g) const {
    for (Index i = 0; i < box.row_elements(); ++i) {
      const Vec<T> value = load(u + i * lanes<T>);
      Vec<T> sum{};
      for (Index p = 0; p < h.shape.powers; ++p) sum = fma(slope<T>(value, h.shape.power[p]), broadcast(grad[p]), sum);
      store(g + i * lanes<T>, sum);
    }
  }

  // back += what goes back to the spectrum from the gradient g for its moduli u.
  void moduli_back(const T* spectrum, Index degree, Index scale, const T* u, const T* g, T* waves, T* other,
                   T* back) const {
    constexpr int w = lanes<T>;
    const T factor = T(1.0 / double(box.voxels()));
    for (Index m = 0; m < h.shape.harmonics[degree]; ++m) {
      core::check_interrupt();
      const T* psi = filter(degree, scale, m);
      filtered_rows(box, spectrum, psi, grid, scratch, [&](Index before, const T* row, int) {
        for (Index x = 0; x < box.nx; ++x) {
          const Vec<T> modulus = load(u + (before + x) * w);
          const auto zero = modulus == Vec<T>{};
          const Vec<T> ratio =
              simd::select(zero, Vec<T>{}, load(g + (before + x) * w) / simd::select(zero, broadcast(T(1)), modulus));
          const Complex<T> z = fft::scaled(load_element(row + x * width<T>), factor);
          store_element(waves + (before + x) * width<T>, Complex<T>{z.re * ratio, z.im * ratio});
        }
      });
      clear_grid(box, other);
      spectrum_of_rows(box, other, scratch, [&](Index before, T* row, int) {
        for (Index x = 0; x < box.nx; ++x)
          store_element(row + x * width<T>, load_element(waves + (before + x) * width<T>));
      });
      for (Index zy = 0; zy < box.nz * box.ny; ++zy)
        for (Index group = 0; group < box.groups; ++group) {
          const int count = int(box.nx - group * w < w ? box.nx - group * w : w);
          const Complex<T> c = fft::conjugate(load_numbers(psi + 2 * (zy * box.nx + group * w), count));
          T* at = back + (zy * box.groups + group) * width<T>;
          const T* wave = other + (zy * box.groups + group) * width<T>;
          store_element(at, load_element(at) + load_element(wave) * c);
        }
    }
  }

  // The real part of the inverse transform, added to rows g.
  void real_rows(const T* spectrum, T* copy, T* g) const {
    const T factor = T(1.0 / double(box.voxels()));
    const Index plane = box.ny * box.groups;
    T* row = scratch;
    T* rest = row + box.nx * width<T>;
    for (Index i = 0; i < box.elements(); ++i)
      store_element(copy + i * width<T>, load_element(spectrum + i * width<T>));
    along_z(box, true, copy, scratch);
    for (Index z = 0; z < box.nz; ++z) {
      T* here = copy + z * plane * width<T>;
      for (Index i = 0; i < box.groups; ++i)
        transform(box.y, true, here + i * width<T>, box.groups, here + i * width<T>, box.groups, rest);
      for (Index band = 0; band < box.bands; ++band) {
        const T* rows = here + band * lanes<T> * box.groups * width<T>;
        fft::load_rows<T>(fft::grid_rows(rows, box.groups * width<T>), box.rows_of(band), box.nx, row,
                          fft::NoTwiddles{});
        transform(box.x, true, row, 1, row, 1, rest);
        T* to = g + (z * box.bands + band) * box.nx * lanes<T>;
        for (Index x = 0; x < box.nx; ++x)
          store(to + x * lanes<T>, fma(load(row + x * width<T>), broadcast(factor), load(to + x * lanes<T>)));
      }
    }
  }
};

template <class T>
T* new_rows(core::Scratch& scratch, const Box<T>& box) {
  return scratch.array<T>(box.row_elements(), lanes<T>);
}
template <class T>
T* new_volume(core::Scratch& scratch, const Box<T>& box) {
  return scratch.array<T>(box.elements(), width<T>);
}

// Number of the path (j1, j2), j2 > j1.
inline Index path_of(Index scales, Index j1, Index j2) {
  return scales + j1 * (2 * scales - j1 - 1) / 2 + (j2 - j1 - 1);
}

template <class T>
void harmonic_of(const Harmonic<T>& h, const T* x, Index batch, T* out) {
  const fft::SharedPlan<T> z(h.shape.size[0]), y(h.shape.size[1]), across(h.shape.size[2]);
  const Box<T> box(h.shape.size, z.plan(), y.plan(), across.plan());
  const Index scales = h.shape.scales, degrees = h.shape.degrees, powers = h.shape.powers;
  const auto run = [&](Index volume, Index degree, Index j1, const T* x_hat) {
    core::Scratch local;
    const Volume<T> v{h, box, new_volume(local, box), local.array<T>(box.scratch() + box.nx, width<T>)};
    T* u = new_rows(local, box);
    const auto at = [&](Index path) { return out + ((volume * h.paths() + path) * degrees + degree) * powers; };
    v.moduli(x_hat, degree, j1, u);
    v.sums(u, at(j1));
    if (h.shape.order < 2 || j1 + 1 == scales) return;
    T* u_hat = new_volume(local, box);
    v.real_spectrum(u, u_hat);
    for (Index j2 = j1 + 1; j2 < scales; ++j2) {
      v.moduli(u_hat, degree, j2, u);
      v.sums(u, at(path_of(scales, j1, j2)));
    }
  };
  // One volume after the other, all threads at each: the spectrum of one is all that they share.
  core::Scratch scratch;
  T* x_hat = new_volume(scratch, box);
  for (Index volume = 0; volume < batch; ++volume) {
    {
      core::Scratch local;
      const Volume<T> v{h, box, nullptr, local.array<T>(box.scratch() + box.nx, width<T>)};
      v.image_spectrum(x + volume * box.voxels(), x_hat);
    }
    // High degrees have most harmonics, and small scales most that follow: they come first.
    core::parallel_for(degrees * scales, box.voxels() < 2000 ? 1 : core::thread_count(),
                       [&](Index task) { run(volume, degrees - 1 - task % degrees, task / degrees, x_hat); });
  }
}

template <class T>
void harmonic_vjp_of(const Harmonic<T>& h, const T* x, const T* grad, Index batch, T* dx) {
  const fft::SharedPlan<T> z(h.shape.size[0]), y(h.shape.size[1]), across(h.shape.size[2]);
  const Box<T> box(h.shape.size, z.plan(), y.plan(), across.plan());
  const Index scales = h.shape.scales, degrees = h.shape.degrees, powers = h.shape.powers;
  core::parallel_for(batch, box.voxels() < 2000 ? 1 : core::thread_count(), [&](Index volume) {
    core::Scratch local;
    const Volume<T> v{h, box, new_volume(local, box), local.array<T>(box.scratch() + box.nx, width<T>)};
    T *x_hat = new_volume(local, box), *x_back = new_volume(local, box), *u_hat = new_volume(local, box);
    T *u_back = new_volume(local, box), *other = new_volume(local, box);
    T* waves = local.array<T>(box.row_elements(), width<T>);
    T *u = new_rows(local, box), *g = new_rows(local, box), *w = new_rows(local, box), *gw = new_rows(local, box);
    const auto clear = [&](T* grid) {
      for (Index i = 0; i < box.elements(); ++i) store_element(grid + i * width<T>, Complex<T>{});
    };
    v.image_spectrum(x + volume * box.voxels(), x_hat);
    clear(x_back);
    for (Index degree = 0; degree < degrees; ++degree) {
      const auto at = [&](Index path) { return grad + ((volume * h.paths() + path) * degrees + degree) * powers; };
      for (Index j1 = 0; j1 < scales; ++j1) {
        v.moduli(x_hat, degree, j1, u);
        v.sums_back(u, at(j1), g);
        if (h.shape.order == 2 && j1 + 1 < scales) {
          v.real_spectrum(u, u_hat);
          clear(u_back);
          for (Index j2 = j1 + 1; j2 < scales; ++j2) {
            v.moduli(u_hat, degree, j2, w);
            v.sums_back(w, at(path_of(scales, j1, j2)), gw);
            v.moduli_back(u_hat, degree, j2, w, gw, waves, other, u_back);
          }
          v.real_rows(u_back, other, g);
        }
        v.moduli_back(x_hat, degree, j1, u, g, waves, other, x_back);
      }
    }
    for (Index i = 0; i < box.row_elements(); ++i) store(g + i * lanes<T>, Vec<T>{});
    v.real_rows(x_back, other, g);
    for (Index zb = 0; zb < box.nz * box.bands; ++zb) {
      const Index band = zb % box.bands;
      T* to[lanes<T>];
      for (int l = 0; l < lanes<T>; ++l)
        to[l] = l < box.rows_of(band)
                    ? dx + volume * box.voxels() + (zb / box.bands * box.ny + band * lanes<T> + l) * box.nx
                    : nullptr;
      scatter(g + zb * box.nx * lanes<T>, box.nx, to);
    }
  });
}

}  // namespace

#define FASTDL_BODIES_OF(T)                                                                               \
  void harmonic(const Harmonic<T>& h, const T* x, Index batch, T* out) { harmonic_of(h, x, batch, out); } \
  void harmonic_vjp(const Harmonic<T>& h, const T* x, const T* grad, Index batch, T* dx) {                \
    harmonic_vjp_of(h, x, grad, batch, dx);                                                               \
  }
FASTDL_BODIES_OF(float)
FASTDL_BODIES_OF(double)

}  // namespace fastdl::scattering::FASTDL_LEVEL
