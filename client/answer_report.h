// How an answer is shown besides its text.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "client/generate_client.h"

namespace baton {

// How the answer to `request` was drawn, its timeline and rates: a table of a line each for
// --stats. REQUIRES: the answer's status is OK.
std::string FormatStats(const Answer& answer, const v1::GenerateRequest& request);

// The object of --json, on one line: text, token_ids, finish_reason (null where it is not complete)
// and logprobs where asked for, or `choices` with these where several were asked for; then usage,
// seed and timings (milliseconds). `error` is there where the answer's status is not OK, and usage
// and so on only where a choice is complete. `timeout`: as DescribeFailure takes it.
std::string FormatJson(const Answer& answer, absl::Duration timeout);

// Why the answer failed, in one line for people: a deadline with how far the answer was within
// `timeout`, a server that is not there with what starts one. REQUIRES: the status is not OK.
std::string DescribeFailure(const Answer& answer, absl::Duration timeout);

}  // namespace baton
