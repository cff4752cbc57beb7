// Stands in for the generated header: the simulation calls the router's parts itself.
#pragma once

#include "baton/v1/generation.pb.h"
#include "tests/simulation/virtual/grpc_reactors.h"
