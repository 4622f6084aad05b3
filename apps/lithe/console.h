// The terminal's side of a command: results on stdout, Ctrl-C.
#pragma once

#include <string_view>

#include "base/status.h"

namespace lithe::app {

/// Writes all of it to stdout at once. cancelled: the reader has gone (`| head`). io: the disk is full, stdout closed.
Status print(std::string_view text);

bool stdout_is_terminal();
bool stderr_is_terminal();

/// Keeps descriptors 0 to 2 occupied, so that no file opened later is taken for stdout, and turns SIGPIPE into an
/// error of print(). First thing in main().
void prepare_console();

/// From here on Ctrl-C (or SIGTERM) only sets a flag, so that a command can end cleanly; a second one ends the program.
void watch_interrupts();
bool interrupted();
/// SIGINT, SIGTERM, or 0.
int interrupt_number();
void forget_interrupt();
/// Waits until stdin has something to read (true) or a watched signal came (false), even one that came just before.
bool wait_for_input();
/// Ends the program as an untouched signal would have, so that a calling shell sees why.
[[noreturn]] void die_of_interrupt();

}  // namespace lithe::app
