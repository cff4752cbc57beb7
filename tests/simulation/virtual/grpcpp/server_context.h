// Stands in for gRPC's header of this name.
#pragma once

#include "tests/simulation/virtual/grpc_reactors.h"
