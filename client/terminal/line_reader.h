// Where a chat reads its lines: a stream, or a terminal with editing (terminal_lines.h).
#pragma once

#include <cstddef>
#include <istream>
#include <memory>
#include <optional>
#include <string>

namespace baton {

// Single-threaded.
class LineReader {
 public:
  virtual ~LineReader() = default;

  // Shows `prompt` on stderr and returns the next line without the newline at its end. A line has
  // newlines inside only if a terminal says that they were pasted. nullopt at the end.
  virtual std::optional<std::string> Read(const std::string& prompt) = 0;
};

// The lines of a stream, which must outlive it.
class StreamLines : public LineReader {
 public:
  // A line of `cut_at` bytes and more is left out and said on stderr: the terminal behind the
  // stream drops what is beyond. 0: no line is cut.
  explicit StreamLines(std::istream& in, size_t cut_at = 0) : in_(in), cut_at_(cut_at) {}

  std::optional<std::string> Read(const std::string& prompt) override;

 private:
  std::istream& in_;
  const size_t cut_at_;
};

// The lines of standard input: edited where it and stderr are a terminal that can move its cursor,
// else as they are.
std::unique_ptr<LineReader> StandardInputLines();

}  // namespace baton
