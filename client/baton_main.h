// The `baton` command: its subcommands are in *_command.cc.
#pragma once

namespace baton {

// Runs the program and returns its exit status. Called once, by main.
int BatonMain(int argc, char** argv);

}  // namespace baton
