// Reads the GGUF model file format, versions 2 and 3 (ggml docs/gguf.md), over a read-only memory
// map.
//
// The file is not trusted. Every count, length, offset and dimension is checked against the bytes
// that remain, before it is used or allocated. An error names the file, the key or tensor, and the
// remedy. Limits:
//   - 65,536 keys of at most 65,535 bytes
//   - 65,536 tensors with names of at most 64 bytes and 1 to 4 dimensions
//   - alignment 8 to 4,096
//   - 512 parts of a model that is split into several files
// Refused: arrays in arrays, doubled keys or tensor names, overlapping tensors, parts that are
// missing or of another model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/gguf/ggml_type.h"

namespace baton {

struct GgufTensor {
  std::string name;
  GgmlType type;
  // Innermost (contiguous) dimension first: a [rows, columns] matrix is {columns, rows}.
  std::vector<uint64_t> dims;
  // Points into the map; size_bytes() long. Empty in a model's list if no file has these bytes and
  // they are made when they are wanted: HeldTensor has them.
  absl::Span<const uint8_t> data;

  // Type and dims determine it; it is never 0.
  uint64_t size_bytes() const;
};

class GgufFile;
struct GgufSplit;
struct ModelParts;
enum class Quantisation;

// A tensor with its bytes. Bytes that are made are in memory while it lives, and those of a file
// leave this process's memory with it (GgufFile::Release). It must not outlive its file.
class HeldTensor {
 public:
  HeldTensor(HeldTensor&&) noexcept;
  HeldTensor& operator=(HeldTensor&&) = delete;
  ~HeldTensor();
  const GgufTensor& operator*() const { return tensor_; }
  const GgufTensor* operator->() const { return &tensor_; }

 private:
  friend class GgufFile;
  HeldTensor(const GgufFile& file, const GgufTensor& tensor) : file_(&file), tensor_(tensor) {}

  const GgufFile* file_;
  GgufTensor tensor_;
  std::unique_ptr<uint8_t[]> made_;  // null: tensor_.data points into the file
};

// A model, from one file or several, under the names that GGUF has for its keys and tensors.
// Immutable after Open: may be read from any thread. Movable. Spans and views into it stay valid
// while it, or the file that it was moved into, lives. Where the file on disk is cut or written to
// meanwhile, the process ends before or when it is destroyed (mapped_file.h).
class GgufFile {
 public:
  enum class Part {
    kAll,        // metadata and tensors; the tensors' bytes must be in the file
    kUnread,     // the same, where few of those bytes will be read
    kTokenizer,  // metadata only; the file may be cut off after it
  };
  // `path`: a file, or the first part of a split model, beside which the others lie. For
  // kTokenizer they may be missing. INVALID_ARGUMENT if the file is not a valid GGUF file; other
  // errors if it cannot be read.
  static absl::StatusOr<GgufFile> Open(const std::string& path, Part part = Part::kAll);
  // Opens bytes in memory (for tests and fuzzing). `name` takes the place of the path in errors.
  static absl::StatusOr<GgufFile> Parse(std::string bytes, const std::string& name,
                                        Part part = Part::kAll);
  // Puts a model of another format together. INVALID_ARGUMENT if its keys break the rules of GGUF.
  // REQUIRES: no two tensors have the same name, and their names, types and dims are those of GGUF.
  static absl::StatusOr<GgufFile> Assemble(ModelParts parts);

  // The model with some of its tensors quantised (quantisation.h), which is done when they are
  // held. Its digest is still that of the files.
  static GgufFile Quantised(GgufFile file, Quantisation quantisation);

  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  const std::string& path() const;  // as it was opened
  uint64_t size_bytes() const;      // total size of all files

  bool Has(absl::string_view key) const;
  // The value of `key`. Integers may have any width and sign if the value fits; floats may have
  // either width. NOT_FOUND names the missing key, INVALID_ARGUMENT the key and the type found.
  absl::StatusOr<uint64_t> GetUint(absl::string_view key) const;
  absl::StatusOr<int64_t> GetInt(absl::string_view key) const;
  absl::StatusOr<double> GetFloat(absl::string_view key) const;
  absl::StatusOr<bool> GetBool(absl::string_view key) const;
  absl::StatusOr<absl::string_view> GetString(absl::string_view key) const;
  absl::StatusOr<std::vector<absl::string_view>> GetStrings(absl::string_view key) const;
  absl::StatusOr<std::vector<int64_t>> GetInts(absl::string_view key) const;
  absl::StatusOr<std::vector<float>> GetFloats(absl::string_view key) const;
  absl::StatusOr<std::vector<bool>> GetBools(absl::string_view key) const;

  // All tensors in file order.
  absl::Span<const GgufTensor> tensors() const;
  // Null when no tensor has that name.
  const GgufTensor* FindTensor(absl::string_view name) const;

  // The rows of the embedding, one for each token that the model can compute: those of its tensor,
  // else what the key "ARCHITECTURE.vocab_size" says. nullopt if the file has neither, as one may
  // that was opened for kTokenizer and is cut off after its metadata.
  std::optional<uint64_t> VocabularyRows() const;

  // The tensor with its bytes, which may take a while to make. REQUIRES: it is one of tensors().
  HeldTensor Hold(const GgufTensor& tensor) const;

  // Takes the tensor's mapped bytes out of this process's memory once they are not needed any more.
  // They stay readable: the kernel reads them from the file again.
  void Release(const GgufTensor& tensor) const;

  // The SHA-256 (32 bytes) of the whole file, as `sha256sum` prints it; for a model in several
  // files, the SHA-256 of the list of their digests (model_files.h). The call reads every byte
  // and then releases the bytes (see Release). One thread hashes 100 MB in 0.05 s if the CPU has
  // instructions for SHA-256. `progress`, if not null, gets the fraction done, 0 to 1.
  std::string Digest(const std::function<void(double)>& progress = nullptr) const;
  // Calls work(thread, index) once for each index in [0, count), on any threads, and returns when
  // all calls have returned. Thread 0 is the calling one.
  using RunAll = absl::FunctionRef<void(int count, absl::FunctionRef<void(int, int)> work)>;
  // The weights' identity: a SHA-256 (32 bytes) that depends on every byte of the files as Digest
  // does, and that several threads make together (model_files.h). Reads and releases as Digest
  // does, and calls `progress` on the calling thread.
  std::string PiecewiseDigest(RunAll run,
                              const std::function<void(double)>& progress = nullptr) const;
  // A SHA-256 (32 bytes) that tells models apart without reading all their bytes: it depends on the
  // sizes of the files and on at most 32 MiB of samples, and 64 KiB of each further file
  // (model_files.h).
  std::string SampleDigest() const;
  // SHA-256 over the metadata under "tokenizer.", on which a router and its workers must agree.
  std::string TokenizerDigest() const;
  // SHA-256 over the metadata under the architecture's name, such as "llama.context_length". Empty
  // if the file does not name its architecture.
  std::string MetadataDigest() const;

 private:
  struct Rep;
  explicit GgufFile(std::unique_ptr<Rep> rep);
  // Opens the parts beside the first one, whose contents `rep` has.
  static absl::Status OpenParts(const GgufSplit& split, Part part, Rep& rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
