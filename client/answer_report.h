// How an answer is shown besides its text.
#pragma once

#include <string>

#include "client/generate_client.h"

namespace baton {

// The timeline and rates of --stats: a table of a line each.
std::string FormatStats(const Answer& answer);
// The object of --json, on one line: text, token_ids, finish_reason, usage and timings
// (milliseconds).
std::string FormatJson(const Answer& answer);

}  // namespace baton
