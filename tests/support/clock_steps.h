// A wall clock that tests can set without setting the machine's.
#pragma once

#include <cstdint>

// Moves the wall clock of this process by so many nanoseconds: what clock_gettime(CLOCK_REALTIME)
// returns, and when a futex wait until a time of that clock ends. Thread-safe.
//
// A program that loads the library by LD_PRELOAD names in CLOCK_STEPS_FILE a file whose 8 bytes
// are the distance to the machine's clock in nanoseconds. Others may write it at any time.
extern "C" void BatonStepWallClock(int64_t nanoseconds);
