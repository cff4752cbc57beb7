// The results of a load as one page of HTML with plots, which needs nothing from elsewhere.
#pragma once

#include <string>

#include "bench/serve/report/load_report.h"

namespace baton {

// Tables of the figures and, for each class, charts: the distributions of TTFT and ITL, both over
// time, requests due and good over time, and the stages. No scripts; all text is escaped.
std::string FormatHtml(const LoadReport& report);

}  // namespace baton
