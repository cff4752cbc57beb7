#include "client/models/model_finder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace baton {
namespace {

namespace fs = std::filesystem;

absl::Status Unreadable(const fs::path& path, const std::error_code& error) {
  return absl::Status(absl::ErrnoToStatusCode(error.value()),
                      absl::StrCat(path.string(), ": cannot be read (", error.message(),
                                   "); check the path and the permissions"));
}

// The name of a split model's first part if `name` is that of any part, such as
// m-00002-of-00003.gguf; else nothing.
std::string FirstPartName(const std::string& name) {
  constexpr absl::string_view kForm = "-00000-of-00000.gguf";
  if (name.size() <= kForm.size()) return "";
  const size_t begin = name.size() - kForm.size();
  for (size_t i = 0; i < kForm.size(); ++i) {
    const char c = name[begin + i];
    if (kForm[i] == '0' ? !absl::ascii_isdigit(static_cast<unsigned char>(c)) : c != kForm[i]) {
      return "";
    }
  }
  return absl::StrCat(name.substr(0, begin), "-00001", name.substr(begin + 6));
}

class Finder {
 public:
  explicit Finder(const std::string& root) : root_(root) {}

  absl::StatusOr<std::vector<std::string>> Find() && {
    BATON_RETURN_IF_ERROR(Look(root_, 0));
    if (!found_.empty()) return std::move(found_);
    return absl::NotFoundError(
        absl::StrCat(root_, ": contains neither *.gguf files nor folders with config.json within ",
                     kMaxFolderDepth, " levels; name a model's file or folder"));
  }

 private:
  absl::Status Look(const fs::path& folder, int depth) {
    BATON_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, List(folder));
    for (const fs::path& entry : entries) {
      std::error_code error;
      const fs::file_status facts = fs::status(entry, error);
      if (fs::is_directory(facts)) {
        if (IsModelFolder(entry)) {
          found_.push_back(entry.string());
        } else if (depth < kMaxFolderDepth) {
          BATON_RETURN_IF_ERROR(Look(entry, depth + 1));
        }
      } else if (fs::is_regular_file(facts) && entry.extension() == ".gguf" &&
                 !FollowsAnotherPart(entry)) {
        found_.push_back(entry.string());
      }
    }
    return absl::OkStatus();
  }

  // The entries of a folder in the order of their names.
  absl::StatusOr<std::vector<fs::path>> List(const fs::path& folder) {
    std::vector<fs::path> entries;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
      if (++seen_ > kMaxFolderEntries) {
        return absl::ResourceExhaustedError(
            absl::StrCat(root_, ": has more than ", kMaxFolderEntries,
                         " files and folders; name a folder inside it"));
      }
      entries.push_back(entry->path());
    }
    if (error) return Unreadable(folder, error);
    std::sort(entries.begin(), entries.end());
    return entries;
  }

  // Whether the file is named as a part of a split model whose first part is beside it.
  static bool FollowsAnotherPart(const fs::path& path) {
    const std::string first = FirstPartName(path.filename().string());
    std::error_code ignored;
    return !first.empty() && first != path.filename() &&
           fs::exists(path.parent_path() / first, ignored);
  }

  const std::string root_;
  std::vector<std::string> found_;
  int seen_ = 0;  // entries
};

}  // namespace

bool IsModelFolder(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::path(path) / "config.json", ignored);
}

absl::StatusOr<std::vector<std::string>> FindModels(const std::string& path) {
  std::error_code error;
  const fs::file_status facts = fs::status(path, error);
  if (facts.type() == fs::file_type::not_found) {
    return absl::NotFoundError(absl::StrCat(path,
                                            ": does not exist; name a GGUF file, a Hugging Face "
                                            "folder, or a folder that contains models"));
  }
  if (facts.type() == fs::file_type::none) return Unreadable(path, error);
  if (!fs::is_directory(facts) || IsModelFolder(path)) return std::vector<std::string>{path};
  return Finder(path).Find();
}

}  // namespace baton
