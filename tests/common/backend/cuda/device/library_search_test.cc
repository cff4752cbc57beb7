#include "common/backend/cuda/device/library_search.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kSoname = "libbaton_search_test.so.13";

// A machine of its own: a folder that stands for "/", and an environment.
class LibrarySearchTest : public testing::Test {
 protected:
  LibrarySearchTest() {
    root_ = testing::TempDir() + "library_search_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~LibrarySearchTest() override { std::filesystem::remove_all(root_); }

  LibrarySearch Search() const {
    return {.environment = [this](const char* name) -> std::optional<std::string> {
              const auto found = environment_.find(name);
              if (found == environment_.end()) return std::nullopt;
              return found->second;
            },
            .root = root_};
  }
  // Makes a file of the library's name in `folder`. Returns its path.
  std::string Put(const std::string& folder) const {
    std::filesystem::create_directories(root_ + folder);
    const std::string path = root_ + folder + "/" + kSoname;
    std::ofstream(path) << "no library";
    return path;
  }
  std::vector<std::string> Find() const {
    return FindLibraryFiles(kSoname, LibraryFolders(Search()));
  }

  std::string root_;
  std::map<std::string, std::string> environment_;
};

TEST_F(LibrarySearchTest, TakesTheNamedToolkitFirstThenTheNewestThenPythonsPackages) {
  const std::string dist = Put("/usr/lib/python3/dist-packages/nvidia/cublas/lib");
  const std::string user = Put("/home/me/.local/lib/python3.12/site-packages/nvidia/cu13/lib");
  const std::string venv = Put("/venv/lib/python3.11/site-packages/nvidia/cublas/lib");
  const std::string image = Put("/opt/torch/lib/python3.12/site-packages/nvidia/cu13/lib");
  const std::string path = Put("/packages/nvidia/cublas/lib");
  const std::string nine = Put("/usr/local/cuda-9.2/lib64");
  const std::string thirteen = Put("/usr/local/cuda-13.0/lib64");
  const std::string named = Put("/opt/toolkit/lib64");
  environment_ = {{"CUDA_HOME", root_ + "/opt/toolkit"},
                  {"CUDA_PATH", root_ + "/opt/toolkit"},
                  {"PYTHONPATH", "relative:" + root_ + "/packages"},
                  {"VIRTUAL_ENV", root_ + "/venv"},
                  {"PATH", "/usr/bin:" + root_ + "/opt/torch/bin:bin"},
                  {"HOME", root_ + "/home/me"}};
  EXPECT_THAT(Find(), ElementsAre(named, thirteen, nine, path, venv, image, user, dist));
}

TEST_F(LibrarySearchTest, TakesFilesOfThatVeryNameOnly) {
  Put("/usr/local/cuda-13.0/lib64");
  std::filesystem::rename(root_ + "/usr/local/cuda-13.0/lib64/" + kSoname,
                          root_ + "/usr/local/cuda-13.0/lib64/" + kSoname + ".1");
  std::filesystem::create_directories(root_ + "/usr/local/cuda-12.4/lib64/" + kSoname);
  EXPECT_THAT(Find(), ElementsAre());
}

TEST_F(LibrarySearchTest, IgnoresWhatTheEnvironmentDoesNotSayInFull) {
  environment_ = {{"CUDA_HOME", ""},
                  {"CUDA_PATH", "cuda"},
                  {"HOME", "."},
                  {"PYTHONPATH", ":."},
                  {"PATH", "bin:"}};
  for (const std::string& folder : LibraryFolders(Search())) {
    EXPECT_EQ(folder.rfind(root_, 0), 0u) << folder;
  }
}

TEST_F(LibrarySearchTest, LoadsALibraryThatTheLoaderDoesNotFind) {
  // The C++ library under another name stands for it.
  Dl_info cxx = {};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&std::terminate), &cxx), 0);
  const std::string folder = root_ + "/usr/local/cuda-13.0/lib64";
  std::filesystem::create_directories(folder);
  std::filesystem::create_symlink(std::filesystem::canonical(cxx.dli_fname),
                                  folder + "/" + kSoname);
  const auto library = LoadSharedLibrary(kSoname, "install it", Search());
  ASSERT_TRUE(library.ok()) << library.status();
  EXPECT_NE(dlsym(*library, "__cxa_throw"), nullptr);
}

TEST_F(LibrarySearchTest, SaysWhereItLookedWhatItFoundThereAndWhatHelps) {
  const std::string broken = Put("/usr/local/cuda-13.0/lib64");
  environment_ = {{"CUDA_HOME", root_ + "/opt/toolkit"}};
  const auto library = LoadSharedLibrary(kSoname, "install the toolkit", Search());
  ASSERT_EQ(library.status().code(), absl::StatusCode::kNotFound);
  const std::string message(library.status().message());
  EXPECT_THAT(message, HasSubstr(kSoname));
  EXPECT_THAT(message, HasSubstr(root_ + "/opt/toolkit/lib64"));
  EXPECT_THAT(message, HasSubstr(root_ + "/usr/local/cuda*/lib64"));
  EXPECT_THAT(message, HasSubstr("site-packages/nvidia/*/lib"));
  EXPECT_THAT(message, HasSubstr(broken));
  EXPECT_THAT(message, HasSubstr("install the toolkit"));
}

}  // namespace
}  // namespace baton
