// The engine by blocks of columns: many products of one size whose columns are gathered, each once, by the task that
// needs them, and whose finished rows go to a consumer. Convolutions are such products: few rows of weights against
// many windows of an image.
//
//   pack the rows of A, whole depth                            shared by all threads
//   for each product, block of columns and group of rows       a task, on any thread
//     for each stretch of k
//       pack B's columns                                       depth x columns, in L2
//       for each panel of 6 rows: its tiles, summed in the output or in a block of the task's own; when finished, the
//       consumer
//
// As in the engine, the sum of an element is taken in the order of k in stretches that depend on the depth alone.
#pragma once

#include "core/scratch.hpp"
#include "core/threads.hpp"
#include "gemm/engine.hpp"

namespace fastdl::gemm {
namespace {

// How the columns and rows of a product are cut. Only speed depends on it.
struct Cut {
  Index columns, rows;
};

template <class T>
Cut cut_columns(Index products, Extents size, Index depth, bool one_pass, int threads) {
  using S = Shape<T>;
  const Index bytes = core::l2_bytes() * 3 / 8;
  const auto fit = [&](Index rows_of) { return bytes / (Index(sizeof(T)) * (rows_of + 1)); };
  const auto clamp = [](Index low, Index value, Index high) { return value < low ? low : value > high ? high : value; };
  // Columns: the packed block in half of L2, but so that every thread gets several tasks, if that leaves three tiles.
  Index columns = clamp(S::columns, fit(depth) / S::columns * S::columns, 512);
  const Index enough = divide_up(size.columns, divide_up(4 * threads, products));
  if (threads > 1 && enough < columns) columns = clamp(3 * S::columns, enough, columns);
  columns = round_up(divide_up(size.columns, divide_up(size.columns, columns)), S::columns);
  // Rows: sums that wait for the next stretch stay in L2 too; and if columns do not give every thread a task, rows do.
  const Index tasks = products * divide_up(size.columns, columns);
  Index rows = one_pass ? size.rows : clamp(S::rows, fit(columns), size.rows);
  if (threads > 1 && tasks < 2 * threads)
    rows = clamp(2 * S::rows, divide_up(size.rows, divide_up(2 * threads, tasks)), rows);
  return {columns, round_up(divide_up(size.rows, divide_up(size.rows, rows)), S::rows)};
}

template <class T>
int threads_for(Index products, Extents size) {
  const double flops = 2.0 * double(products) * double(size.rows) * double(size.columns) * double(size.depth + 1);
  return flops < 4e6 ? 1 : core::thread_count();
}

// Rows packed for the tiles: panels of 6 for every stretch of k. Made once and used for any columns.
template <class T>
struct PackedRows {
  static constexpr bool packed = true;
  const T* data;
  Index height, depth;  // rows, rounded up to panels; k in all

  const T* panel(Index product, Index row, Stretch stretch, T* = nullptr) const {
    return data + (product * depth + stretch.first) * height + row * stretch.depth;
  }
};

// Rows packed when their turn comes: for those that are wanted once. a(product) gives an operand with pack_rows.
template <class T, class Rows>
struct RowsAtTheirTurn {
  static constexpr bool packed = false;
  const Rows& a;
  Index rows;

