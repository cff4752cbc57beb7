// vLLM's names of the same metrics, for programs that read them: endpoint pickers of
// inference gateways, and dashboards. docs/operations.md has the table, with the differences.
#pragma once

#include <vector>

namespace prometheus {
struct MetricFamily;
}  // namespace prometheus

namespace baton {

// Adds to the families of one scrape, complete with the labels model_name and role, those of vLLM's
// names that correspond to them. Nothing is counted for them: the values are those of the families.
// A histogram keeps its bounds. Pure.
void AddVllmNames(std::vector<prometheus::MetricFamily>& families);

}  // namespace baton
