// Standard error of all programs, beside the log. Their texts reach it here and nowhere else, so
// that no text of a client, a server or a file reaches a terminal raw
// (common/base/terminal_text.h).
//
// All functions are thread-safe. One call is one write.
#pragma once

#include "absl/strings/string_view.h"

namespace baton {

// Writes the line "PROGRAM: MESSAGE", with `message` as ShownLine returns it.
void WriteErrorLine(absl::string_view program, absl::string_view message);

// Writes `text` as ShownText returns it, and adds no newline. Pass names and messages from outside
// through ShownLine first, or a newline in them would begin a line that looks like one of ours.
void WriteNotice(absl::string_view text);

}  // namespace baton
