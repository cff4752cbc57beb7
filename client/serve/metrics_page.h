// The metrics of all programs of a local cluster as one page, for one Prometheus target.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace baton {

struct MetricsSource {
  std::string part;     // name of the program in the cluster, such as prefill-0
  std::string address;  // host:port of its GET /metrics
};

struct PartMetrics {
  std::string part;
  std::optional<std::string> text;  // its page of metrics; nullopt: it did not answer
};

// Merges the pages into one. Every sample gets the label `part` before its own labels; each metric
// family stands once, in the order of first appearance. The page begins with the gauge
// baton_part_up, which is 1 for each part that answered.
std::string MergeMetrics(const std::vector<PartMetrics>& parts);

// Fetches the pages one after the other and merges them. A part that does not answer within half a
// second is not up, nor is one whose turn has not come within five seconds. Any thread may call it.
std::string ScrapeParts(const std::vector<MetricsSource>& sources);

}  // namespace baton
