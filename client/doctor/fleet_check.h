// Whether the workers of a fleet fit each other, as a router sees them.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "client/doctor/finding.h"

namespace baton {

// `fleet` is what ParseFleet gives (client/status). A fleet.worker for each, then fleet.roles,
// fleet.model (who may work on one request), fleet.kv_type, fleet.numerics and fleet.version; the
// subjects are workers, or `router`, the address that was asked. Pure.
Findings FleetFindings(const std::string& router, const nlohmann::ordered_json& fleet);

}  // namespace baton
