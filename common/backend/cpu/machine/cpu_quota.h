// The CPU time that the control group of this process grants, by which containers are limited.
#pragma once

#include <string>

namespace baton {

// The number of CPUs that the quota of CPU time is worth, rounded up: at least 1, or 0 if there
// is no limit. It is the least of the group's own limit and of those above it, in control groups of
// version 2 and 1.
int QuotaCpus();

// QuotaCpus from the text of /proc/self/cgroup, with control groups mounted at `root`.
int QuotaCpus(const std::string& groups, const std::string& root);

}  // namespace baton
