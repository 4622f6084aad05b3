#include "console.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace lithe::app {
namespace {

volatile std::sig_atomic_t interrupt_signal = 0;  // written by the handler alone

extern "C" void note_interrupt(int signal) {
  if (interrupt_signal != 0) {  // asked twice: at once, as if never caught
    std::signal(signal, SIG_DFL);
    std::raise(signal);
    return;
  }
  interrupt_signal = signal;
}

}  // namespace

Status print(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      return cancelled("the reader of stdout has gone");
    } else if (errno != EINTR) {
      return io_error("cannot write to stdout: {}", std::strerror(errno));
    }
  }
  return {};
}

bool stdout_is_terminal() {
  return ::isatty(STDOUT_FILENO) != 0;
}
bool stderr_is_terminal() {
  return ::isatty(STDERR_FILENO) != 0;
}

void prepare_console() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // stdout opened for reading: a write fails and is reported, instead of vanishing
    const int opened = ::open("/dev/null", descriptor == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != -1 && opened != descriptor) ::close(opened);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void watch_interrupts() {
  struct sigaction action = {};
  action.sa_handler = note_interrupt;  // no SA_RESTART: a blocking read ends
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() {
  return interrupt_signal != 0;
}
int interrupt_number() {
  return interrupt_signal;
}
void forget_interrupt() {
  interrupt_signal = 0;
}

bool wait_for_input() {
  sigset_t watched, before;
  ::sigemptyset(&watched);
  ::sigaddset(&watched, SIGINT);
  ::sigaddset(&watched, SIGTERM);
  // Delivered in ppoll() only, so that none falls between the look at the flag and the sleep.
  ::pthread_sigmask(SIG_BLOCK, &watched, &before);
  bool ready = false;
  while (!interrupted() && !ready) {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    const int found = ::ppoll(&input, 1, nullptr, &before);
    ready = found > 0 || (found < 0 && errno != EINTR);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return ready;
}

void die_of_interrupt() {
  const int signal = interrupt_signal != 0 ? interrupt_signal : SIGINT;
  std::fflush(nullptr);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
  std::_Exit(128 + signal);
}

}  // namespace lithe::app
