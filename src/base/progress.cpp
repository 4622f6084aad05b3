#include "base/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/text.h"

namespace lithe {
namespace {

constexpr std::int64_t kRedrawMs = 100;
constexpr std::string_view kEraseLine = "\r\x1b[K";

int terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

std::string human_seconds(double seconds) {
  if (seconds < 9.95) return fmt::format("{:.1f} s", std::max(seconds, 0.0));
  if (seconds < 59.5) return fmt::format("{:.0f} s", seconds);
  const double capped = std::min(seconds, 1e9);
  const auto whole = static_cast<std::int64_t>(std::llround(capped));
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string progress_line(std::string_view label, double share, double seconds, std::string_view note,
                          int width) {
  constexpr int kBar = 28;
  share = std::clamp(share, 0.0, 1.0);
  const int filled = static_cast<int>(std::lround(share * kBar));
  std::string line =
      fmt::format("{} [{}{}] {:3.0f}%", label, std::string(static_cast<std::size_t>(filled), '#'),
                  std::string(static_cast<std::size_t>(kBar - filled), '-'), share * 100.0);
  // The first second says little about the rest.
  if (share > 0.0 && share < 1.0 && seconds > 1.0) {
    line += fmt::format("  {} left", human_seconds(seconds / share * (1.0 - share)));
  }
  if (!note.empty()) line += fmt::format("  {}", printable(note));
  if (line.size() > static_cast<std::size_t>(std::max(width, 1)))
    line.resize(static_cast<std::size_t>(std::max(width, 1)));
  return line;
}

Progress::Progress(std::string label, double total)
    : label_(std::move(label)),
      total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1),
      begin_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  erase();
}

void Progress::advance(double amount) {
  done_.fetch_add(amount, std::memory_order_relaxed);
  if (terminal_) draw();
}

void Progress::note(std::string text) {
  if (!terminal_) return;
  {
    const std::lock_guard lock(drawing_);
    note_ = std::move(text);
  }
  draw();
}

void Progress::erase() {
  if (!terminal_) return;
  const std::lock_guard lock(drawing_);
  if (drawn_) write_stderr(kEraseLine);
  drawn_ = false;
}

void Progress::draw() {
  using std::chrono::duration_cast;
  const auto elapsed = std::chrono::steady_clock::now() - begin_;
  const std::int64_t now = duration_cast<std::chrono::milliseconds>(elapsed).count();
  std::int64_t due = next_draw_ms_.load(std::memory_order_relaxed);
  if (now < due || !next_draw_ms_.compare_exchange_strong(due, now + kRedrawMs)) return;
  const std::lock_guard lock(drawing_);
  const double share = total_ > 0.0 ? done_.load(std::memory_order_relaxed) / total_ : 0.0;
  const double seconds = std::chrono::duration<double>(elapsed).count();
  write_stderr(std::string(kEraseLine) + progress_line(label_, share, seconds, note_, terminal_width() - 1));
  drawn_ = true;
}

}  // namespace lithe
