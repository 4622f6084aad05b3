// What one rendering may spend. Every loop of the interpreter, and every byte that it copies or scans, is
// paid for here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "template/fault.h"

namespace lithe::chat {

class Budget {
 public:
  Budget(std::uint64_t steps, std::size_t text_bytes, int depth)
      : steps_(steps), text_bytes_(text_bytes), max_depth_(depth) {}

  void step(std::uint64_t count = 1) {
    if (count > steps_) fail(Code::resource_exhausted, "the template takes too many steps");
    steps_ -= count;
  }
  /// A long conversation may take longer.
  void grant(std::uint64_t count) { steps_ += count; }
  /// Memory is bounded by the steps: 16 bytes each.
  void allocate(std::size_t bytes) { step(1 + bytes / 16); }
  void scan(std::size_t bytes) { step(1 + bytes / 64); }

  /// The longest text that may exist: the output, or any value on the way.
  void check_text(std::size_t bytes) const {
    if (bytes > text_bytes_)
      fail(Code::resource_exhausted, "the template writes more than {} bytes", text_bytes_);
  }

  int max_depth() const { return max_depth_; }
  void check_depth(int depth) const {
    if (depth > max_depth_) fail(Code::resource_exhausted, "values are nested more than {} deep", max_depth_);
  }

  /// One level of the evaluator's own recursion, which bounds the machine's stack.
  class Level {
   public:
    explicit Level(Budget& budget) : budget_(budget) {
      if (++budget_.level_ > kLevelsPerDepth * budget_.max_depth_) {
        --budget_.level_;
        fail(Code::resource_exhausted, "the template recurses too deeply");
      }
    }
    ~Level() { --budget_.level_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Budget& budget_;
  };

 private:
  static constexpr int kLevelsPerDepth = 5;  // a macro's body is some levels of the evaluator
  std::uint64_t steps_;
  std::size_t text_bytes_;
  int max_depth_;
  int level_ = 0;
};

}  // namespace lithe::chat
