// Reads the kernel's files about the machine, which are small and may be missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace baton {

// The file's first mebibyte; empty if it cannot be read.
std::string ReadMachineFile(const std::string& path);
// The same without white space at both ends.
std::string ReadMachineLine(const std::string& path);
// The file's first number.
std::optional<uint64_t> ReadMachineNumber(const std::string& path);

// Names of the folder's entries that begin with `prefix` and go on with digits, such as "cpu7";
// in the order of those numbers.
std::vector<std::string> NumberedEntries(const std::string& folder, const std::string& prefix);

}  // namespace baton
