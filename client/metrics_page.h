// The metrics of all parts of a local cluster as one page, for one Prometheus target.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace baton {

struct MetricsSource {
  std::string part;     // such as prefill-0
  std::string address;  // host:port of its GET /metrics
};

struct PartMetrics {
  std::string part;
  std::optional<std::string> text;  // nothing when it gave none
};

// Every sample of every part with the label `part` in front of its own, each family once, in the
// order in which they are met. In front stands the gauge baton_part_up, 1 where the part gave its
// text.
std::string MergeMetrics(const std::vector<PartMetrics>& parts);

// Asks the parts one after the other. One that does not answer within half a second is not up, nor
// are those whose turn has not come within five. May be called from any thread.
std::string ScrapeParts(const std::vector<MetricsSource>& sources);

}  // namespace baton
