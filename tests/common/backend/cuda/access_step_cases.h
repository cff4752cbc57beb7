// Launches for tests/gpu/access_budget.txt, of what a step runs beside products and attention.
#pragma once

#include <vector>

#include "tests/common/backend/cuda/access_budget.h"

namespace baton {

// The mixture of experts of a layer.
void MeasureExperts(std::vector<MeasuredLaunch>& launches);

// What works on rows: embedding, norms, gates, biases, and the inputs of products by the library.
void MeasureRows(std::vector<MeasuredLaunch>& launches);

// The kernels that sample the rows' tokens.
void MeasureSampler(std::vector<MeasuredLaunch>& launches);

}  // namespace baton
