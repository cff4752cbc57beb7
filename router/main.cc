#include "router/router_main.h"

int main(int argc, char** argv) { return baton::RouterMain(argc, argv); }
