// Lines that a program shows to people when it is ready.
#pragma once

#include <string>

namespace baton {

// Writes `text` to stderr: as it is if the log is text, as one message of it if it is JSON. Writes
// nothing if LogsInfo() is false. Thread-safe as the log is (log.h).
void LogBanner(const std::string& text);

}  // namespace baton
