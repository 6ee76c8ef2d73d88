// Filters as lists of terms for the lanes: what is folded, in runs of outputs that are alike.
#include <algorithm>

#include "scattering/plan_tables.hpp"

namespace fastdl::scattering {
namespace {

// Neighbouring outputs read neighbouring elements: a line is what they have in common. At output x of a row it is the
// number of the filter at source + x, times the element at offset + x, or of a conjugated line at offset - x.
struct Line {
  Index offset, source;
  bool conjugate;

  bool operator==(const Line&) const = default;
  bool operator<(const Line& other) const {
    return conjugate != other.conjugate ? other.conjugate : source < other.source;
  }
};

template <class T>
Line line_of(Index source, Index x, const Level<T>& from) {
  const Index ky = source / from.nx, kx = source % from.nx;
  if (ky < from.half) return {ky * from.pitch + kx - x, source - x, false};
  return {(from.ny - ky) * from.pitch + (from.nx - kx) % from.nx + x, source - x, true};
}

struct Stretch {
  Index begin, end;  // outputs
  std::vector<Line> lines;
};

// The outputs of a row, as long as they have the same lines.
template <class T>
std::vector<Stretch> stretches_of(const std::vector<std::vector<T>>& filters, Index y, const Level<T>& from,
                                  const Level<T>& to) {
  const bool one_row = to.nx == 1;  // a single column is one row
  std::vector<Stretch> found;
  std::vector<Line> lines;
  for (Index x = 0; x < (one_row ? to.ny : to.nx); ++x) {
    lines.clear();
    for (Index ky = one_row ? x : y; ky < from.ny; ky += to.ny)
      for (Index kx = one_row ? 0 : x; kx < from.nx; kx += to.nx) {
        const Index source = ky * from.nx + kx;
        for (const std::vector<T>& filter : filters)
          if (filter[std::size_t(source)] != 0) {
            lines.push_back(line_of(source, x, from));
            break;
          }
      }
    std::sort(lines.begin(), lines.end());
    if (!found.empty() && found.back().lines == lines)
      ++found.back().end;
    else
      found.push_back({x, x + 1, lines});
  }
  return found;
}

// Fewer and longer stretches, some of whose terms are then 0: where one ends the processor has guessed on, and what it
// does until it knows better would have been so many terms. Of 32 x 32 pixels, J = 2, half of the stretches are left
// with a seventh more terms.
constexpr Index terms_of_a_guess = 8;
constexpr std::size_t looked_back = 16, most_lines = 8;

template <class T>
std::vector<Stretch> merged(const std::vector<Stretch>& all, const Level<T>& from) {
  struct Best {
    Index cost;
    std::size_t before;
    std::vector<Line> lines;
  };
  std::vector<Best> best{{0, 0, {}}};  // of the first 0, 1, ... stretches
  for (std::size_t end = 1; end <= all.size(); ++end) {
    Best found{-1, 0, {}};
    std::vector<Line> lines;
    for (std::size_t begin = end; begin-- > 0 && end - begin <= looked_back;) {
      std::vector<Line> both;
      std::set_union(lines.begin(), lines.end(), all[begin].lines.begin(), all[begin].lines.end(),
                     std::back_inserter(both));
      lines = std::move(both);
      const bool alone = end - begin == 1;
      const auto there = [&](const Line& line) {  // it must not leave its row, nor the half that is kept
        for (Index x = all[begin].begin; x < all[end - 1].end; ++x)
          if (!(line_of(line.source + x, x, from) == line)) return false;
        return true;
      };
      if (!alone && (lines.size() > most_lines || !std::all_of(lines.begin(), lines.end(), there))) break;
      const Index length = all[end - 1].end - all[begin].begin;
      const Index cost = best[begin].cost + terms_of_a_guess + length * Index(lines.size());
      if (found.cost < 0 || cost < found.cost) found = {cost, begin, lines};
    }
    best.push_back(std::move(found));
  }
  std::vector<Stretch> result;
  for (std::size_t end = all.size(); end > 0; end = best[end].before)
    result.push_back({all[best[end].before].begin, all[end - 1].end, best[end].lines});
  std::reverse(result.begin(), result.end());
  return result;
}

}  // namespace

// Of several filters the terms are those that any of them has, and their outputs are computed one by one.
template <class T>
Fold<T> PlanTables<T>::fold_of(const std::vector<Coefficients>& filters, const Level<T>& from, const Level<T>& to) {
  std::vector<std::int32_t> begin, middle, offset, rows;
  Numbers coef;
  std::vector<Run> runs;
  for (Index y = 0; y < (to.nx == 1 ? 1 : to.ny); ++y) {
    rows.push_back(std::int32_t(runs.size()));
    std::vector<Stretch> stretches = stretches_of(filters, y, from, to);
    // Where several columns become one, the next output is not the next place of the filter.
    if (filters.size() == 1 && (to.nx > 1 || from.nx == 1)) stretches = merged(stretches, from);
    for (const Stretch& stretch : stretches) {
      std::int32_t plain = 0;
      for (const Line& line : stretch.lines) plain += !line.conjugate;
      runs.push_back({std::int32_t(stretch.end - stretch.begin), plain, std::int32_t(stretch.lines.size()) - plain});
      for (Index x = stretch.begin; x < stretch.end; ++x) {
        begin.push_back(std::int32_t(offset.size()));
        middle.push_back(std::int32_t(offset.size()) + plain);
        for (const Line& line : stretch.lines) {
          offset.push_back(std::int32_t(line.conjugate ? line.offset - x : line.offset + x));
          for (const Coefficients& filter : filters) coef.push_back(filter[std::size_t(line.source + x)]);
        }
      }
    }
  }
  begin.push_back(std::int32_t(offset.size()));
  rows.push_back(std::int32_t(runs.size()));
  const Index terms = Index(offset.size());
  const std::int32_t* begins = keep(offsets_, std::move(begin));
  const std::int32_t* middles = keep(offsets_, std::move(middle));
  const std::int32_t* places = keep(offsets_, std::move(offset));
  const T* numbers = keep(numbers_, std::move(coef));
  const Run* all_runs = keep(runs_, std::move(runs));
  return {begins, middles, places, numbers, terms, Index(filters.size()), all_runs, keep(offsets_, std::move(rows))};
}

template Fold<float> PlanTables<float>::fold_of(const std::vector<Coefficients>&, const Level<float>&,
                                                const Level<float>&);
template Fold<double> PlanTables<double>::fold_of(const std::vector<Coefficients>&, const Level<double>&,
                                                  const Level<double>&);

}  // namespace fastdl::scattering
