// Finds what was asked for among the actions of a request's state.
#pragma once

#include <variant>

#include "router/request/request_state.h"

namespace baton {

template <typename Action>
int CountAsked(const RequestState& request) {
  int count = 0;
  for (const RequestAction& action : request.actions) {
    count += std::holds_alternative<Action>(action) ? 1 : 0;
  }
  return count;
}

// Null: there is none.
template <typename Action>
const Action* LastAsked(const RequestState& request) {
  const Action* last = nullptr;
  for (const RequestAction& action : request.actions) {
    if (const auto* found = std::get_if<Action>(&action)) last = found;
  }
  return last;
}

}  // namespace baton
