// The state of one Decoder::forward(): which rows there are, of which sequences, and where they lie.
#pragma once

#include <cstdint>
#include <vector>

#include "models/decoder.h"

namespace lithe::models {

// Rows of one sequence that lie in one page: a unit of work that no other worker's stores touch.
struct Decoder::Tile {
  std::int64_t row = 0, count = 0, position = 0;
  std::size_t sequence = 0;
};

// Consecutive rows of one sequence that ask the cache.
struct Decoder::Run {
  std::int64_t row = 0, count = 0, position = 0;
  std::size_t sequence = 0;
};

// The state of one forward().
struct Decoder::Pass {
  const Batch& batch;
  std::int64_t rows = 0;                  // still alive: all, or from the last layer on those wanted
  float* x = nullptr;                     // [rows, hidden], the residual stream
  std::vector<std::int64_t> first{};      // first new position of each sequence
  std::vector<std::int64_t> positions{};  // [rows]
  std::vector<Tile> tiles{};              // of all rows of the batch
  std::vector<Run> runs{};                // of the rows alive
  bool only_wanted = false;               // x holds the wanted rows alone
};

}  // namespace lithe::models
