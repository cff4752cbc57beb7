// Standard output of a program whose output is its purpose: what cannot be written is an error. And
// what becomes of a program whose output, log or peer nobody reads any more.
#pragma once

#include "absl/strings/string_view.h"

namespace baton {

// Exit codes of a program that could not write its output.
inline constexpr int kExitOutput = 74;       // EX_IOERR of sysexits.h
inline constexpr int kExitReaderGone = 141;  // as a shell reports a death by SIGPIPE

// Makes writes to a pipe or connection without a reader fail with EPIPE, instead of ending the
// process by SIGPIPE: a server outlives the reader of its log, and libraries that write to
// connections do not end it. Children inherit this. Called by main before it starts threads.
void IgnoreSigpipe();

// Writes all of `text` before it returns: byte for byte, but to a terminal as TerminalFilter
// returns it, which may hold back the last bytes of a text without a newline at its end. If writing
// fails, the process ends at once: with one line on stderr and kExitOutput or, if the reader is
// gone (`| head`), silently, by SIGPIPE, or with kExitReaderGone where SIGPIPE was ignored when the
// program started. Not to be mixed with stdio's stdout. Thread-safe, but texts of several threads
// may mingle.
void WriteOutput(absl::string_view text);

// Returns the width of the terminal on standard output. 0 if it is no terminal, or does not say.
// Thread-safe.
int TerminalColumns();

// Empties the screen and the scrollback of standard output if that is a terminal. Thread-safe.
void ClearTerminal();

}  // namespace baton
