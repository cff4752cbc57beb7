// Whether this machine's GPUs can be used, and by which build.
#pragma once

#include "client/doctor/finding.h"
#include "client/doctor/gpu_facts.h"

namespace baton {

// One "gpu.driver" that is skipped if there is no GPU. Else gpu.driver, gpu.build, a gpu.device
// for each, and gpu.sharing where several of `workers` would share a device. Pure.
Findings GpuFindings(const GpuFacts& facts, int workers);

}  // namespace baton
