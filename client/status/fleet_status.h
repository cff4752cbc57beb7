// The routers' reports about the fleet (docs/page.md: GET /page/fleet), as one JSON object and as a
// table for a terminal. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

namespace baton {

// A router's answer. INVALID_ARGUMENT says what it is instead.
absl::StatusOr<nlohmann::ordered_json> ParseFleet(absl::string_view body);

// Several routers' answers as one: all routers, each worker once, with the sum of what each router
// has given it, the workers that their loads need together, and the events of all in the order of
// their times. REQUIRES: at least one.
nlohmann::ordered_json JoinFleets(const std::vector<nlohmann::ordered_json>& fleets);

// Routers, what the load needs, workers and the last `events` events, in lines.
std::string FleetTable(const nlohmann::ordered_json& fleet, size_t events);

}  // namespace baton
