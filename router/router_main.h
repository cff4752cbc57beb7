// baton-router: clients' requests in, work for prefill and decode workers out.
#pragma once

namespace baton {

// Runs the program and returns its exit status. Called once, by main.
int RouterMain(int argc, char** argv);

}  // namespace baton
