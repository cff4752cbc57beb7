// Runs a fuzz target without a fuzzer, as an ordinary test: over its seeds, the files and folders
// that it is given, and over mutations of them, the same at every run.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr int kMutations = 2000;
constexpr size_t kMaxMutatedBytes = size_t{16} << 10;

void Run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

std::vector<std::string> ReadSeeds(int count, char** paths) {
  std::vector<std::filesystem::path> files;
  for (int i = 0; i < count; ++i) {
    if (!std::filesystem::is_directory(paths[i])) {
      files.emplace_back(paths[i]);
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(paths[i])) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<std::string> seeds;
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

std::string Mutated(const std::vector<std::string>& seeds, std::mt19937& random) {
  const auto below = [&](size_t end) { return end == 0 ? 0 : random() % end; };
  std::string bytes = seeds[below(seeds.size())];
  for (size_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t at = below(bytes.size() + 1);
    switch (below(5)) {
      case 0:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random());
        break;
      case 1:
        if (at < bytes.size()) bytes[at] ^= static_cast<char>(1 << below(8));
        break;
      case 2:
        bytes.erase(at, 1 + below(16));
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(bytes.size()), below(32)));
        break;
      default: {
        const std::string& other = seeds[below(seeds.size())];
        bytes.insert(at, other.substr(below(other.size()), below(64)));
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> seeds = ReadSeeds(argc - 1, argv + 1);
  if (seeds.empty()) seeds.emplace_back();
  for (const std::string& seed : seeds) Run(seed);
  // Long seeds are mutated as their beginnings, where the structure is.
  for (std::string& seed : seeds) seed.resize(std::min(seed.size(), kMaxMutatedBytes));
  std::mt19937 random(1);
  for (int i = 0; i < kMutations; ++i) Run(Mutated(seeds, random));
  std::cout << seeds.size() << " seeds and " << kMutations << " mutations\n";
  return 0;
}