  const T* panel(Index product, Index row, Stretch stretch, T* room) const {
    a(product).pack_rows(row, int(at_most(Shape<T>::rows, rows - row)), stretch.first, stretch.depth, room);
    return room;
  }
};

// Whether a block has all columns of a product, which then wants its rows once.
template <class T>
bool in_one_block(Index products, Extents size) {
  const Index depth = balanced_depth<T>(size.depth);
  return cut_columns<T>(products, size, depth, depth >= size.depth, threads_for<T>(products, size)).columns >=
         size.columns;
}

template <class T>
Index packed_rows_size(Index products, Extents size) {
  return products * round_up(size.rows, Shape<T>::rows) * size.depth;
}

// a(product) gives an operand with pack_rows (pack.hpp).
template <class T, class Rows>
PackedRows<T> pack_all_rows(Index products, Extents size, const Rows& a, T* to) {
  using S = Shape<T>;
  const PackedRows<T> packed{to, round_up(size.rows, S::rows), size.depth};
  const Index depth = balanced_depth<T>(size.depth), panels = packed.height / S::rows;
  const int threads = products * packed.height * size.depth < (1 << 15) ? 1 : core::thread_count();
  core::parallel_for(products * panels, threads, [&](Index task) {
    const Index product = task / panels, row = task % panels * S::rows;
    const auto operand = a(product);
    for (Index k = 0; k < size.depth; k += depth) {
      const Stretch stretch{k, at_most(depth, size.depth - k), size.depth};
      operand.pack_rows(row, int(at_most(S::rows, size.rows - row)), k, stretch.depth,
                        const_cast<T*>(packed.panel(product, row, stretch)));
    }
  });
  return packed;
}

// The panels of columns [column, column + width). An operand may have a way of its own for all of them together.
template <class T, class Operand>
FASTDL_INLINE void pack_block(const Operand& operand, Index column, Index width, Stretch stretch, T* packed) {
  constexpr Index step = Shape<T>::columns;
  Index j = 0;
  if constexpr (requires { operand.pack_panels(column, width, stretch.first, stretch.depth, packed); })
    j = operand.pack_panels(column, width / step * step, stretch.first, stretch.depth, packed);
  for (; j < width; j += step) {
    const int count = int(at_most(step, width - j));
    operand.pack_columns(column + j, count, stretch.first, stretch.depth, padded<T>(count), packed + j * stretch.depth);
  }
}

// Where finished rows go, if they do not stay where the tiles put them: `done(product, row, rows, column, width,
// values)` takes rows [row, row + rows), columns [column, column + width) of a product from a block of the task's own.
template <class Function>
struct HandOver {
  static constexpr bool in_place = false;
  const Function& done;
};

// Tiles are put into output(product), a matrix, at once; `done` sees them there.
template <class Target, class Function>
struct InPlace {
  static constexpr bool in_place = true;
  const Target& output;
  const Function& done;
};

// b(product) gives an operand with pack_columns. `sharing` products in a row have the same rows.
template <class T, class Rows, class Columns, class Sink>
void multiply_columns(Index products, Index sharing, Extents size, const Rows& a, const Columns& b, const Sink& sink) {
  using S = Shape<T>;
  if (products == 0 || size.rows == 0 || size.columns == 0) return;
  const int threads = threads_for<T>(products, size);
  const Index depth = balanced_depth<T>(size.depth);
  const Index passes = depth == 0 ? 1 : divide_up(size.depth, depth);
  const Cut cut = cut_columns<T>(products, size, depth, passes == 1, threads);
  const Index blocks = divide_up(size.columns, cut.columns), groups = divide_up(size.rows, cut.rows);
  core::parallel_for(products * blocks * groups, threads, [&](Index task) {
    const Index product = task / (blocks * groups), column = task / groups % blocks * cut.columns;
    const Index first = task % groups * cut.rows, rows = at_most(cut.rows, size.rows - first);
    const Index width = at_most(cut.columns, size.columns - column);
    const auto operand = b(product);
    core::Scratch scratch;
    T* packed = scratch.array<T>(cut.columns, depth + 1);
    T* room = Rows::packed ? nullptr : scratch.array<T>(S::rows, depth + 1);
    Output<T> values;
    if constexpr (Sink::in_place)
      values = sink.output(product).at(first, column);
    else
      values = {scratch.array<T>(passes == 1 ? Index(S::rows) : cut.rows, cut.columns), cut.columns, 1};
    for (Index pass = 0; pass < passes; ++pass) {
      const Stretch stretch{pass * depth, at_most(depth, size.depth - pass * depth), size.depth};
      pack_block<T>(operand, column, width, stretch, packed);
      for (Index r = 0; r < rows; r += S::rows) {
        const int here = int(at_most(S::rows, rows - r));
        const Output<T> to = values.at(!Sink::in_place && passes == 1 ? 0 : r, 0);
        const T* panel = a.panel(product / sharing, first + r, stretch, room);
        const T* next = Rows::packed && r + S::rows < rows ? panel + S::rows * stretch.depth : nullptr;
        row_panel<T>(panel, next, packed, stretch, to, here, width, width, 0, MultiplyAdd{});
        if (stretch.last()) sink.done(product, first + r, here, column, width, to);
      }
    }
  });
}

}  // namespace
}  // namespace fastdl::gemm
