// Checks a worker's first message about itself. Pure functions.
#pragma once

#include <string>

#include "baton/internal/v1/worker.pb.h"
#include "router/fleet/worker_targets.h"

namespace baton {

// Why a worker with this introduction is never used; empty if nothing is wrong. Its texts are
// bounded, and those that people read have no characters that do not print.
std::string WhyNeverUsed(const WorkerTarget& target, const internal::v1::WorkerInfo& info,
                         const std::string& tokenizer_digest);

// Cuts the texts and lists of a worker that is never used, so that what is kept of it takes little
// memory.
void CutTexts(internal::v1::WorkerInfo& info);

}  // namespace baton
