// Lines from a person (editing and history by libedit) or from a pipe (plain lines).
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

namespace lithe::app {

/// Of one line, and of one message of several: an endless stdin must not fill the memory.
inline constexpr std::size_t kMostMessageBytes = std::size_t{1} << 20;

class LineEditor {
 public:
  /// history_file: read now and written at the end; empty = none. It holds what was typed, so it is the user's alone
  /// (mode 0600).
  explicit LineEditor(std::string history_file);
  ~LineEditor();

  enum class Outcome { line, end, interrupted, too_long };
  struct Line {
    Outcome outcome = Outcome::end;
    std::string text;  // without the newline
  };
  /// Shows the prompt (on a terminal only) and waits for one line. interrupted: Ctrl-C, or another watched signal.
  Line read(const std::string& prompt);
  bool terminal() const { return terminal_; }

 private:
  struct Edit;
  bool terminal_;
  std::unique_ptr<Edit> edit_;
};

}  // namespace lithe::app
