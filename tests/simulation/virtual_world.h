// Where the router's sources, compiled against virtual/, find the simulation they run in.
#pragma once

namespace baton {

struct Sim;
class ControlNetwork;

struct VirtualWorld {
  Sim* sim = nullptr;
  ControlNetwork* network = nullptr;
};

// Of this thread; set before a router is made, until it is gone.
VirtualWorld& CurrentWorld();

}  // namespace baton
