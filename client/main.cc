#include "client/baton_main.h"

// CLI11 throws where flags are declared wrongly, which every run would.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) { return baton::BatonMain(argc, argv); }
