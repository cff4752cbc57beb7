// Stands in front of router/request/request_machine.h: the same machine, and what it goes through is
// counted.
#pragma once

#include_next "router/request/request_machine.h"

namespace baton {

using RealRequestMachine = RequestMachine;

class ObservedRequestMachine : public RequestMachine {
 public:
  using RequestMachine::RequestMachine;
  RequestActions Handle(const RequestEvent& event, absl::Time now);
};

}  // namespace baton

#define RequestMachine ObservedRequestMachine
