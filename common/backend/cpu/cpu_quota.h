// How much CPU time the control group of this process grants: containers are limited so.
#pragma once

#include <string>

namespace baton {

// CPUs that the time is worth, rounded up: at least 1; 0 where it is not limited. The least of the
// group's own limit and of those above it, in control groups of version 2 and 1.
int QuotaCpus();

// The same from the text of /proc/self/cgroup, with control groups mounted at `root`.
int QuotaCpus(const std::string& groups, const std::string& root);

}  // namespace baton
