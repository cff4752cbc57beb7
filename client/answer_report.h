// What is shown of an answer besides its text: statistics, JSON and errors. All functions are pure.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "client/generate_client.h"
#include "common/worker/kv_memory.h"

namespace baton {

// Returns the table of --stats, one figure a line: the sampling parameters of `request` with the
// seed that was used, and a remark if the server has filled in others; the time line and the token
// rates; and if the workers' layout is known, the memory of the answer's KV in their type and in
// smaller ones. REQUIRES: the answer's status is OK.
std::string FormatStats(const Answer& answer, const v1::GenerateRequest& request,
                        const std::optional<KvLayout>& kv = std::nullopt);

// The object of --json, on one line. A choice has text, token_ids, finish_reason (null while the
// choice is not complete) and, if they were requested, logprobs and (the first) prompt_logprobs.
// The fields of a single choice stand in the object itself; several choices stand in the list
// `choices`. If a choice is complete, usage, seed and timings (milliseconds) follow; if the status
// is not OK, `error` follows.
// `timeout` is the request's, as in DescribeFailure. REQUIRES: at least one choice.
std::string FormatJson(const Answer& answer, absl::Duration timeout);

// Says in one line for people why the answer failed. For a deadline the line says how many tokens
// had come within `timeout`; for a server that cannot be reached, which command starts one.
// REQUIRES: the status is not OK.
std::string DescribeFailure(const Answer& answer, absl::Duration timeout);

}  // namespace baton
