// Plans of scattering transforms on the device: grids, averages, windows of filters.
#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "fft_lines.cuh"
#include "scattering_image.cuh"
#include "scattering_plan.hpp"

namespace fastdl::scattering::cuda {
namespace {

// As on the host: what is smaller than this share of the largest is left out of filters and averages.
template <class T>
constexpr double negligible = sizeof(T) == 4 ? 1e-7 : 1e-14;

Index modulo(Index a, Index n) { return (a % n + n) % n; }

void expect(const char* name, bool valid, const char* wanted, Index got) {
  if (!valid)
    throw std::invalid_argument("[" + std::string(name) + "] expected " + wanted + ", got " + std::to_string(got));
}

// The smallest circular window that holds all that counts.
struct Circular {
  Index first, length;
};
template <class Counts>
Circular window_of(Index n, const Counts& counts) {
  Index best = 0, best_end = n - 1, run = 0;
  for (Index i = 0; i < 2 * n; ++i) {
    run = counts(i % n) ? 0 : run + 1;
    if (run > best && run <= n) best = run, best_end = i % n;
  }
  return best >= n ? Circular{0, 1} : Circular{modulo(best_end + 1, n), n - best};
}

// Rows and columns of the grid of a signal: as near to a square as its divisors allow.
Index rows_of_signal(Index n) {
  Index rows = 1;
  for (Index d = 1; d * d <= n; ++d)
    if (n % d == 0) rows = d;
  return rows;
}

void check_axis(const char* name, const fastdl_scattering_axis& axis, Index finest, Index count) {
  expect(name, axis.size > 0 && axis.size <= Index{1} << 30 && finest % axis.size == 0, "sizes that divide the padded",
         axis.size);
  expect(name, axis.count > 0 && axis.count == count, "as many averages on all levels", axis.count);
  expect(name, axis.step > 0 && (axis.count - 1) * axis.step < axis.size, "averages within the grid", axis.step);
}

void check_tree(const char* name, const fastdl_scattering_tree& tree) {
  const fastdl_scattering_level& finest = tree.level[0];
  for (Index i = 0; i < tree.levels; ++i) {
    check_axis(name, tree.level[i].down, finest.down.size, finest.down.count);
    check_axis(name, tree.level[i].across, finest.across.size, finest.across.count);
  }
  expect(name, finest.down.size <= (Index{1} << 30) / finest.across.size, "grids of at most 2^30 places",
         finest.down.size);
  for (Index y = 0; y < finest.down.size; ++y)
    expect(name, tree.place_y[y] >= 0 && tree.place_y[y] < tree.height, "places in the image", tree.place_y[y]);
  for (Index x = 0; x < finest.across.size; ++x)
    expect(name, tree.place_x[x] >= 0 && tree.place_x[x] < tree.width, "places in the image", tree.place_x[x]);
  for (Index g = 0; g < tree.groups; ++g) {
    const fastdl_scattering_group& group = tree.group[g];
    const fastdl_scattering_level& level = tree.level[group.level];
    expect(name, group.members > 0, "groups with members", group.members);
    for (Index m = 0; m < group.members; ++m) {
      expect(name, group.channel[m] >= 0 && group.channel[m] < tree.channels, "channels that there are",
             group.channel[m]);
      expect(name,
             group.followers == 0 || (group.channel_2[m] >= 0 && group.channel_2[m] + group.followers <= tree.channels),
             "channels that there are", group.channel_2[m]);
    }
    for (Index f = 0; f < group.followers; ++f) {
      expect(name, group.level_2[f] >= 0 && group.level_2[f] < tree.levels, "levels that there are", group.level_2[f]);
      const fastdl_scattering_level& coarse = tree.level[group.level_2[f]];
      expect(name, level.down.size % coarse.down.size == 0 && level.across.size % coarse.across.size == 0,
             "followers on levels that divide their own", group.level_2[f]);
    }
  }
}

}  // namespace

template <class T>
Tables<T>::Tables(const char* name, const fastdl_scattering_tree& tree, const Limits& limits, Stream stream)
    : height(tree.height), width(tree.width), channels(tree.channels), scratch_(limits.scratch) {
  check_tree(name, tree);
  const fastdl_scattering_level& finest = tree.level[0];
  const Index ny = finest.down.size, nx = finest.across.size;
  outputs = finest.down.count * finest.across.count;

  const auto keep_integers = [&](const std::vector<int>& values) -> const int* {
    integers_.emplace_back(name, values.data(), Index(values.size()), stream);
    return integers_.back().data();
  };
  const auto averages = [&](const fastdl_scattering_axis& given) -> Averages<T> {
    const Index n = given.size;
    double largest = 0;
    for (Index d = 0; d < n; ++d) largest = std::max(largest, std::abs(given.kernel[d]));
    const Circular part = window_of(n, [&](Index d) { return std::abs(given.kernel[d]) > negligible<T> * largest; });
    // in[position - d] for d from the last of the window down to its first: ascending samples.
    const Index last = part.first + part.length - 1;
    std::vector<T> taps;
    for (Index i = 0; i < part.length; ++i) taps.push_back(T(given.kernel[modulo(last - i, n)]));
    numbers_.emplace_back(name, taps.data(), part.length, stream);
    return {int(n),
            int(given.count),
            int(given.step),
            int(part.length),
            int(modulo(given.first - last, n)),
            numbers_.back().data()};
  };
  const auto axis = [&](Index n) -> const Axis<T>& {
    for (const fft::cuda::AxisTables<T>& known : axes_)
      if (known.axis().n == n) return known.axis();
    if (!fft::cuda::transformable(n) || !fft::cuda::line_fits<T>(n)) throw Unsupported();
    return axes_.emplace_back(name, n, stream).axis();
  };

  for (Index i = 0; i < tree.levels; ++i) {
    const Index rows = tree.level[i].down.size, columns = tree.level[i].across.size;
    Level<T> level{};
    level.down = averages(tree.level[i].down);
    level.across = averages(tree.level[i].across);
    level.grid.size = rows * columns;
    if (nx == 1) {
      const Index split = rows_of_signal(rows);
      level.grid.first = axis(split);
      level.grid.second = axis(rows / split);
      level.grid.twist = roots_.emplace_back(fft::cuda::roots_of<T>(name, rows, stream)).data();
    } else {
      level.grid.first = axis(rows);
      level.grid.second = axis(columns);
    }
    const Index bytes = room_of(level.grid, level.down) * Index(sizeof(T));
    level.in_shared = bytes <= std::min(limits.shared, fft::cuda::shared_bytes);
    level.shared_bytes = std::size_t(bytes);
    level.threads = int(std::clamp<Index>((level.grid.size / 4 + 31) / 32 * 32, 64, most_threads));
    levels.push_back(level);
  }

  // Numbers and windows of filters; those of all grids in one array each, which is sent at the end.
  std::vector<T> coefficients;
  const auto add_window = [&](const double* psi, Index from, Index to, Index* spectrum) {
    const Grid<T>&fine = levels[std::size_t(from)].grid, &coarse = levels[std::size_t(to)].grid;
    const Index rows = fine.ny(), columns = fine.nx();
    double largest = 0;
    for (Index i = 0; i < fine.size; ++i) largest = std::max(largest, std::abs(psi[i]));
    std::vector<char> row(std::size_t(rows), 0), column(std::size_t(columns), 0);
    for (Index y = 0; y < rows; ++y)
      for (Index x = 0; x < columns; ++x)
        if (std::abs(psi[y * columns + x]) > negligible<T> * largest) row[std::size_t(y)] = column[std::size_t(x)] = 1;
    const Circular down = window_of(rows, [&](Index y) { return row[std::size_t(y)] != 0; });
    const Circular across = window_of(columns, [&](Index x) { return column[std::size_t(x)] != 0; });
    const Window result{int(down.first),
                        int(down.length),
                        int(across.first),
                        int(across.length),
                        coarse.ny(),
                        coarse.nx(),
                        int(down.first % coarse.ny()),
                        int(across.first % coarse.nx()),
                        Index(coefficients.size()),
                        *spectrum};
    for (Index i = 0; i < down.length; ++i)
      for (Index j = 0; j < across.length; ++j)
        coefficients.push_back(
            T(psi[(down.first + i) % rows * columns + (across.first + j) % columns] / double(fine.size)));
    *spectrum += coarse.size;
    return result;
  };

  std::vector<Window> all;
  stride = 0;
  for (Index g = 0; g < tree.groups; ++g) {
    const fastdl_scattering_group& given = tree.group[g];
    Group group{};
    std::vector<int> channel;
    group.members = {int(given.level), Index(all.size()), given.members, stride, nullptr};
    for (Index m = 0; m < given.members; ++m) {
      all.push_back(add_window(given.psi[m], 0, given.level, &stride));
      channel.push_back(int(given.channel[m]));
    }
    group.members.channel = keep_integers(channel);
    std::vector<Window> second;
    for (Index to = 0; to < tree.levels; ++to) {
      std::vector<Index> chosen;
      for (Index f = 0; f < given.followers; ++f)
        if (given.level_2[f] == to) chosen.push_back(f);
      if (chosen.empty()) continue;
      Set set{int(to), Index(second.size()), Index(chosen.size()), group.stride, nullptr};
      channel.clear();
      for (Index m = 0; m < given.members; ++m)
        for (const Index f : chosen) channel.push_back(int(given.channel_2[m] + f));
      set.channel = keep_integers(channel);
      for (const Index f : chosen) second.push_back(add_window(given.psi_2[f], given.level, to, &group.stride));
      group.followers.push_back(set);
    }
    group.count = Index(second.size());
    group.window = windows_.emplace_back(name, second.data(), group.count, stream).data();
    groups.push_back(std::move(group));
  }
  members = Index(all.size());
  window = windows_.emplace_back(name, all.data(), members, stream).data();
  coefficient = numbers_.emplace_back(name, coefficients.data(), Index(coefficients.size()), stream).data();

  const auto places = [&](const Index* given, Index count, Index size, const int** place, const int** begin,
                          const int** copies) {
    *place = keep_integers(std::vector<int>(given, given + count));
    std::vector<int> begins(std::size_t(size) + 1, 0), order;
    for (Index i = 0; i < count; ++i) ++begins[std::size_t(given[i]) + 1];
    for (Index sample = 0; sample < size; ++sample) begins[std::size_t(sample) + 1] += begins[std::size_t(sample)];
    order.resize(std::size_t(count));
    std::vector<int> next = begins;
    for (Index i = 0; i < count; ++i) order[std::size_t(next[std::size_t(given[i])]++)] = int(i);
    *begin = keep_integers(begins);
    *copies = keep_integers(order);
  };
  places(tree.place_y, ny, height, &place_y, &begin_y, &copies_y);
  places(tree.place_x, nx, width, &place_x, &begin_x, &copies_x);
  channel_0 = keep_integers({0});
}

template <class T>
Index Tables<T>::images_at_a_time(Index batch, bool backward) const {
  const auto numbers = [&](const Set& set, Index parents) {
    const Level<T>& level = levels[std::size_t(set.level)];
    const Index grids = parents * set.count;
    // Where a grid is not in shared memory: itself, its moduli, and averages of its columns.
    return level.in_shared ? 0 : grids * (3 * level.grid.size + 2 * Index(level.down.count) * level.grid.nx());
  };
  Index largest = 0;
  for (const Group& group : groups) {
    const Index spectra =
        group.followers.empty() ? 0 : 2 * group.members.count * levels[std::size_t(group.members.level)].grid.size;
    Index passing = numbers(group.members, 1);
    for (const Set& set : group.followers) passing = std::max(passing, numbers(set, group.members.count));
    Index kept = spectra;
    if (backward) kept += spectra + 2 * group.members.count * group.stride;
    largest = std::max(largest, kept + passing);
  }
  const Index finest = levels[0].grid.size;
  const Index all = largest + 6 * finest + (backward ? 2 * stride + finest : 0);
  const Index budget = scratch_ / Index(sizeof(T));
  return std::clamp<Index>(budget / std::max<Index>(all, 1), 1, std::max<Index>(batch, 1));
}

template struct Tables<float>;
template struct Tables<double>;

template <class T>
Plan<T>::Plan(const fastdl_scattering_tree& tree, const Limits& limits) : device_(fastdl::cuda::place().device) {
  constexpr const char* name = "scattering.plan";
  // On the default stream, and waited for: calls on any stream find the tables there.
  tables_ = std::make_unique<Tables<T>>(name, tree, limits, nullptr);
  int number;
  fastdl::cuda::copy_to_host(name, &number, tables_->channel_0, sizeof(number), nullptr);
}

template <class T>
Plan<T>::Plan(Plan&& other) noexcept = default;

template <class T>
Plan<T>::~Plan() {
  give_back(device_, tables_);
}

template <class T>
Index Plan<T>::samples() const {
  return tables_->samples();
}
template <class T>
Index Plan<T>::results() const {
  return tables_->channels * tables_->outputs;
}

template class Plan<float>;
template class Plan<double>;

}  // namespace fastdl::scattering::cuda
