// A progress bar for work that takes more than a moment: on stderr, and only when that is a terminal.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

namespace lithe {

/// One line, redrawn at most ten times a second and erased at the end, so that results on stdout stay clean.
/// advance() and note() may be called from several threads; they cost an atomic add where nothing is drawn.
class Progress {
 public:
  /// `total` in whatever unit advance() counts: bytes, tokens, chunks. Above 0, or the bar shows no share.
  Progress(std::string label, double total);
  ~Progress();  // erases the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void advance(double amount);
  /// A few words behind the bar: the tensor or the value so far.
  void note(std::string text);
  /// Erases the line, so that a log message can be printed; the next advance() draws it again.
  void erase();

 private:
  void draw();
  std::string label_;
  double total_;
  bool terminal_;
  std::chrono::steady_clock::time_point begin_;
  std::atomic<double> done_{0.0};
  std::atomic<std::int64_t> next_draw_ms_{0};
  std::mutex drawing_;
  std::string note_;
  bool drawn_ = false;
};

/// The line itself, for tests: "label [####----]  42%  1 min 5 s left  note", at most `width` columns of ASCII.
/// share in [0, 1]; seconds: since the beginning.
std::string progress_line(std::string_view label, double share, double seconds, std::string_view note,
                          int width);

/// "0.8 s", "12 s", "1 min 5 s", "2 h 3 min".
std::string human_seconds(double seconds);

}  // namespace lithe
