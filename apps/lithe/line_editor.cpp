#include "line_editor.h"

#include <histedit.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <system_error>

#include "console.h"

namespace lithe::app {

struct LineEditor::Edit {
  EditLine* line = nullptr;
  History* history = nullptr;
  HistEvent event{};
  std::string file, prompt;
};

namespace {

constexpr int kHistorySize = 1000;

const char* show_prompt(EditLine* line) {
  void* prompt = nullptr;
  ::el_get(line, EL_CLIENTDATA, &prompt);
  return static_cast<std::string*>(prompt)->c_str();
}

/// The next character of the locale for libedit: 1, 0 at the end, -1 with errno for a signal.
int next_character(EditLine*, wchar_t* out) {
  std::mbstate_t state{};
  for (;;) {
    if (!wait_for_input()) {
      errno = EINTR;
      return -1;
    }
    char byte = 0;
    const ssize_t n = ::read(STDIN_FILENO, &byte, 1);
    if (n <= 0) return static_cast<int>(n);
    if (byte == '\0')
      continue;  // a ^D from before the terminal was ours; libedit would take the next key literally
    switch (std::mbrtowc(out, &byte, 1, &state)) {
      case static_cast<std::size_t>(-2):
        continue;  // more bytes to come
      case static_cast<std::size_t>(-1):
        state = {};
        continue;  // no character at all: skipped
      default:
        return 1;
    }
  }
}

/// One byte at a time: stdio may swallow what comes after the line, and does not give up for a signal.
LineEditor::Line read_plain() {
  LineEditor::Line line;
  for (;;) {
    char c = 0;
    if (!wait_for_input()) {
      line.outcome = LineEditor::Outcome::interrupted;
      return line;
    }
    if (::read(STDIN_FILENO, &c, 1) <= 0) {
      if (!line.text.empty()) line.outcome = LineEditor::Outcome::line;
      return line;
    }
    if (c == '\n') {
      line.outcome = LineEditor::Outcome::line;
      return line;
    }
    line.text += c;
    if (line.text.size() > kMostMessageBytes) {
      line.outcome = LineEditor::Outcome::too_long;
      return line;
    }
  }
}

}  // namespace

LineEditor::LineEditor(std::string history_file)
    : terminal_(::isatty(STDIN_FILENO) == 1 && stdout_is_terminal()) {
  if (!terminal_) return;
  // libedit reads characters of the locale; a bare "C" locale would garble everything beyond ASCII.
  if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
  edit_ = std::make_unique<Edit>();
  Edit& e = *edit_;
  e.file = std::move(history_file);
  e.line = ::el_init("lithe", stdin, stdout, stderr);
  e.history = ::history_init();
  if (e.line == nullptr || e.history == nullptr) {
    terminal_ = false;
    return;
  }
  ::history(e.history, &e.event, H_SETSIZE, kHistorySize);
  ::history(e.history, &e.event, H_SETUNIQUE, 1);
  if (!e.file.empty()) ::history(e.history, &e.event, H_LOAD, e.file.c_str());
  ::el_set(e.line, EL_CLIENTDATA, &e.prompt);
  ::el_set(e.line, EL_PROMPT, show_prompt);
  ::el_set(e.line, EL_GETCFN, next_character);
  ::el_set(e.line, EL_EDITOR, "emacs");
  ::el_set(e.line, EL_HIST, ::history, e.history);
  ::el_set(e.line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
  ::el_source(e.line, nullptr);  // the user's ~/.editrc has the last word
}

LineEditor::~LineEditor() {
  if (!edit_) return;
  Edit& e = *edit_;
  if (e.history != nullptr) {
    if (!e.file.empty()) {
      std::error_code ignored;
      std::filesystem::create_directories(std::filesystem::path(e.file).parent_path(), ignored);
      const mode_t before = ::umask(0077);
      ::history(e.history, &e.event, H_SAVE, e.file.c_str());
      ::umask(before);
    }
    ::history_end(e.history);
  }
  if (e.line != nullptr) ::el_end(e.line);
}

LineEditor::Line LineEditor::read(const std::string& prompt) {
  if (!terminal_) return read_plain();
  Edit& e = *edit_;
  e.prompt = prompt;
  ::el_resize(e.line);
  // Before the prompt: libedit itself would do so after it, and what is typed in between would be the terminal's to read.
  ::el_set(e.line, EL_PREP_TERM, 1);
  int count = 0;
  const char* text = ::el_gets(e.line, &count);
  Line line;
  if (text == nullptr || count <= 0) {
    line.outcome = interrupted() ? Outcome::interrupted : Outcome::end;
    std::fputc('\n', stdout);
    std::fflush(stdout);
    return line;
  }
  line.outcome = Outcome::line;
  line.text.assign(text, static_cast<std::size_t>(count));
  while (!line.text.empty() && (line.text.back() == '\n' || line.text.back() == '\r')) line.text.pop_back();
  if (line.text.find_first_not_of(" \t") != std::string::npos) {
    ::history(e.history, &e.event, H_ENTER, line.text.c_str());
  }
  return line;
}

}  // namespace lithe::app
