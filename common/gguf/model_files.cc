#include "common/gguf/model_files.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

absl::string_view BytesAsText(absl::Span<const uint8_t> bytes) {
  return absl::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::string NameIn(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

absl::StatusOr<absl::Span<const uint8_t>> ModelFiles::Open(const std::string& path,
                                                           bool will_read_all) {
  BATON_ASSIGN_OR_RETURN(MappedFile map, MappedFile::Open(path, will_read_all));
  const absl::Span<const uint8_t> bytes = map.bytes();
  files_.push_back({.name = NameIn(path), .map = std::move(map), .memory = {}, .bytes = bytes});
  return bytes;
}

absl::Span<const uint8_t> ModelFiles::Add(const std::string& path, std::string bytes) {
  files_.push_back(
      {.name = NameIn(path), .map = std::nullopt, .memory = std::move(bytes), .bytes = {}});
  File& file = files_.back();
  file.bytes =
      absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(file.memory.data()), file.memory.size());
  return file.bytes;
}

uint64_t ModelFiles::size_bytes() const {
  uint64_t bytes = 0;
  for (const File& file : files_) bytes += file.bytes.size();
  return bytes;
}

void ModelFiles::Release(absl::Span<const uint8_t> part) const {
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  for (const File& file : files_) {
    const auto first = reinterpret_cast<uintptr_t>(file.bytes.data());
    if (begin < first || begin - first >= file.bytes.size()) continue;
    if (file.map.has_value()) file.map->Release(part);
    return;
  }
}

std::vector<const ModelFiles::File*> ModelFiles::SortedByName() const {
  std::vector<const File*> files;
  for (const File& file : files_) files.push_back(&file);
  std::sort(files.begin(), files.end(),
            [](const File* a, const File* b) { return a->name < b->name; });
  return files;
}

std::string ModelFiles::PiecewiseDigest(
    absl::FunctionRef<void(int count, absl::FunctionRef<void(int, int)> work)> run,
    const std::function<void(double)>& progress) const {
  constexpr size_t kPieceBytes = size_t{16} << 20;
  struct Piece {
    const File* file;
    absl::Span<const uint8_t> bytes;
    std::string digest;
  };
  const std::vector<const File*> files = SortedByName();
  std::vector<Piece> pieces;
  for (const File* file : files) {
    for (size_t at = 0; at < file->bytes.size(); at += kPieceBytes) {
      pieces.push_back({.file = file, .bytes = file->bytes.subspan(at, kPieceBytes), .digest = ""});
    }
  }
  std::atomic<uint64_t> done = 0;
  run(static_cast<int>(pieces.size()), [&](int thread, int index) {
    Piece& piece = pieces[static_cast<size_t>(index)];
    Sha256 hash;
    hash.Update(BytesAsText(piece.bytes));
    piece.digest = hash.Finish();
    if (piece.file->map.has_value()) piece.file->map->Release(piece.bytes);
    done += piece.bytes.size();
    if (thread == 0 && progress != nullptr) {
      progress(static_cast<double>(done.load()) / static_cast<double>(size_bytes()));
    }
  });
  Sha256 hash;
  auto piece = pieces.begin();
  for (const File* file : files) {
    if (files.size() > 1) {
      hash.UpdateInteger<uint64_t>(file->name.size());
      hash.Update(file->name);
    }
    hash.UpdateInteger<uint64_t>(file->bytes.size());
    for (; piece != pieces.end() && piece->file == file; ++piece) hash.Update(piece->digest);
  }
  return hash.Finish();
}

std::string ModelFiles::SampleDigest() const {
  constexpr uint64_t kSampleBytes = uint64_t{64} << 10;
  constexpr uint64_t kMostSamples = 512;
  const std::vector<const File*> files = SortedByName();
  const uint64_t apart = kSampleBytes * (1 + size_bytes() / (kSampleBytes * kMostSamples));
  Sha256 hash;
  for (const File* file : files) {
    if (files.size() > 1) {
      hash.UpdateInteger<uint64_t>(file->name.size());
      hash.Update(file->name);
    }
    hash.UpdateInteger<uint64_t>(file->bytes.size());
    for (uint64_t at = 0; at < file->bytes.size(); at += apart) {
      const absl::Span<const uint8_t> sample = file->bytes.subspan(at, kSampleBytes);
      hash.Update(BytesAsText(sample));
      if (file->map.has_value()) file->map->Release(sample);
    }
  }
  return hash.Finish();
}

std::string ModelFiles::Digest(const std::function<void(double)>& progress) const {
  BATON_CHECK(!files_.empty(), "a model has files");
  constexpr size_t kPieceBytes = size_t{8} << 20;
  const auto all = static_cast<double>(size_bytes());
  uint64_t done = 0;
  std::vector<std::pair<std::string, std::string>> digests;  // name, digest
  for (const File& file : files_) {
    Sha256 hash;
    for (size_t at = 0; at < file.bytes.size(); at += kPieceBytes) {
      const absl::Span<const uint8_t> piece = file.bytes.subspan(at, kPieceBytes);
      hash.Update(BytesAsText(piece));
      if (file.map.has_value()) file.map->Release(piece);
      done += piece.size();
      if (progress != nullptr) progress(static_cast<double>(done) / all);
    }
    digests.emplace_back(file.name, hash.Finish());
  }
  if (digests.size() == 1) return digests.front().second;
  std::sort(digests.begin(), digests.end());
  Sha256 hash;
  for (const auto& [name, digest] : digests) {
    hash.Update(absl::StrCat(ToHex(digest), "  ", name, "\n"));
  }
  return hash.Finish();
}

}  // namespace baton
